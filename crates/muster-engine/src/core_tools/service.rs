//! `core_service_*`: the gateway itself, MCP servers and services.

mod instance;

use std::sync::Arc;

use muster_api::{
    service::{MCP_SERVER, ServiceHealth, ServiceList, ServiceStatus},
    state::BackendState,
};
use muster_core::{backend::CallContext, call::Caller};
use muster_gateway::{
    condition::ServerCondition,
    dispatch::{CORE_BACKEND, GatewaySnapshot},
};
use serde_json::{Map, Value, json};

use super::{
    Args, CoreTool, Failure, Reply, ToolAudience, ToolReply,
    mcpserver::{family, named, redacted, session},
    object,
};
use crate::{
    events::Reason,
    handle::{Handle, VisibleServers},
    redact,
    services::{Started, Stopped},
    status::moment,
    view::{ServerEntry, View},
};

pub(super) use self::instance::TOOLS as INSTANCE_TOOLS;

/// The gateway itself, as a service.
pub(crate) const AGGREGATOR: &str = "mcp-aggregator";

pub(super) const TOOLS: &[CoreTool] = &[
    CoreTool {
        name: "core_service_list",
        audience: ToolAudience::Everyone,
        effect: None,
        summary: "List the gateway itself, every MCP server and every service created from a class, \
                  with state and health.",
        schema: || json!({"type": "object"}),
        run: |handle, cx, _| Box::pin(async move { Ok(list(handle, cx.caller)) }),
    },
    CoreTool {
        name: "core_service_start",
        audience: ToolAudience::Operators,
        effect: None,
        summary: "Start a service, and wait until it is up or failed.",
        schema: || named("Name of the service"),
        run: |handle, cx, args| Box::pin(start(handle, cx, args)),
    },
    CoreTool {
        name: "core_service_stop",
        audience: ToolAudience::Operators,
        effect: None,
        summary: "Stop a service. Its tools are gone until it is started again.",
        schema: || named("Name of the service"),
        run: |handle, cx, args| Box::pin(stop(handle, cx, args)),
    },
    CoreTool {
        name: "core_service_restart",
        audience: ToolAudience::Operators,
        effect: None,
        summary: "Stop a service and start it again.",
        schema: || named("Name of the service"),
        run: |handle, cx, args| Box::pin(restart(handle, cx, args)),
    },
    CoreTool {
        name: "core_service_status",
        audience: ToolAudience::Everyone,
        effect: None,
        summary: "Show state, health and details of one service.",
        schema: || named("Name of the service"),
        run: |handle, cx, args| Box::pin(status(handle, cx, args)),
    },
];

fn find(handle: &Handle, caller: &Caller, name: &str) -> Option<ServiceStatus> {
    let (view, visible) = (handle.now(), handle.visible_servers(caller));
    if name == AGGREGATOR {
        return Some(aggregator(handle, &view, &visible));
    }
    if let Some(entry) = view.servers.get(name) {
        return visible.has(name).then(|| {
            let mut status = server(entry);
            if entry.status.needs_login
                && let Some(session) = session(handle, caller, entry)
            {
                let session = json!(session.session_status);
                status.metadata.insert("sessionStatus".to_owned(), session);
            }
            status
        });
    }
    handle.services.get(name).map(|instance| instance::status(handle, &instance))
}

fn server(entry: &ServerEntry) -> ServiceStatus {
    let (spec, status) = (&entry.server.spec, &entry.status);
    let mut metadata = Map::new();
    let mut put = |name: &str, value: Value| drop(metadata.insert(name.to_owned(), value));
    let args: Vec<String> = redact::arguments(&spec.args);
    put("args", if args.is_empty() { Value::Null } else { json!(args) });
    put("autoStart", json!(spec.auto_start));
    if status.condition.is_up() {
        put("client", json!({}));
    }
    put("clientReady", json!(status.condition.is_up()));
    put("command", json!(spec.command));
    put("consecutiveFailures", json!(status.failures));
    put("description", json!(spec.description));
    put("env", if spec.env.is_empty() { Value::Null } else { json!(redacted(&spec.env)) });
    put(
        "headers",
        if spec.headers.is_empty() { Value::Null } else { json!(redacted(&spec.headers)) },
    );
    put("family", json!(family(spec)));
    put("health", json!(status.condition.health()));
    put("name", json!(entry.server.name));
    put("state", json!(status.condition.state()));
    put("timeout", json!(spec.timeout));
    put("toolPrefix", json!(spec.tool_prefix));
    put("type", json!(spec.kind.as_str()));
    put("url", json!(redact::address(&spec.url)));
    if let Some(auth) = &spec.auth {
        put("auth", json!(auth));
    }
    if let Some(error) = &status.error {
        put("error", json!(error));
    }
    if let Some(at) = status.last_attempt {
        put("lastAttempt", json!(moment(at)));
    }
    if let Some(at) = status.next_retry {
        put("nextRetryAfter", json!(moment(at)));
    }
    if let Some(protocol) = &status.protocol {
        put("protocolVersion", json!(protocol));
    }
    put("restartCount", json!(status.restarts));
    put("tools", json!(entry.counts.tools));
    ServiceStatus {
        name: entry.server.name.clone(),
        service_type: MCP_SERVER.to_owned(),
        state: status.condition.state(),
        health: status.condition.health(),
        error: status.error.clone(),
        metadata,
        outputs: Map::new(),
    }
}

