//! The condition of an MCP server and its names in tools and files.

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

    /// Its name, as `core_service_*` shows it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Connected => "connected",
            Self::Stopping => "stopping",
            Self::Stopped => "stopped",
            Self::Disconnected => "disconnected",
            Self::Failed => "failed",
            Self::Unreachable => "unreachable",
            Self::AuthRequired => "auth_required",
        }
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

    /// Its name in a server's file and in `core_mcpserver_*`.
    pub const fn stored(self, kind: ServerType) -> &'static str {
        match (self, kind.is_local()) {
            (Self::Running | Self::Connected | Self::Stopping | Self::AuthRequired, true) => {
                "Running"
            }
            (Self::Running | Self::Connected | Self::Stopping, false) => "Connected",
            (Self::AuthRequired, false) => "Auth Required",
            (Self::Starting, true) => "Starting",
            (Self::Starting, false) => "Connecting",
            (Self::Stopped | Self::Disconnected, true) => "Stopped",
            (Self::Stopped | Self::Disconnected, false) => "Disconnected",
            (Self::Failed | Self::Unreachable, _) => "Failed",
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
            | Self::AuthRequired => ServiceHealth::Unknown,
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
        ];
        for (condition, word, health, local, remote) in table {
            assert_eq!(condition.as_str(), word);
            assert_eq!(condition.health().as_str(), health, "{word}");
            assert_eq!(condition.stored(Stdio), local, "{word}");
            assert_eq!(condition.stored(StreamableHttp), remote, "{word}");
            assert_eq!(condition.stored(Sse), remote, "{word}");
        }
    }
}
