//! `core_mcpserver_*`: the definitions of the servers behind the gateway.

use indexmap::IndexMap;
use muster_config::{
    mcpserver::{Status, fields::SPEC},
    schema::arguments,
};
use muster_core::{
    backend::CallContext,
    fields::{Field, FieldTable, FieldType},
    server_auth::ServerAuth,
};
use serde::Serialize;
use serde_json::{Value, json};

use super::{Args, CoreTool, ToolReply, args::unfit, object};
use crate::{
    handle::Handle,
    principals::OwnerStanding,
    reconcile::{Edit, EditError},
    redact,
    server_draft::ServerDraft,
    status,
    view::ServerEntry,
};

pub(super) const TOOLS: &[CoreTool] = &[
    CoreTool {
        name: "core_mcpserver_list",
        summary: "List the MCP servers behind the gateway with their definitions and states. Servers \
                  that failed are left out unless showAll is true. Secrets are hidden.",
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
        summary: "Show the definition and the state of one MCP server. Secrets are hidden.",
        schema: || named("Name of the MCP server"),
        run: |handle, _, args| Box::pin(async move { get(handle, &args) }),
    },
    CoreTool {
        name: "core_mcpserver_validate",
        summary: "Check the definition of an MCP server without storing it.",
        schema: || arguments(FIELDS, &["name", "type"], true),
        run: |handle, _, args| Box::pin(async move { validate(handle, args) }),
    },
    CoreTool {
        name: "core_mcpserver_create",
        summary: "Add an MCP server. Its file is written, and with autoStart it is connected at once.",
        schema: || arguments(FIELDS, &["name", "type"], true),
        run: |handle, _, args| Box::pin(create(handle, args)),
    },
    CoreTool {
        name: "core_mcpserver_update",
        summary: "Change an MCP server. What is not given stays as it is; `auth` is replaced as a \
                  whole. A server that runs is connected anew if it has to be.",
        schema: || arguments(FIELDS, &["name"], false),
        run: |handle, _, args| Box::pin(update(handle, args)),
    },
    CoreTool {
        name: "core_mcpserver_delete",
        summary: "Take an MCP server away: it is disconnected, and its file is deleted.",
        schema: || named("Name of the MCP server"),
        run: |handle, _, args| Box::pin(delete(handle, args)),
    },
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

const FIELDS: &[&FieldTable] = &[&NAME, &SPEC];

/// A schema with nothing but a name.
pub(super) fn named(description: &str) -> Value {
    json!({"type": "object", "required": ["name"], "properties": {
        "name": {"type": "string", "description": description},
    }})
}

/// A server as it is shown.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Info<'a> {
    name: &'a str,
    r#type: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'a str,
    #[serde(skip_serializing_if = "is_false")]
    auto_start: bool,
    #[serde(skip_serializing_if = "str::is_empty")]
    command: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    args: Vec<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    url: String,
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    env: IndexMap<&'a str, &'a str>,
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    headers: IndexMap<&'a str, &'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    auth: Option<&'a ServerAuth>,
    #[serde(skip_serializing_if = "is_zero")]
    timeout: u64,
    #[serde(skip_serializing_if = "is_zero")]
    call_timeout: u64,
    #[serde(skip_serializing_if = "str::is_empty")]
    tool_prefix: &'a str,
    #[serde(skip_serializing_if = "String::is_empty")]
    error: String,
    state: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    status_message: String,
    #[serde(skip_serializing_if = "is_zero")]
    consecutive_failures: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_attempt: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_retry_after: Option<String>,
    #[serde(flatten)]
    session: Option<Session>,
}

/// What a server is to the caller alone.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Session {
    session_status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    connected_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools_count: Option<usize>,
}

