//! `core_mcpserver_*`: the definitions of MCP servers.

mod import;

use indexmap::IndexMap;
use muster_api::{
    auth::LoginState,
    mcp_server::{McpServerFamily, McpServerInfo, McpServerList, McpServerSession, ServerLog},
};
use muster_config::{
    mcpserver::{McpServerSpec, McpServerStatus, SPEC},
    schema::arguments,
};
use muster_core::{
    backend::CallContext,
    call::Caller,
    fields::{Field, FieldTable, FieldType, NONE},
};
use muster_gateway::condition::ServerCondition;
use serde_json::{Value, json};

use super::{
    Args, CoreTool, Failure, Reply, ToolAudience, ToolReply, args::unfit,
    auth::status::login_state, object,
};
use crate::{
    events::Reason,
    handle::Handle,
    reconcile::{Edit, EditError},
    redact,
    server_draft::ServerDraft,
    status,
    user_connections::OwnerStanding,
    view::ServerEntry,
};

pub(super) const TOOLS: &[CoreTool] = &[
    CoreTool {
        name: "core_mcpserver_list",
        audience: ToolAudience::Everyone,
        effect: None,
        summary: "List the MCP servers behind the gateway with their definitions and states. Servers \
                  that failed are left out unless showAll is true. Secrets are redacted.",
        schema: || {
            json!({"type": "object", "properties": {
                "showAll": {"type": "boolean", "default": false, "description": "Also list servers that failed"},
                "verbose": {"type": "boolean", "default": false, "description": "Also show why a server failed"},
            }})
        },
        run: |handle, cx, args| Box::pin(async move { Ok(list(handle, cx, &args)) }),
    },
    CoreTool {
        name: "core_mcpserver_get",
        audience: ToolAudience::Everyone,
        effect: None,
        summary: "Show the definition and the state of one MCP server. Secrets are redacted.",
        schema: || named("Name of the MCP server"),
        run: |handle, cx, args| Box::pin(async move { get(handle, cx, &args) }),
    },
    CoreTool {
        name: "core_mcpserver_validate",
        audience: ToolAudience::Everyone,
        effect: None,
        summary: "Check the definition of an MCP server without storing it.",
        schema: || arguments(FIELDS, &["name", "type"], true),
        run: |handle, _, args| Box::pin(async move { validate(handle, args) }),
    },
    CoreTool {
        name: "core_mcpserver_create",
        audience: ToolAudience::Operators,
        effect: None,
        summary: "Add an MCP server. Its file is written, and with autoStart it is connected at once.",
        schema: || arguments(FIELDS, &["name", "type"], true),
        run: |handle, cx, args| Box::pin(create(handle, cx, args)),
    },
    CoreTool {
        name: "core_mcpserver_update",
        audience: ToolAudience::Operators,
        effect: None,
        summary: "Change an MCP server. Fields that are not given keep their values; `auth` is \
                  replaced as a whole. With another address, command or args, secrets and `auth` that are \
                  not given again are dropped. A running server is reconnected if the change requires it.",
        schema: || arguments(UPDATE_FIELDS, &["name"], false),
        run: |handle, cx, args| Box::pin(update(handle, cx, args)),
    },
    CoreTool {
        name: "core_mcpserver_approve",
        audience: ToolAudience::Operators,
        effect: None,
        summary: "Approve an MCP server that an agent added or changed, so that it can be connected. With \
                  autoStart it is connected at once.",
        schema: || named("Name of the MCP server"),
        run: |handle, _, args| Box::pin(approve(handle, args)),
    },
    CoreTool {
        name: "core_mcpserver_delete",
        audience: ToolAudience::Operators,
        effect: None,
        summary: "Delete an MCP server: it is disconnected, and its file is deleted.",
        schema: || named("Name of the MCP server"),
        run: |handle, _, args| Box::pin(delete(handle, args)),
    },
    CoreTool {
        name: "core_mcpserver_logs",
        audience: ToolAudience::Operators,
        effect: None,
        summary: "Show the last lines that a local MCP server wrote to standard error, and lines on standard \
                  output that are not messages.",
        schema: || {
            json!({"type": "object", "required": ["name"], "properties": {
                "name": {"type": "string", "description": "Name of the MCP server"},
                "tail": {"type": "integer", "default": 100, "description": "The number of lines"},
                "after": {"type": "integer", "default": 0, "description": "Only lines with a higher number"},
            }})
        },
        run: |handle, _, args| Box::pin(logs(handle, args)),
    },
    import::TOOL,
];

