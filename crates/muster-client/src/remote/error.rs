//! Errors of requests to a gateway.

use muster_api::error::ErrorKind;
use muster_mcp_client::TransportError;
use thiserror::Error;

use super::target::Target;

/// Why a request to a gateway failed.
#[derive(Debug, Error)]
pub enum RemoteError {
    /// Nothing listens on this machine.
    #[error("muster server is not running. Start it with: muster serve")]
    NotRunning,
    /// Something listens on this machine that is not a working gateway.
    #[error(
        "muster server is not responding correctly (status: {status}). Try restarting with: muster serve"
    )]
    NotResponding {
        /// The HTTP status of its response.
        status: u16,
    },
    /// The gateway requires a login.
    #[error("Authentication required for {endpoint}")]
    AuthRequired {
        /// The gateway.
        endpoint: String,
        /// Its challenge, if it sent one.
        challenge: Option<String>,
    },
    /// The token of the user is no longer accepted.
    #[error("Authentication expired for {endpoint}")]
    AuthExpired {
        /// The gateway.
        endpoint: String,
    },
    /// The login failed.
    #[error("Authentication failed for {endpoint}: {reason}")]
    AuthFailed {
        /// The gateway.
        endpoint: String,
        /// The cause.
        reason: String,
    },
    /// The gateway cannot be reached, or the connection was lost during the handshake.
    #[error("initialization failed: {0}")]
    Unreachable(String),
    /// TLS cannot be set up, or the certificate of the gateway is not trusted.
    #[error("initialization failed: {0}")]
    Insecure(String),
    /// The connection failed in another way.
    #[error("initialization failed: {0}")]
    Connect(String),
    /// The request for a tool call failed.
    #[error("failed to execute tool {tool}: tool call failed: {reason}")]
    Call {
        /// The tool.
        tool: String,
        /// The cause.
        reason: String,
    },
    /// The gateway refused the call.
    #[error("meta-tool error for {tool}: {reason}")]
    Meta {
        /// The tool.
        tool: String,
        /// The error text of the gateway.
        reason: String,
    },
    /// The tool reported an error.
    #[error("{text}")]
    Tool {
        /// Its text.
        text: String,
        /// The kind of the error, if the tool reports it.
        kind: Option<ErrorKind>,
    },
    /// The reply of a tool does not have the expected type.
    #[error("cannot read the reply of {tool}: {reason}")]
    Reply {
        /// The tool.
        tool: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The response has no content.
    #[error("empty content from call_tool for {tool}")]
    Empty {
        /// The tool.
        tool: String,
    },
    /// The response has content of an unexpected type.
    #[error("unexpected content type from call_tool for {tool}")]
    Unexpected {
        /// The tool.
        tool: String,
    },
    /// The gateway serves no console.
    #[error("the gateway at {origin} has no console")]
    NoConsole {
        /// The gateway.
        origin: String,
    },
    /// Another request failed: a list, a resource, a prompt.
    #[error("{0}")]
    Request(String),
}

impl RemoteError {
    pub(super) fn connecting(error: TransportError, target: &Target) -> Self {
        let endpoint = || target.url.clone();
        match error {
            TransportError::Unauthorized { challenge } => {
                Self::AuthRequired { endpoint: endpoint(), challenge }
            }
            TransportError::Unreachable(_) | TransportError::Lost(_) if target.is_local() => {
                Self::NotRunning
            }
            TransportError::Status { status } if target.is_local() => {
                Self::NotResponding { status }
            }
            TransportError::Unreachable(reason) | TransportError::Lost(reason) => {
                Self::Unreachable(reason)
            }
            TransportError::Insecure { reason, .. } => Self::Insecure(reason),
            other => Self::Connect(other.to_string()),
        }
    }

    /// The error of a failed tool call. Unlike when connecting, a rejected token means that the login has expired.
    pub(super) fn calling(error: TransportError, tool: &str, endpoint: &str) -> Self {
        match error {
            TransportError::Unauthorized { .. } => {
                Self::AuthExpired { endpoint: endpoint.to_owned() }
            }
            other => Self::Call { tool: tool.to_owned(), reason: other.to_string() },
        }
    }

    pub(super) fn request(error: TransportError, endpoint: &str) -> Self {
        match error {
            TransportError::Unauthorized { .. } => {
                Self::AuthExpired { endpoint: endpoint.to_owned() }
            }
            other => Self::Request(other.to_string()),
        }
    }
}