fn aggregator(handle: &Handle, view: &View, visible: &VisibleServers) -> ServiceStatus {
    let settings = &view.settings.aggregator;
    let GatewaySnapshot { catalog, policy, .. } = visible.snapshot();
    let servers = || view.servers.values().filter(|entry| visible.has(&entry.server.name));
    let tools = || catalog.callable().filter(|(_, entry)| entry.is_upstream());
    let blocked: Vec<Value> = tools()
        .filter(|(_, entry)| policy.blocks(entry))
        .map(|(_, entry)| json!({"Tool": {"name": entry.name}, "Blocked": true}))
        .collect();
    let endpoint = handle.endpoint.borrow().clone();
    let endpoint =
        endpoint.unwrap_or_else(|| format!("http://{}:{}/mcp", settings.host, settings.port));
    let yolo = handle.destructive == muster_core::policy::DestructiveTools::Allowed;
    let metadata = json!({
        "blocked_tools": blocked.len(),
        "endpoint": endpoint,
        "event_handler_running": true,
        "host": settings.host,
        "port": settings.port,
        "prompts": catalog.prompts().count(),
        "resources": catalog.resources().filter(|one| one.backend.as_str() != CORE_BACKEND).count(),
        "servers_connected": servers().filter(|entry| entry.status.condition.is_up()).count(),
        "servers_total": servers().count(),
        "service_type": "aggregator",
        "tools": tools().count(),
        "tools_with_status": blocked,
        "yolo": yolo,
    });
    ServiceStatus {
        name: AGGREGATOR.to_owned(),
        service_type: "Aggregator".to_owned(),
        state: BackendState::Running,
        health: ServiceHealth::Healthy,
        error: None,
        metadata: metadata.as_object().cloned().unwrap_or_default(),
        outputs: Map::new(),
    }
}

fn list(handle: &Handle, caller: &Caller) -> Reply {
    let (view, visible) = (handle.now(), handle.visible_servers(caller));
    let servers = view.servers.values().filter(|entry| visible.has(&entry.server.name));
    let instances = handle.services.all();
    let instances = instances.iter().map(|instance| instance::status(handle, instance));
    let services: Vec<ServiceStatus> = std::iter::once(aggregator(handle, &view, &visible))
        .chain(servers.map(|entry| server(entry)))
        .chain(instances)
        .collect();
    object(&ServiceList { total: services.len(), services })
}

fn name(args: &Args) -> Result<&str, String> {
    args.text("name").ok_or_else(|| "name is required".to_owned())
}

async fn status(handle: &Handle, cx: CallContext<'_>, args: Args) -> ToolReply {
    let name = name(&args)?;
    let problem = handle.services.refresh(cx, name).await;
    match find(handle, cx.caller, name) {
        Some(status) => Ok(object(&ServiceStatus { error: status.error.or(problem), ..status })),
        None => Err(Failure::not_found(format!(
            "Failed to get service status: service {name} not found"
        ))),
    }
}

/// Whether a service was created from a class.
fn is_instance(handle: &Handle, name: &str) -> bool {
    handle.services.get(name).is_some() && !handle.services.is_static(name)
}

async fn start(handle: &Handle, cx: CallContext<'_>, args: Args) -> ToolReply {
    let name = name(&args)?;
    let already = || Ok(format!("Service '{name}' is already running").into());
    if is_instance(handle, name) {
        return match handle.services.start(cx, name).await {
            Ok(Started::Now) => Ok(format!("Successfully started service '{name}'").into()),
            Ok(Started::Already) => already(),
            Err(problem) => Err(instance::unable("start", name, &problem)),
        };
    }
    if name == AGGREGATOR {
        return already();
    }
    let unknown =
        || Failure::not_found(format!("Failed to start service: service {name} not found"));
    let entry = handle.now().servers.get(name).cloned().ok_or_else(unknown)?;
    let entry = match entry.status.condition {
        ServerCondition::Running | ServerCondition::Connected => return already(),
        ServerCondition::AwaitingApproval => return Err(awaits_approval("start", name).into()),
        // Another call is starting it.
        ServerCondition::Starting => handle.wait_until_settled(name, entry.status.generation).await,
        _ => set_running(handle, name, true).await?,
    };
    began(&*entry.ok_or_else(unknown)?, "start")?;
    Ok(format!("Successfully started service '{name}'").into())
}

