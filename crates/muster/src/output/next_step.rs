//! The next step for a resource in some state, as a command to type.

use muster_api::{
    MissingTool, UnavailableServer,
    auth::LoginState,
    mcp_server::McpServerInfo,
    service::{ServiceHealth, ServiceStatus},
    state::{BackendState, ServerState},
};
use muster_config::mcpserver::ServerType;
use muster_core::{next_step::NextStep, text::shell_quoted};
use serde_json::Value;

use super::reply::state_word;

/// Describes whether a server was started, and the next step if it is not usable.
pub fn state_of(server: &McpServerInfo) -> String {
    let McpServerInfo { name, state, error, .. } = server;
    match state.as_str() {
        _ if state.is_down() && error.is_empty() => {
            format!("It is not started. Start it with: muster start service {}", shell_quoted(name))
        }
        state if error.is_empty() => match for_info(server) {
            Some(step) => format!("Its state: {state}: {step}"),
            None => format!("Its state: {state}"),
        },
        state => format!("Its state: {state}: {error}"),
    }
}

/// The next step that makes a server usable; `None` if the caller can use it.
pub fn for_info(server: &McpServerInfo) -> Option<String> {
    let state = match server.state {
        ServerState::Running | ServerState::Connected => return None,
        ServerState::Starting | ServerState::Connecting => BackendState::Starting,
        ServerState::Stopped | ServerState::Disconnected => BackendState::Stopped,
        ServerState::Failed => BackendState::Failed,
        ServerState::AuthRequired => BackendState::AuthRequired,
        ServerState::AwaitingApproval => BackendState::AwaitingApproval,
        ServerState::Unknown => BackendState::Unknown,
    };
    let session = server.session.as_ref().map(|session| session.session_status);
    let is_local = is_local(&server.r#type);
    step(&Situation {
        name: &server.name,
        state,
        health: ServiceHealth::Unknown,
        session,
        is_local,
        auth: server.auth.as_ref(),
    })
}

/// The next step for a server, from its status as a service; `None` if the caller can use it.
pub fn for_server(status: &ServiceStatus) -> Option<String> {
    let ServiceStatus { name, state, metadata, .. } = status;
    let session = metadata.get("sessionStatus").cloned();
    step(&Situation {
        name,
        state: *state,
        health: status.health,
        session: session.and_then(|session| serde_json::from_value(session).ok()),
        is_local: metadata.get("type").and_then(Value::as_str).is_some_and(is_local),
        auth: metadata.get("auth"),
    })
}

/// Whether a server of this type is a child process of the gateway.
pub fn is_local(kind: &str) -> bool {
    ServerType::named(kind).is_some_and(ServerType::is_local)
}

/// The facts that determine the next step.
struct Situation<'a> {
    name: &'a str,
    state: BackendState,
    health: ServiceHealth,
    session: Option<LoginState>,
    is_local: bool,
    auth: Option<&'a Value>,
}

fn step(of: &Situation<'_>) -> Option<String> {
    let name = shell_quoted(of.name);
    Some(match of.state {
        BackendState::Ready | BackendState::Running | BackendState::Connected
            if of.health != ServiceHealth::Unhealthy =>
        {
            return None;
        }
        BackendState::AuthRequired if of.session == Some(LoginState::Connected) => return None,
        BackendState::Stopped | BackendState::Disconnected => {
            format!("start it with `muster start service {name}`")
        }
        BackendState::AwaitingApproval => {
            format!("approve it with `muster approve mcpserver {name}`")
        }
        BackendState::AuthRequired if uses_gateway_login(of.auth) => {
            "it uses your login at the gateway: log in again with `muster auth login`".to_owned()
        }
        BackendState::AuthRequired => format!("log in with `muster auth login --server {name}`"),
        BackendState::Starting | BackendState::Stopping => "check again in a moment".to_owned(),
        _ if of.is_local => {
            format!("see what it wrote with `muster logs mcpserver {name}`, or ask `muster doctor`")
        }
        _ => "find the cause with `muster doctor`".to_owned(),
    })
}

/// Whether a server uses the caller's login at the gateway (single sign-on).
fn uses_gateway_login(auth: Option<&Value>) -> bool {
    let is_set = |path: &str| auth.and_then(|auth| auth.pointer(path)) == Some(&Value::Bool(true));
    is_set("/forwardToken") || is_set("/tokenExchange/enabled")
}

/// Shows a hint for agents with a command instead of a tool call.
pub fn with_command(hint: &str) -> String {
    match NextStep::split_from(hint) {
        Some((sentence, step)) => format!("{sentence}`{}`", command(&step)),
        None => hint.to_owned(),
    }
}

/// A step that the gateway suggests, as a command.
fn command(step: &NextStep) -> String {
    match step {
        NextStep::FindTool => "muster search".to_owned(),
        NextStep::LogIn { server } => {
            format!("muster auth login --server {}", shell_quoted(server))
        }
        NextStep::StartService { name } => format!("muster start service {}", shell_quoted(name)),
        NextStep::CallTool { name, arguments } => {
            let arguments = shell_quoted(arguments.get());
            format!("muster call {} --json {arguments}", shell_quoted(name))
        }
    }
}