static NAME: FieldTable = FieldTable::new(
    "MCPServer",
    "MCP server",
    &[Field::required(
        "name",
        FieldType::String,
        "Name of the MCP server; it is part of the names of its tools",
    )],
);

static RESET: FieldTable = FieldTable::new(
    "MCPServer",
    "MCP server",
    &[Field::nullable(
        "reset",
        FieldType::List(&FieldType::String),
        NONE,
        "Names of fields that get their defaults",
    )],
);

const FIELDS: &[&FieldTable] = &[&NAME, &SPEC];
const UPDATE_FIELDS: &[&FieldTable] = &[&NAME, &SPEC, &RESET];

/// The schema of a tool that only takes a name.
pub(super) fn named(description: &str) -> Value {
    json!({"type": "object", "required": ["name"], "properties": {
        "name": {"type": "string", "description": description},
    }})
}

/// A caller's session at a server; `None` if the server is stopped.
pub(super) fn session(
    handle: &Handle,
    caller: &Caller,
    entry: &ServerEntry,
) -> Option<McpServerSession> {
    let (session_status, connected_at, tools_count) =
        match handle.user_connections.standing(&caller.owner(), &entry.server.name) {
            OwnerStanding::Connected { counts, since } => {
                (LoginState::Connected, Some(status::moment(since)), Some(counts.tools))
            }
            OwnerStanding::None if entry.status.condition.is_down() => return None,
            _ => (login_state(handle, caller, entry), None, None),
        };
    Some(McpServerSession { session_status, connected_at, tools_count })
}

fn info(entry: &ServerEntry) -> McpServerInfo {
    let spec = &entry.server.spec;
    let McpServerStatus {
        last_error, consecutive_failures, last_attempt, next_retry_after, ..
    } = entry.status.stored(spec.kind);
    let state = entry.status.condition.stored(spec.kind);
    let open = entry.breaker.open().filter(|_| entry.status.condition.is_up());
    McpServerInfo {
        name: entry.server.name.clone(),
        r#type: spec.kind.as_str().to_owned(),
        description: spec.description.clone(),
        auto_start: spec.auto_start,
        command: spec.command.clone(),
        args: redact::arguments(&spec.args),
        url: redact::address(&spec.url),
        env: redacted(&spec.env),
        inherit_env: spec.inherit_env.clone(),
        headers: redacted(&spec.headers),
        auth: spec.auth.as_ref().map(|auth| json!(auth)),
        timeout: spec.timeout.into(),
        call_timeout: spec.call_timeout.into(),
        protocol_era: spec.protocol_era.chosen().unwrap_or_default().to_owned(),
        run_on: spec.run_on.chosen().unwrap_or_default().to_owned(),
        tool_prefix: spec.tool_prefix.clone(),
        family: family(spec),
        registered_by: entry.server.registered_by().unwrap_or_default().to_owned(),
        status_message: match open {
            Some(open) => format!("Calls fail at once: {}", open.reason()),
            None => status::message(state, &last_error, &entry.server.name),
        },
        call_failures: open.map_or(0, |open| open.failures),
        error: last_error,
        state,
        since: Some(status::moment(entry.since)),
        consecutive_failures,
        last_attempt,
        next_retry_after,
        session: None,
    }
}

/// The family of a server; `None` if it has no name.
pub(super) fn family(spec: &McpServerSpec) -> Option<McpServerFamily> {
    let family = spec.family.as_ref().filter(|family| !family.name.is_empty())?;
    let (name, instance_arg) = (family.name.clone(), family.instance_arg.clone());
    Some(McpServerFamily { name, instance_arg })
}

/// Settings with secrets redacted.
pub(super) fn redacted(settings: &IndexMap<String, String>) -> IndexMap<String, String> {
    let redacted = |(name, value): (&String, &String)| {
        (name.clone(), redact::setting(name, value).into_owned())
    };
    settings.iter().map(redacted).collect()
}

