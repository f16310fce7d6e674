//! The status of an MCP server, and its messages in tools and files.

use jiff::Timestamp;
use muster_api::state::ServerState;
use muster_config::mcpserver::{McpServerStatus, ServerType};
use muster_core::text::shell_quoted;
use muster_gateway::condition::ServerCondition;

use crate::redact;

/// The status of a server, with its history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerStatus {
    /// The generation of the desired state that this status belongs to.
    pub generation: u64,
    /// Its condition.
    pub condition: ServerCondition,
    /// Its last error. Never holds a secret.
    pub error: Option<String>,
    /// The number of failed attempts to connect in a row.
    pub failures: u64,
    /// The number of restarts.
    pub restarts: u64,
    /// When it was last connected to, or tried.
    pub last_attempt: Option<Timestamp>,
    /// When it was last up.
    pub last_connected: Option<Timestamp>,
    /// When it is retried.
    pub next_retry: Option<Timestamp>,
    /// The protocol version.
    pub protocol: Option<String>,
    /// The `WWW-Authenticate` challenge of a server that requires a login.
    pub challenge: Option<String>,
    /// Whether callers log in to it individually.
    pub needs_login: bool,
}

impl ServerStatus {
    /// The status of a server that was never started.
    pub const fn idle(kind: ServerType) -> Self {
        Self {
            generation: 0,
            condition: ServerCondition::down(kind),
            error: None,
            failures: 0,
            restarts: 0,
            last_attempt: None,
            last_connected: None,
            next_retry: None,
            protocol: None,
            challenge: None,
            needs_login: false,
        }
    }

    /// The status of a server that an operator must approve first.
    pub fn awaiting_approval() -> Self {
        let condition = ServerCondition::AwaitingApproval;
        Self { condition, ..Self::idle(ServerType::Stdio) }
    }

    /// Whether the first attempt to connect has not ended yet: there has been neither a connection nor an error.
    pub const fn is_untried(&self) -> bool {
        match self.condition {
            ServerCondition::Starting => {
                self.failures == 0 && self.error.is_none() && self.last_connected.is_none()
            }
            // Its task may not have begun yet.
            condition => condition.is_down() && self.generation == 0,
        }
    }

    /// Whether the server is still in the state of `before`. Attempts to connect that fail in a row are one state.
    pub fn continues(&self, before: &Self) -> bool {
        let keeps_failing = |status: &Self| {
            let condition = status.condition;
            status.failures > 0
                && matches!(
                    condition,
                    ServerCondition::Starting
                        | ServerCondition::Failed
                        | ServerCondition::Unreachable
                )
        };
        self.condition == before.condition || (keeps_failing(self) && keeps_failing(before))
    }

    /// The status in the server's file.
    pub fn stored(&self, kind: ServerType) -> McpServerStatus {
        McpServerStatus {
            state: self.condition.stored(kind).as_str().to_owned(),
            last_error: self.error.as_deref().map(redact::error).unwrap_or_default(),
            last_connected: self.last_connected.map(moment),
            restart_count: self.restarts,
            consecutive_failures: self.failures,
            last_attempt: self.last_attempt.map(moment),
            next_retry_after: self.next_retry.map(moment),
        }
    }
}

/// A time in RFC 3339, to the second.
pub fn moment(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A message about a state, with a fix where one is known.
pub fn message(state: ServerState, error: &str, name: &str) -> String {
    match state {
        ServerState::Starting | ServerState::Connecting => "Starting...".to_owned(),
        ServerState::AwaitingApproval => {
            let name = shell_quoted(name);
            format!(
                "Added or changed by an agent, not started until approved - run: muster approve mcpserver {name}"
            )
        }
        ServerState::Failed => failure(&error.to_lowercase(), name),
        ServerState::Running
        | ServerState::Connected
        | ServerState::Stopped
        | ServerState::Disconnected
        | ServerState::AuthRequired
        | ServerState::Unknown => String::new(),
    }
}

fn failure(error: &str, name: &str) -> String {
    let says = |words: &[&str]| words.iter().any(|word| error.contains(word));
    let message = match () {
        () if says(&["certificate", "x509"]) => "Certificate error - verify TLS configuration",
        () if says(&["tls handshake"]) => {
            "TLS error - check server certificate and TLS configuration"
        }
        () if says(&["command not found", "executable file not found", "no such file"])
            || (says(&["command `"]) && says(&["` not found"])) =>
        {
            "Command not found - check the executable path"
        }
        () if says(&["permission denied"]) => "Permission denied - check file permissions",
        () if says(&["401", "unauthorized"]) => {
            let name = shell_quoted(name);
            return format!("Authentication required - run: muster auth login --server {name}");
        }
        () if says(&["403", "forbidden"]) => {
            "Access forbidden - check server permissions and credentials"
        }
        () if says(&["connection reset", "econnreset"]) => {
            "Connection was reset by server - check server logs"
        }
        () if says(&["protocol", "unsupported"]) => {
            "Protocol error - check server type configuration"
        }
        () if says(&["json", "parse"]) => {
            "Invalid response from server - check server compatibility"
        }
        () => "Server failed to start",
    };
    message.to_owned()
}

#[cfg(test)]
mod tests {
    use muster_config::mcpserver::ServerType;
    use muster_gateway::condition::ServerCondition;

    use super::{ServerState, ServerStatus, message};

    #[test]
    fn failures_in_a_row_are_one_state() {
        use ServerCondition::{AuthRequired, Failed, Running, Starting, Stopped, Unreachable};
        let status = |(condition, failures)| ServerStatus {
            condition,
            failures,
            ..ServerStatus::idle(ServerType::Stdio)
        };
        for (before, after, expected) in [
            ((Running, 0), (Running, 0), true),
            ((Stopped, 0), (Starting, 0), false),
            ((Starting, 0), (Failed, 1), false),
            ((Failed, 1), (Starting, 1), true),
            ((Starting, 3), (Unreachable, 4), true),
            ((Starting, 1), (Running, 0), false),
            ((Unreachable, 4), (Stopped, 4), false),
            ((Starting, 1), (AuthRequired, 0), false),
        ] {
            assert_eq!(status(after).continues(&status(before)), expected, "{before:?} {after:?}");
        }
    }

    #[test]
    fn what_to_do_about_a_failure() {
        let check = |error: &str, expect: &str| {
            assert_eq!(message(ServerState::Failed, error, "gh"), expect, "{error}");
        };
        check("x509: unknown authority", "Certificate error - verify TLS configuration");
        check("exec: npx: command not found", "Command not found - check the executable path");
        check("command `npx` not found", "Command not found - check the executable path");
        check("status 401", "Authentication required - run: muster auth login --server gh");
        check("Unsupported version", "Protocol error - check server type configuration");
        check("could not parse", "Invalid response from server - check server compatibility");
        check("", "Server failed to start");
        assert_eq!(message(ServerState::Running, "401", "gh"), "");
        assert_eq!(message(ServerState::Connecting, "", "gh"), "Starting...");
    }
}
