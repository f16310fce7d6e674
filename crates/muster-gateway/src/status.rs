//! How a server behind the gateway is doing, in the words of tools and files.

use jiff::Timestamp;
use muster_config::mcpserver::{ServerType, Status};

use crate::redact;

/// What a server is doing, as `core_service_*` shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
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

impl Condition {
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
    pub const fn is_passing(self) -> bool {
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

/// How a server is doing, with how it came to that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The wish that this is the answer to; wishes are numbered.
    pub round: u64,
    /// What it is doing.
    pub condition: Condition,
    /// Why it is not as it should be. Never holds a secret.
    pub error: Option<String>,
    /// How often in a row it could not be connected.
    pub failures: u64,
    /// How often it was started anew.
    pub restarts: u64,
    /// When it was last tried.
    pub last_attempt: Option<Timestamp>,
    /// When it was last up.
    pub last_connected: Option<Timestamp>,
    /// When it is tried again.
    pub next_retry: Option<Timestamp>,
    /// The version of the protocol it speaks.
    pub protocol: Option<String>,
    /// What it sent when it asked for a login.
    pub challenge: Option<String>,
    /// Whether everybody logs in to it for themselves.
    pub needs_login: bool,
}

impl Report {
    /// Of a server that was never tried.
    pub const fn idle(kind: ServerType) -> Self {
        Self {
            round: 0,
            condition: Condition::down(kind),
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

    /// As the server's file keeps it.
    pub fn stored(&self, kind: ServerType) -> Status {
        Status {
            state: self.condition.stored(kind).to_owned(),
            last_error: self.error.as_deref().map(redact::error).unwrap_or_default(),
            last_connected: self.last_connected.map(moment),
            restart_count: self.restarts,
            consecutive_failures: self.failures,
            last_attempt: self.last_attempt.map(moment),
            next_retry_after: self.next_retry.map(moment),
        }
    }
}

/// A moment in RFC 3339, to the second.
pub fn moment(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// One line for people about a stored state, with what to do where that can be said.
pub fn message(state: &str, error: &str, name: &str) -> String {
    match state {
        "Starting" | "Connecting" => "Starting...".to_owned(),
        "Failed" => failure(&error.to_lowercase(), name),
        _ => String::new(),
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
    use muster_config::mcpserver::ServerType::{Sse, Stdio, StreamableHttp};

    use super::{Condition, message};

    #[test]
    fn conditions_as_the_tables_have_them() {
        let table = [
            (Condition::Starting, "starting", "unknown", "Starting", "Connecting"),
            (Condition::Running, "running", "healthy", "Running", "Connected"),
            (Condition::Connected, "connected", "healthy", "Running", "Connected"),
            (Condition::Stopping, "stopping", "unknown", "Running", "Connected"),
            (Condition::Stopped, "stopped", "unknown", "Stopped", "Disconnected"),
            (Condition::Disconnected, "disconnected", "unknown", "Stopped", "Disconnected"),
            (Condition::Failed, "failed", "unhealthy", "Failed", "Failed"),
            (Condition::Unreachable, "unreachable", "unknown", "Failed", "Failed"),
            (Condition::AuthRequired, "auth_required", "unknown", "Running", "Auth Required"),
        ];
        for (condition, word, health, local, remote) in table {
            assert_eq!(condition.as_str(), word);
            assert_eq!(condition.health(), health, "{word}");
            assert_eq!(condition.stored(Stdio), local, "{word}");
            assert_eq!(condition.stored(StreamableHttp), remote, "{word}");
            assert_eq!(condition.stored(Sse), remote, "{word}");
        }
    }

    #[test]
    fn what_to_do_about_a_failure() {
        let check = |error: &str, expect: &str| {
            assert_eq!(message("Failed", error, "gh"), expect, "{error}");
        };
        check("x509: unknown authority", "Certificate error - verify TLS configuration");
        check("exec: npx: command not found", "Command not found - check the executable path");
        check("command `npx` not found", "Command not found - check the executable path");
        check("status 401", "Authentication required - run: muster auth login --server gh");
        check("Unsupported version", "Protocol error - check server type configuration");
        check("could not parse", "Invalid response from server - check server compatibility");
        check("", "Server failed to start");
        assert_eq!(message("Running", "401", "gh"), "");
        assert_eq!(message("Connecting", "", "gh"), "Starting...");
    }
}