fn list(handle: &Handle, cx: CallContext<'_>, args: &Args) -> Reply {
    let (view, visible) = (handle.now(), handle.visible_servers(cx.caller));
    let entries: Vec<&ServerEntry> = view
        .servers
        .values()
        .map(|entry| &**entry)
        .filter(|entry| visible.has(&entry.server.name))
        .collect();
    let (all, verbose) = (args.flag("showAll"), args.flag("verbose"));
    let has_failed = |entry: &ServerEntry| {
        matches!(entry.status.condition, ServerCondition::Failed | ServerCondition::Unreachable)
    };
    let (hidden, shown): (Vec<&ServerEntry>, Vec<&ServerEntry>) =
        entries.into_iter().partition(|entry| !all && has_failed(entry));
    let shown = shown.into_iter();
    let infos = shown.map(|entry| {
        let session = session(handle, cx.caller, entry);
        let info = info(entry);
        let error = if verbose { info.error } else { String::new() };
        McpServerInfo { session, error, ..info }
    });
    let servers: Vec<McpServerInfo> = infos.collect();
    let failed = Some(hidden.len()).filter(|failed| *failed > 0);
    // The first line is that of the original; the others name the hidden servers and the reasons.
    let hint = |failed: usize| {
        let first =
            format!("({failed} failed servers hidden, use --all to show, --verbose for details)");
        let reasons = hidden.iter().map(|entry| {
            let McpServerInfo { name, status_message, error, .. } = info(entry);
            format!("\n  {name}: {}", if error.is_empty() { status_message } else { error })
        });
        std::iter::once(first).chain(reasons).collect()
    };
    object(&McpServerList {
        hidden_failed: failed,
        hint: failed.map(hint),
        total: servers.len(),
        mcp_servers: servers,
        mode: "filesystem".to_owned(),
    })
}

fn get(handle: &Handle, cx: CallContext<'_>, args: &Args) -> ToolReply {
    let name = args.text("name").ok_or("name argument is required")?;
    let visible = handle.visible_servers(cx.caller);
    match handle.now().servers.get(name).filter(|_| visible.has(name)) {
        // Without the session, a server that the caller is logged in to would seem to require a login.
        Some(entry) if entry.status.needs_login => {
            let session = session(handle, cx.caller, entry);
            Ok(object(&McpServerInfo { session, ..info(entry) }))
        }
        Some(entry) => Ok(object(&info(entry))),
        None => Err(Failure::not_found(format!(
            "Failed to get MCP server: MCP server {name} not found"
        ))),
    }
}

async fn logs(handle: &Handle, args: Args) -> ToolReply {
    let name = args.text("name").ok_or("name argument is required")?;
    let failed = |reason: &str| format!("Failed to show the log: MCP server {name} {reason}");
    match handle.now().servers.get(name) {
        None => Err(Failure::not_found(failed("not found"))),
        Some(entry) if !entry.server.spec.kind.is_local() => {
            Err(failed("is remote: its log is on its own machine").into())
        }
        Some(entry) => {
            let tail = args.count("tail").unwrap_or(100);
            let after = args.any("after").and_then(Value::as_u64).unwrap_or_default();
            let leased = handle.leased.as_ref().filter(|_| entry.server.spec.runs_on_one());
            let elsewhere = match leased {
                Some(leased) => leased.logs(name, tail, after).await.map_err(|e| failed(&e))?,
                None => None,
            };
            let lines = elsewhere.unwrap_or_else(|| handle.logs.tail(name, tail, after));
            Ok(object(&ServerLog { name: name.to_owned(), lines }))
        }
    }
}