/// Describes why a server is unavailable and what to do.
pub fn unavailable(server: &UnavailableServer) -> String {
    let UnavailableServer { server, state, reason, hint } = server;
    let state = state_word(*state);
    let reason = reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
    let hint = hint.as_deref().map(|hint| format!("; {}", with_command(hint))).unwrap_or_default();
    format!("server {server} is unavailable ({state}{reason}){hint}")
}

/// The next step where there is no service class of this name.
pub const FOR_UNKNOWN_CLASS: &str =
    "there is no such service class; see `muster list serviceclasses`";

/// The next steps for missing tools, by their servers and by their other reasons.
pub fn for_missing_tools(servers: &[UnavailableServer], reasons: &[MissingTool]) -> Vec<String> {
    let hint = |server: &UnavailableServer| server.hint.as_deref().map(with_command);
    let step = |missing: &MissingTool| {
        let MissingTool { tool, reason, hint } = missing;
        format!("{tool}: {reason}; {}", with_command(hint))
    };
    let steps: Vec<String> =
        servers.iter().filter_map(hint).chain(reasons.iter().map(step)).collect();
    // An older gateway gives no reasons.
    match steps.is_empty() {
        true => vec![
            "servers that are down are in `muster list mcpservers --all`; find tools with `muster search`"
                .to_owned(),
        ],
        false => steps,
    }
}

#[cfg(test)]
mod tests {
    use muster_api::{mcp_server::McpServerInfo, service::ServiceStatus};
    use serde_json::json;

    use super::{for_info, for_server, state_of, with_command};

    #[test]
    fn hints_for_agents_become_commands() {
        for (hint, command) in [
            ("find its name with filter_tools", "find its name with `muster search`"),
            (
                r#"add `name`: {"name":"x_a","arguments":{"name":"<string>"}}"#,
                r#"add `name`: `muster call x_a --json '{"name":"<string>"}'`"#,
            ),
            (
                r#"log in with core_auth_login {"server": "a"}"#,
                "log in with `muster auth login --server a`",
            ),
            (
                r#"it is tried again at 9:00; to try now: core_service_start {"name": "my server"}"#,
                "it is tried again at 9:00; to try now: `muster start service 'my server'`",
            ),
            ("write {this}", "write {this}"),
            ("`nam` is called `name`", "`nam` is called `name`"),
        ] {
            assert_eq!(with_command(hint), command);
        }
    }

    #[test]
    fn every_state_has_a_next_step() {
        for (state, kind, step) in [
            ("stopped", "stdio", "start it with `muster start service 'my server'`"),
            ("disconnected", "sse", "start it with `muster start service 'my server'`"),
            (
                "awaiting_approval",
                "stdio",
                "approve it with `muster approve mcpserver 'my server'`",
            ),
            ("auth_required", "sse", "log in with `muster auth login --server 'my server'`"),
            ("starting", "stdio", "check again in a moment"),
            (
                "failed",
                "stdio",
                "see what it wrote with `muster logs mcpserver 'my server'`, or ask `muster doctor`",
            ),
            ("unreachable", "streamable-http", "find the cause with `muster doctor`"),
        ] {
            let status = json!({"name": "my server", "state": state, "metadata": {"type": kind}});
            let status: ServiceStatus = serde_json::from_value(status).unwrap();
            assert_eq!(for_server(&status).as_deref(), Some(step), "{state}");
        }
    }

    #[test]
    fn a_login_counts_for_its_caller() {
        let own = "log in with `muster auth login --server a`";
        let sso = "it uses your login at the gateway: log in again with `muster auth login`";
        for (session, auth, step) in [
            ("auth_required", json!({"type": "oauth"}), Some(own)),
            ("connected", json!({"type": "oauth"}), None),
            ("reauth_required", json!({"forwardToken": true}), Some(sso)),
            ("reauth_required", json!({"tokenExchange": {"enabled": true}}), Some(sso)),
            ("auth_required", json!({"tokenExchange": {"enabled": false}}), Some(own)),
        ] {
            let server = json!({"name": "a", "type": "sse", "state": "Auth Required", "auth": auth,
                "sessionStatus": session});
            let server: McpServerInfo = serde_json::from_value(server).unwrap();
            assert_eq!(for_info(&server).as_deref(), step, "{session} {auth}");
            let status = json!({"name": "a", "state": "auth_required",
                "metadata": {"type": "sse", "auth": auth, "sessionStatus": session}});
            let status: ServiceStatus = serde_json::from_value(status).unwrap();
            assert_eq!(for_server(&status).as_deref(), step, "{session} {auth}");
        }
    }

    #[test]
    fn what_was_created_says_what_to_do() {
        for (state, said) in [
            ("Running", "Its state: Running"),
            ("Stopped", "It is not started. Start it with: muster start service 'my server'"),
            (
                "Awaiting Approval",
                "Its state: Awaiting Approval: approve it with `muster approve mcpserver 'my server'`",
            ),
        ] {
            let server = json!({"name": "my server", "type": "stdio", "state": state});
            let server: McpServerInfo = serde_json::from_value(server).unwrap();
            assert_eq!(state_of(&server), said);
        }
    }
}
