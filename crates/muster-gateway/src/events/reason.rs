//! Why there is an event.

/// What an event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A server behind the gateway.
    McpServer,
}

impl Kind {
    /// Its name in files and filters.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::McpServer => "MCPServer",
        }
    }
}

/// What can happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// A tool or a file added a server.
    McpServerCreated,
    /// A tool or a file changed one.
    McpServerUpdated,
    /// A tool or a file took one away.
    McpServerDeleted,
    /// It could not be connected, or its file could not be written.
    McpServerFailed,
    /// It is being connected.
    McpServerStarting,
    /// It is up.
    McpServerStarted,
    /// It was ended.
    McpServerStopped,
    /// It is being connected again after it was up.
    McpServerRestarting,
    /// What it offers is known.
    McpServerToolsDiscovered,
    /// What it offers is gone.
    McpServerToolsUnavailable,
    /// It was lost, and is being connected again.
    McpServerRecoveryStarted,
    /// It is back.
    McpServerRecoverySucceeded,
    /// It is not back yet.
    McpServerRecoveryFailed,
    /// It wants a login first.
    McpServerAuthRequired,
    /// Someone's login to the gateway was good enough for it.
    McpServerTokenForwarded,
    /// Someone's login to the gateway was not.
    McpServerTokenForwardingFailed,
    /// Someone's token was exchanged for one of its own issuer.
    McpServerTokenExchanged,
    /// Someone's token could not be exchanged.
    McpServerTokenExchangeFailed,
}

impl Reason {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::McpServerCreated => "MCPServerCreated",
            Self::McpServerUpdated => "MCPServerUpdated",
            Self::McpServerDeleted => "MCPServerDeleted",
            Self::McpServerFailed => "MCPServerFailed",
            Self::McpServerStarting => "MCPServerStarting",
            Self::McpServerStarted => "MCPServerStarted",
            Self::McpServerStopped => "MCPServerStopped",
            Self::McpServerRestarting => "MCPServerRestarting",
            Self::McpServerToolsDiscovered => "MCPServerToolsDiscovered",
            Self::McpServerToolsUnavailable => "MCPServerToolsUnavailable",
            Self::McpServerRecoveryStarted => "MCPServerRecoveryStarted",
            Self::McpServerRecoverySucceeded => "MCPServerRecoverySucceeded",
            Self::McpServerRecoveryFailed => "MCPServerRecoveryFailed",
            Self::McpServerAuthRequired => "MCPServerAuthRequired",
            Self::McpServerTokenForwarded => "MCPServerTokenForwarded",
            Self::McpServerTokenForwardingFailed => "MCPServerTokenForwardingFailed",
            Self::McpServerTokenExchanged => "MCPServerTokenExchanged",
            Self::McpServerTokenExchangeFailed => "MCPServerTokenExchangeFailed",
        }
    }

    /// What it is about.
    pub const fn kind(self) -> Kind {
        Kind::McpServer
    }

    /// Whether somebody should look.
    pub const fn is_warning(self) -> bool {
        matches!(
            self,
            Self::McpServerFailed
                | Self::McpServerToolsUnavailable
                | Self::McpServerRecoveryFailed
                | Self::McpServerTokenForwardingFailed
                | Self::McpServerTokenExchangeFailed
        )
    }

    /// The sentence about it; `detail` says more where there is more to say.
    pub(super) fn message(self, name: &str, detail: &str) -> String {
        let what = match self {
            Self::McpServerCreated => "was created",
            Self::McpServerUpdated => "was updated",
            Self::McpServerDeleted => "was deleted",
            Self::McpServerFailed => "failed",
            Self::McpServerStarting => "is starting",
            Self::McpServerStarted => "started",
            Self::McpServerStopped => "stopped",
            Self::McpServerRestarting => "is restarting",
            Self::McpServerToolsDiscovered => "offers its tools",
            Self::McpServerToolsUnavailable => "no longer offers its tools",
            Self::McpServerRecoveryStarted => "was lost and is being connected again",
            Self::McpServerRecoverySucceeded => "is back",
            Self::McpServerRecoveryFailed => "could not be connected again",
            Self::McpServerAuthRequired => "requires a login",
            Self::McpServerTokenForwarded => "accepted a forwarded token",
            Self::McpServerTokenForwardingFailed => "did not accept a forwarded token",
            Self::McpServerTokenExchanged => "accepted an exchanged token",
            Self::McpServerTokenExchangeFailed => "could not be reached by an exchanged token",
        };
        let kind = self.kind().as_str();
        match detail {
            "" => format!("{kind} {name} {what}"),
            detail => format!("{kind} {name} {what}: {detail}"),
        }
    }
}
