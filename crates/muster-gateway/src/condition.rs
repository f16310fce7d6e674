//! The condition of an MCP server, as tools and files name it.

use muster_config::mcpserver::ServerType;

/// What a server is doing, as `core_service_*` shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerCondition {
    /// It is being connected.
    Starting,
    /// A local server is up.
    Running,
    /// A remote server is up.
    Connected,
    /// It is being ended.
    Stopping,
    /// A local server is not wanted.
    Stopped,
    /// A remote server is not wanted.
    Disconnected,
    /// It could not be connected, or was lost.
    Failed,
    /// It could not be connected several times in a row.
    Unreachable,
    /// It wants a login first.
    AuthRequired,
}

impl ServerCondition {
    /// Up, by the kind of server.
    pub const fn up(kind: ServerType) -> Self {
        if kind.is_local() { Self::Running } else { Self::Connected }
    }

    /// Not wanted, by the kind of server.
    pub const fn down(kind: ServerType) -> Self {
        if kind.is_local() { Self::Stopped } else { Self::Disconnected }
    }

    /// The word for it.
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

    /// Whether its tools can be called.
    pub const fn is_up(self) -> bool {
        matches!(self, Self::Running | Self::Connected)
    }

    /// Whether it is on its way to another condition.
    pub const fn is_transitional(self) -> bool {
        matches!(self, Self::Starting | Self::Stopping)
    }

    /// Whether it is as it is when nobody wants it.
    pub const fn is_down(self) -> bool {
        matches!(self, Self::Stopped | Self::Disconnected)
    }

    /// How a server's file and `core_mcpserver_*` say it.
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

    /// How well that is.
    pub const fn health(self) -> &'static str {
        match self {
            Self::Running | Self::Connected => "healthy",
            Self::Failed => "unhealthy",
            Self::Starting
            | Self::Stopping
            | Self::Stopped
            | Self::Disconnected
            | Self::Unreachable
            | Self::AuthRequired => "unknown",
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
            assert_eq!(condition.health(), health, "{word}");
            assert_eq!(condition.stored(Stdio), local, "{word}");
            assert_eq!(condition.stored(StreamableHttp), remote, "{word}");
            assert_eq!(condition.stored(Sse), remote, "{word}");
        }
    }
}
