//! Why a gateway could not be asked.

use muster_mcp_client::talk::TalkError;
use thiserror::Error;

use super::target::Target;

/// Why a gateway could not be asked, or had no answer.
#[derive(Debug, Error)]
pub enum RemoteError {
    /// Nothing listens on this machine.
    #[error("muster server is not running. Start it with: muster serve")]
    NotRunning,
    /// Something listens on this machine that is no gateway, or a broken one.
    #[error(
        "muster server is not responding correctly (status: {status}). Try restarting with: muster serve"
    )]
    NotResponding {
        /// What it answered.
        status: u16,
    },
    /// It wants a login first.
    #[error("Authentication required for {endpoint}")]
    AuthRequired {
        /// The gateway.
        endpoint: String,
        /// Its challenge, if it sent one.
        challenge: Option<String>,
    },
    /// What was known of the user is no longer good.
    #[error("Authentication expired for {endpoint}")]
    AuthExpired {
        /// The gateway.
        endpoint: String,
    },
    /// The login did not work.
    #[error("Authentication failed for {endpoint}: {reason}")]
    AuthFailed {
        /// The gateway.
        endpoint: String,
        /// Why.
        reason: String,
    },
    /// No connection.
    #[error("initialization failed: {0}")]
    Connect(String),
    /// A tool call did not get through.
    #[error("failed to execute tool {tool}: tool call failed: {reason}")]
    Call {
        /// The tool.
        tool: String,
        /// Why.
        reason: String,
    },
    /// The gateway did not take the call.
    #[error("meta-tool error for {tool}: {reason}")]
    Meta {
        /// The tool.
        tool: String,
        /// The gateway's words.
        reason: String,
    },
    /// The gateway answered with nothing.
    #[error("empty content from call_tool for {tool}")]
    Empty {
        /// The tool.
        tool: String,
    },
    /// The gateway answered with something that holds no result.
    #[error("unexpected content type from call_tool for {tool}")]
    Unexpected {
        /// The tool.
        tool: String,
    },
    /// A list or a resource did not come.
    #[error("{0}")]
    Request(String),
}

impl RemoteError {
    pub(super) fn connecting(error: TalkError, target: &Target) -> Self {
        let endpoint = || target.url.clone();
        match error {
            TalkError::Unauthorized { challenge } => {
                Self::AuthRequired { endpoint: endpoint(), challenge }
            }
            TalkError::Lost(_) if target.is_local() => Self::NotRunning,
            TalkError::Status { status } if target.is_local() => Self::NotResponding { status },
            other => Self::Connect(other.to_string()),
        }
    }

    /// Who was let in and is no longer has to log in again.
    pub(super) fn calling(error: TalkError, tool: &str, endpoint: &str) -> Self {
        match error {
            TalkError::Unauthorized { .. } => Self::AuthExpired { endpoint: endpoint.to_owned() },
            other => Self::Call { tool: tool.to_owned(), reason: other.to_string() },
        }
    }

    pub(super) fn asking(error: TalkError, endpoint: &str) -> Self {
        match error {
            TalkError::Unauthorized { .. } => Self::AuthExpired { endpoint: endpoint.to_owned() },
            other => Self::Request(other.to_string()),
        }
    }
}
