//! The condition of an MCP server and its names in tools and files.

use muster_api::state::{BackendState, ServerState};
use muster_config::mcpserver::ServerType;
use muster_workflow::service::health::ServiceHealth;

/// The condition of an MCP server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerCondition {
    /// Connecting.
    Starting,
    /// A local server is up.
    Running,
    /// A remote server is up.
    Connected,
    /// Being stopped.
    Stopping,
    /// A local server is stopped.
    Stopped,
    /// A remote server is disconnected.
    Disconnected,
    /// Connecting failed, or the connection was lost.
    Failed,
    /// Connecting failed several times in a row.
    Unreachable,
    /// A login is required.
    AuthRequired,
    /// An agent added or changed it, and an operator must approve it before it is connected.
    AwaitingApproval,
}

impl ServerCondition {
    /// The condition of a server of this type that is up.
    pub const fn up(kind: ServerType) -> Self {
        if kind.is_local() { Self::Running } else { Self::Connected }
    }

    /// The condition of a server of this type that is stopped.
    pub const fn down(kind: ServerType) -> Self {
        if kind.is_local() { Self::Stopped } else { Self::Disconnected }
    }

    /// The state that `core_service_*` shows.
    pub const fn state(self) -> BackendState {
        match self {
            Self::Starting => BackendState::Starting,
            Self::Running => BackendState::Running,
            Self::Connected => BackendState::Connected,
            Self::Stopping => BackendState::Stopping,
            Self::Stopped => BackendState::Stopped,
            Self::Disconnected => BackendState::Disconnected,
            Self::Failed => BackendState::Failed,
            Self::Unreachable => BackendState::Unreachable,
            Self::AuthRequired => BackendState::AuthRequired,
            Self::AwaitingApproval => BackendState::AwaitingApproval,
        }
    }

    /// The name of that state.
    pub const fn as_str(self) -> &'static str {
        self.state().as_str()
    }

    /// Whether the server's tools can be called.
    pub const fn is_up(self) -> bool {
        matches!(self, Self::Running | Self::Connected)
    }

    /// Whether the server is starting or stopping.
    pub const fn is_transitional(self) -> bool {
        matches!(self, Self::Starting | Self::Stopping)
    }

    /// Whether the server is stopped on purpose.
    pub const fn is_down(self) -> bool {
        matches!(self, Self::Stopped | Self::Disconnected)
    }

    /// The state in a server's file and in `core_mcpserver_*`.
    pub const fn stored(self, kind: ServerType) -> ServerState {
        match (self, kind.is_local()) {
            (Self::Running | Self::Connected | Self::Stopping | Self::AuthRequired, true) => {
                ServerState::Running
            }
            (Self::Running | Self::Connected | Self::Stopping, false) => ServerState::Connected,
            (Self::AuthRequired, false) => ServerState::AuthRequired,
            (Self::Starting, true) => ServerState::Starting,
            (Self::Starting, false) => ServerState::Connecting,
            (Self::Stopped | Self::Disconnected, true) => ServerState::Stopped,
            (Self::Stopped | Self::Disconnected, false) => ServerState::Disconnected,
            (Self::Failed | Self::Unreachable, _) => ServerState::Failed,
            (Self::AwaitingApproval, _) => ServerState::AwaitingApproval,
        }
    }

    /// The health that `core_service_*` shows.
    pub const fn health(self) -> ServiceHealth {
        match self {
            Self::Running | Self::Connected => ServiceHealth::Healthy,
            Self::Failed => ServiceHealth::Unhealthy,
            Self::Starting
            | Self::Stopping
            | Self::Stopped
            | Self::Disconnected
            | Self::Unreachable
            | Self::AuthRequired
            | Self::AwaitingApproval => ServiceHealth::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use muster_config::mcpserver::ServerType::{Sse, Stdio, StreamableHttp};

    use super::ServerCondition;

    #[test]
    fn conditions_as_the_tables_have_them() {
        let table = [
            (ServerCondition::Starting, "starting", "unknown", "Starting", "Connecting"),
            (ServerCondition::Running, "running", "healthy", "Running", "Connected"),
            (ServerCondition::Connected, "connected", "healthy", "Running", "Connected"),
            (ServerCondition::Stopping, "stopping", "unknown", "Running", "Connected"),
            (ServerCondition::Stopped, "stopped", "unknown", "Stopped", "Disconnected"),
            (ServerCondition::Disconnected, "disconnected", "unknown", "Stopped", "Disconnected"),
            (ServerCondition::Failed, "failed", "unhealthy", "Failed", "Failed"),
            (ServerCondition::Unreachable, "unreachable", "unknown", "Failed", "Failed"),
            (ServerCondition::AuthRequired, "auth_required", "unknown", "Running", "Auth Required"),
            (
                ServerCondition::AwaitingApproval,
                "awaiting_approval",
                "unknown",
                "Awaiting Approval",
                "Awaiting Approval",
            ),
        ];
        for (condition, word, health, local, remote) in table {
            assert_eq!(condition.as_str(), word);
            assert_eq!(condition.health().as_str(), health, "{word}");
            assert_eq!(condition.stored(Stdio).as_str(), local, "{word}");
            assert_eq!(condition.stored(StreamableHttp).as_str(), remote, "{word}");
            assert_eq!(condition.stored(Sse).as_str(), remote, "{word}");
        }
    }
}