async fn restart(handle: &Handle, cx: CallContext<'_>, args: Args) -> ToolReply {
    let name = name(&args)?;
    if is_instance(handle, name) {
        let restarted = handle.services.restart(cx, name).await;
        restarted.map_err(|problem| instance::unable("restart", name, &problem))?;
        return Ok(format!("Successfully restarted service '{name}'").into());
    }
    if name == AGGREGATOR {
        return Err(itself("restart").into());
    }
    let unknown =
        || Failure::not_found(format!("Failed to restart service: service {name} not found"));
    let before = handle.now().servers.get(name).cloned().ok_or_else(unknown)?;
    if before.status.condition == ServerCondition::AwaitingApproval {
        return Err(awaits_approval("restart", name).into());
    }
    // The recovery of a server that had failed is recorded with its changes of state.
    let records = before.status.failures == 0;
    record_if(records, handle, &before, Reason::McpServerRecoveryStarted);
    let entry = set_running(handle, name, true).await?.ok_or_else(unknown)?;
    match entry.status.condition {
        ServerCondition::Failed | ServerCondition::Unreachable => {
            record_if(records, handle, &entry, Reason::McpServerRecoveryFailed);
        }
        condition if condition.is_up() => {
            record_if(records, handle, &entry, Reason::McpServerRecoverySucceeded);
        }
        _ => (),
    }
    began(&entry, "restart")?;
    Ok(format!("Successfully restarted service '{name}'").into())
}

/// Records an event of a server, with the error of the server.
fn record_if(records: bool, handle: &Handle, entry: &ServerEntry, reason: Reason) {
    if records {
        let (server, error) = (&entry.server, entry.status.error.as_deref().unwrap_or_default());
        handle.journal.tell(reason, &server.name, &server.namespace, error);
    }
}

async fn stop(handle: &Handle, cx: CallContext<'_>, args: Args) -> ToolReply {
    let name = name(&args)?;
    if is_instance(handle, name) {
        return match handle.services.stop(cx, name).await {
            Ok(Stopped::Now) => Ok(format!("Successfully stopped service '{name}'").into()),
            Ok(Stopped::Already) => Ok(format!("Service '{name}' is already stopped").into()),
            Err(problem) => Err(instance::unable("stop", name, &problem)),
        };
    }
    if name == AGGREGATOR {
        return Err(itself("stop").into());
    }
    let unknown =
        || Failure::not_found(format!("Failed to stop service: service {name} not found"));
    let entry = handle.now().servers.get(name).cloned().ok_or_else(unknown)?;
    if entry.status.condition.is_down()
        || entry.status.condition == ServerCondition::AwaitingApproval
    {
        return Ok(format!("Service '{name}' is already stopped").into());
    }
    set_running(handle, name, false).await?.ok_or_else(unknown)?;
    Ok(format!("Successfully stopped service '{name}'").into())
}

/// Starts, restarts or stops a server, at all replicas if one of them runs it for all.
async fn set_running(
    handle: &Handle,
    name: &str,
    running: bool,
) -> Result<Option<Arc<ServerEntry>>, Failure> {
    let done = handle.set_running(name, running).await;
    let operation = if running { "start" } else { "stop" };
    done.map_err(|error| format!("Failed to {operation} service {name}: {error}").into())
}

fn awaits_approval(operation: &str, name: &str) -> String {
    format!(
        "Failed to {operation} service: {name} was added or changed by an agent and awaits approval; an operator \
         approves it with: muster approve mcpserver {name}"
    )
}

/// The error for an operation on the gateway itself, which clients cannot stop.
fn itself(operation: &str) -> String {
    format!(
        "Failed to {operation} service: {AGGREGATOR} is the gateway that answers this call; {operation} the muster process instead"
    )
}

/// Checks that a started server is up.
fn began(entry: &ServerEntry, operation: &str) -> Result<(), String> {
    let name = &entry.server.name;
    match entry.status.condition {
        ServerCondition::Running | ServerCondition::Connected => Ok(()),
        ServerCondition::AuthRequired => Err(format!(
            "Service '{name}' requires OAuth authentication. Use core_auth_login(server=\"{name}\") to \
             log in; core_service_{operation} cannot be used for that, because authentication is per \
             session"
        )),
        ServerCondition::Starting
        | ServerCondition::Stopping
        | ServerCondition::Stopped
        | ServerCondition::Disconnected
        | ServerCondition::Failed
        | ServerCondition::Unreachable
        | ServerCondition::AwaitingApproval => {
            let error = entry.status.error.as_deref().unwrap_or("it was stopped meanwhile");
            Err(format!("Failed to {operation} service {name}: {error}"))
        }
    }
}
