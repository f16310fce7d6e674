//! The states of servers and services.

use muster_workflow::service::ServiceState;
use serde::{Deserialize, Serialize};

/// The state of an MCP server, as its definition file and `core_mcpserver_*` name it. Local and remote servers
/// use different words for some states.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ServerState {
    /// A local server is being started.
    Starting,
    /// A remote server is being connected.
    Connecting,
    /// A local server is up.
    Running,
    /// A remote server is up.
    Connected,
    /// A local server is stopped.
    Stopped,
    /// A remote server is not connected.
    Disconnected,
    /// Connecting failed, or the connection was lost.
    Failed,
    /// A login is required.
    #[serde(rename = "Auth Required")]
    AuthRequired,
    /// An operator must approve it before it is connected.
    #[serde(rename = "Awaiting Approval")]
    AwaitingApproval,
    /// Another state; a newer gateway may know more.
    #[default]
    #[serde(other)]
    Unknown,
}

impl ServerState {
    /// Its name in files and replies.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "Starting",
            Self::Connecting => "Connecting",
            Self::Running => "Running",
            Self::Connected => "Connected",
            Self::Stopped => "Stopped",
            Self::Disconnected => "Disconnected",
            Self::Failed => "Failed",
            Self::AuthRequired => "Auth Required",
            Self::AwaitingApproval => "Awaiting Approval",
            Self::Unknown => "Unknown",
        }
    }

    /// Whether the server's tools can be called.
    pub const fn is_up(self) -> bool {
        matches!(self, Self::Running | Self::Connected)
    }

    /// Whether the server is stopped on purpose.
    pub const fn is_down(self) -> bool {
        matches!(self, Self::Stopped | Self::Disconnected)
    }
}

/// The state of a service, an MCP server or another backend, as `core_service_*` and `core_stats` name it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BackendState {
    /// It needs neither a start nor a connection, like a CLI.
    #[serde(rename = "Ready")]
    Ready,
    /// It waits for its dependencies.
    Waiting,
    /// It is being started or connected.
    Starting,
    /// It is running.
    Running,
    /// A remote server is up.
    Connected,
    /// It is being stopped.
    Stopping,
    /// It is stopped.
    Stopped,
    /// A remote server is not connected.
    Disconnected,
    /// Starting, stopping or connecting it failed.
    Failed,
    /// It could not be started, and will be retried.
    Retrying,
    /// Connecting failed several times in a row.
    Unreachable,
    /// A login is required.
    AuthRequired,
    /// An operator must approve it before it is connected.
    AwaitingApproval,
    /// Not known, or a state of a newer gateway.
    #[default]
    #[serde(other)]
    Unknown,
}

impl BackendState {
    /// Its name in replies.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "Ready",
            Self::Waiting => "waiting",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Connected => "connected",
            Self::Stopping => "stopping",
            Self::Stopped => "stopped",
            Self::Disconnected => "disconnected",
            Self::Failed => "failed",
            Self::Retrying => "retrying",
            Self::Unreachable => "unreachable",
            Self::AuthRequired => "auth_required",
            Self::AwaitingApproval => "awaiting_approval",
            Self::Unknown => "unknown",
        }
    }
}

impl From<ServiceState> for BackendState {
    fn from(state: ServiceState) -> Self {
        match state {
            ServiceState::Unknown => Self::Unknown,
            ServiceState::Waiting => Self::Waiting,
            ServiceState::Starting => Self::Starting,
            ServiceState::Running => Self::Running,
            ServiceState::Stopping => Self::Stopping,
            ServiceState::Stopped => Self::Stopped,
            ServiceState::Failed => Self::Failed,
            ServiceState::Retrying => Self::Retrying,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json, to_value};

    use super::{BackendState, ServerState};

    #[test]
    fn names_are_those_of_replies() {
        for name in ["Starting", "Connecting", "Running", "Connected", "Stopped", "Disconnected"]
            .into_iter()
            .chain(["Failed", "Auth Required", "Awaiting Approval", "Unknown"])
        {
            let state: ServerState = from_value(json!(name)).unwrap();
            assert_eq!((state.as_str(), to_value(state).unwrap()), (name, Value::from(name)));
        }
        for name in ["Ready", "waiting", "starting", "running", "connected", "stopping", "stopped"]
            .into_iter()
            .chain(["disconnected", "failed", "retrying", "unreachable", "auth_required"])
            .chain(["awaiting_approval", "unknown"])
        {
            let state: BackendState = from_value(json!(name)).unwrap();
            assert_eq!((state.as_str(), to_value(state).unwrap()), (name, Value::from(name)));
        }
    }

    #[test]
    fn a_state_of_a_newer_gateway_is_unknown() {
        assert_eq!(from_value::<ServerState>(json!("Sleeping")).unwrap(), ServerState::Unknown);
        assert_eq!(from_value::<BackendState>(json!("asleep")).unwrap(), BackendState::Unknown);
    }
}
