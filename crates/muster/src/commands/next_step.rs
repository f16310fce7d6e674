//! What to do about a resource in some state, as a command to type.

use muster_api::{mcp_server::McpServerInfo, service::ServiceStatus, state::BackendState};
use muster_core::text::shell_quoted;

/// Whether a server was started, and how to start it.
pub(super) fn state_of(server: &McpServerInfo) -> String {
    let McpServerInfo { name, state, error, .. } = server;
    match state.as_str() {
        _ if state.is_down() && error.is_empty() => {
            format!("It is not started. Start it with: muster start service {}", shell_quoted(name))
        }
        state if error.is_empty() => format!("Its state: {state}"),
        state => format!("Its state: {state}: {error}"),
    }
}

/// How to make a server usable.
pub(super) fn for_server(status: &ServiceStatus) -> String {
    let name = shell_quoted(&status.name);
    let is_local = status.metadata.get("type").is_some_and(|kind| kind == "stdio");
    match status.state {
        BackendState::Stopped | BackendState::Disconnected => {
            format!("start it with `muster start service {name}`")
        }
        BackendState::AwaitingApproval => {
            format!("approve it with `muster approve mcpserver {name}`")
        }
        BackendState::AuthRequired => format!("log in with `muster auth login --server {name}`"),
        BackendState::Starting | BackendState::Stopping => "check again in a moment".to_owned(),
        _ if is_local => {
            format!("see what it wrote with `muster logs mcpserver {name}`, or ask `muster doctor`")
        }
        _ => "find the cause with `muster doctor`".to_owned(),
    }
}

/// How to get tools that a workflow or a service class lacks.
pub(super) const FOR_MISSING_TOOLS: &str =
    "servers that are down are in `muster list mcpservers --all`; find tools with `muster search`";

#[cfg(test)]
mod tests {
    use muster_api::service::ServiceStatus;
    use serde_json::json;

    use super::for_server;

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
            assert_eq!(for_server(&status), step, "{state}");
        }
    }
}