fn draft(
    args: Args,
    request: &str,
    fields: &[&'static FieldTable],
) -> Result<ServerDraft, Failure> {
    Ok(ServerDraft::new(args.strict(request, fields)?).map_err(unfit)?)
}

fn validate(handle: &Handle, args: Args) -> ToolReply {
    let draft = draft(args, "MCPServerValidateRequest", FIELDS)?;
    let checked = draft.create(handle.now().settings.namespace());
    let server = checked.map_err(|invalid| format!("Validation failed: {invalid}"))?;
    Ok(format!("Validation successful for mcpserver {}", server.name).into())
}

async fn create(handle: &Handle, cx: CallContext<'_>, args: Args) -> ToolReply {
    let draft = draft(args, "MCPServerCreateRequest", FIELDS)?
        .by(handle.role_of(cx.caller))
        .registered_by(cx.caller);
    let name = draft.name.clone();
    match handle.edit(Edit::Create(Box::new(draft))).await {
        Ok(()) => Ok(format!(
            "MCP server '{name}' created successfully{}",
            awaiting_approval(handle, &name)
        )
        .into()),
        Err(EditError::Invalid(invalid)) => {
            Err(format!("Invalid MCP server definition: {invalid}").into())
        }
        Err(error) => {
            tell_unchanged(handle, &name, &error);
            match error {
                EditError::Exists(_) => Err(error.to_string().into()),
                error => Err(format!("Failed to create MCP server: {error}").into()),
            }
        }
    }
}

/// Records that a definition could not be stored or deleted.
fn tell_unchanged(handle: &Handle, name: &str, error: &EditError) {
    let detail = format!("its definition was not changed: {error}");
    let view = handle.now();
    handle.journal.tell(Reason::McpServerFailed, name, view.settings.namespace(), &detail);
}

async fn update(handle: &Handle, cx: CallContext<'_>, args: Args) -> ToolReply {
    let draft = draft(args, "MCPServerUpdateRequest", UPDATE_FIELDS)?.by(handle.role_of(cx.caller));
    let name = draft.name.clone();
    if name.is_empty() {
        return Err("Invalid MCP server definition: name is required".into());
    }
    let known = handle.now().servers.get(&name).cloned();
    let dropped = known.map(|known| draft.dropped_secrets(&known.server)).unwrap_or_default();
    match handle.edit(Edit::Update(Box::new(draft))).await {
        Ok(()) => {
            let dropped = match dropped.is_empty() {
                true => String::new(),
                false => format!(
                    "\nIts address, command or args changed, so these secrets were dropped: {}. To keep \
                     them, give them in the same call.",
                    dropped.join(", ")
                ),
            };
            let awaiting = awaiting_approval(handle, &name);
            Ok(format!("MCP server '{name}' updated successfully{dropped}{awaiting}").into())
        }
        Err(EditError::Invalid(invalid)) => {
            Err(format!("Invalid MCP server definition: {invalid}").into())
        }
        Err(error) => {
            tell_unchanged(handle, &name, &error);
            Err(format!("Failed to update MCP server: {error}").into())
        }
    }
}

/// A remark about the approval that a server needs before it is connected.
fn awaiting_approval(handle: &Handle, name: &str) -> String {
    let view = handle.now();
    match view.servers.get(name).is_some_and(|known| known.server.spec.is_pending()) {
        true => format!(
            "\nIt is not connected until an operator approves it: muster approve mcpserver {name}"
        ),
        false => String::new(),
    }
}

async fn approve(handle: &Handle, args: Args) -> ToolReply {
    let name = args.text("name").ok_or("name argument is required")?;
    if handle.now().servers.get(name).is_some_and(|known| !known.server.spec.is_pending()) {
        return Ok(format!("MCP server '{name}' does not wait for approval").into());
    }
    match handle.edit(Edit::Approve(name.to_owned())).await {
        Ok(()) => Ok(format!("MCP server '{name}' approved successfully").into()),
        Err(error) => Err(format!("Failed to approve MCP server: {error}").into()),
    }
}

async fn delete(handle: &Handle, args: Args) -> ToolReply {
    let name = args.text("name").ok_or("name argument is required")?;
    match handle.edit(Edit::Delete(name.to_owned())).await {
        Ok(()) => Ok(format!("MCP server '{name}' deleted successfully").into()),
        Err(error) => {
            tell_unchanged(handle, name, &error);
            let failed = format!("Failed to delete MCP server: {error}");
            match error {
                EditError::Unknown(_) => Err(Failure::not_found(failed)),
                _ => Err(failed.into()),
            }
        }
    }
}