impl Session {
    fn of(handle: &Handle, cx: CallContext<'_>, name: &str) -> Option<Self> {
        match handle.principals.standing(&cx.caller.owner(), name) {
            OwnerStanding::Connected { counts, since } => Some(Self {
                session_status: "connected",
                connected_at: Some(status::moment(since)),
                tools_count: Some(counts.tools),
            }),
            OwnerStanding::Connecting | OwnerStanding::SsoFailed => {
                Some(Self { session_status: "pending_auth", connected_at: None, tools_count: None })
            }
            OwnerStanding::None => None,
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
const fn is_false(truth: &bool) -> bool {
    !*truth
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl<'a> Info<'a> {
    fn of(known: &'a ServerEntry) -> Self {
        let spec = &known.server.spec;
        let Status {
            state, last_error, consecutive_failures, last_attempt, next_retry_after, ..
        } = known.status.stored(spec.kind);
        Self {
            name: &known.server.name,
            r#type: spec.kind.as_str(),
            description: &spec.description,
            auto_start: spec.auto_start,
            command: &spec.command,
            args: redact::arguments(&spec.args),
            url: redact::address(&spec.url),
            env: hidden(&spec.env),
            headers: hidden(&spec.headers),
            auth: spec.auth.as_ref(),
            timeout: spec.timeout.into(),
            call_timeout: spec.call_timeout.into(),
            tool_prefix: &spec.tool_prefix,
            status_message: status::message(&state, &last_error, &known.server.name),
            error: last_error,
            state,
            consecutive_failures,
            last_attempt,
            next_retry_after,
            session: None,
        }
    }
}

/// Settings as they are shown.
pub(super) fn hidden(settings: &IndexMap<String, String>) -> IndexMap<&str, &str> {
    settings.iter().map(|(name, value)| (name.as_str(), redact::setting(name, value))).collect()
}

fn list(handle: &Handle, cx: CallContext<'_>, args: &Args) -> String {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct List<'a> {
        #[serde(skip_serializing_if = "Option::is_none")]
        hidden_failed: Option<usize>,
        #[serde(skip_serializing_if = "Option::is_none")]
        hint: Option<String>,
        mcp_servers: Vec<Info<'a>>,
        mode: &'static str,
        total: usize,
    }
    let view = handle.now();
    let shown = view.servers.values().map(|known| Info {
        session: Session::of(handle, cx, &known.server.name),
        ..Info::of(known)
    });
    let mut servers: Vec<Info<'_>> = shown.collect();
    let known = servers.len();
    if !args.flag("showAll") {
        servers.retain(|server| server.state != "Failed");
    }
    if !args.flag("verbose") {
        servers.iter_mut().for_each(|server| server.error.clear());
    }
    let failed = Some(known - servers.len()).filter(|failed| *failed > 0);
    let hint = |failed: usize| {
        format!("({failed} failed servers hidden, use --all to show, --verbose for details)")
    };
    object(&List {
        hidden_failed: failed,
        hint: failed.map(hint),
        total: servers.len(),
        mcp_servers: servers,
        mode: "filesystem",
    })
}

fn get(handle: &Handle, args: &Args) -> ToolReply {
    let name = args.text("name").ok_or("name argument is required")?;
    match handle.now().servers.get(name) {
        Some(known) => Ok(object(&Info::of(known))),
        None => Err(format!("Failed to get MCP server: MCP server {name} not found")),
    }
}

fn draft(args: Args, request: &str) -> Result<ServerDraft, String> {
    ServerDraft::new(args.strict(request, FIELDS)?).map_err(unfit)
}

fn validate(handle: &Handle, args: Args) -> ToolReply {
    let draft = draft(args, "MCPServerValidateRequest")?;
    let checked = draft.create(handle.now().settings.namespace());
    let server = checked.map_err(|invalid| format!("Validation failed: {invalid}"))?;
    Ok(format!("Validation successful for mcpserver {}", server.name))
}

async fn create(handle: &Handle, args: Args) -> ToolReply {
    let draft = draft(args, "MCPServerCreateRequest")?;
    let name = draft.name.clone();
    match handle.edit(Edit::Create(Box::new(draft))).await {
        Ok(()) => Ok(format!("MCP server '{name}' created successfully")),
        Err(EditError::Invalid(invalid)) => {
            Err(format!("Invalid MCP server definition: {invalid}"))
        }
        Err(error @ EditError::Exists(_)) => Err(error.to_string()),
        Err(error) => Err(format!("Failed to create MCP server: {error}")),
    }
}

async fn update(handle: &Handle, args: Args) -> ToolReply {
    let draft = draft(args, "MCPServerUpdateRequest")?;
    let name = draft.name.clone();
    if name.is_empty() {
        return Err("Invalid MCP server definition: name is required".to_owned());
    }
    match handle.edit(Edit::Update(Box::new(draft))).await {
        Ok(()) => Ok(format!("MCP server '{name}' updated successfully")),
        Err(EditError::Invalid(invalid)) => {
            Err(format!("Invalid MCP server definition: {invalid}"))
        }
        Err(error) => Err(format!("Failed to update MCP server: {error}")),
    }
}

async fn delete(handle: &Handle, args: Args) -> ToolReply {
    let name = args.text("name").ok_or("name argument is required")?;
    match handle.edit(Edit::Delete(name.to_owned())).await {
        Ok(()) => Ok(format!("MCP server '{name}' deleted successfully")),
        Err(error) => Err(format!("Failed to delete MCP server: {error}")),
    }
}
