//! The errors of requests to upstreams.

use muster_core::{
    call::CallError,
    connect::{CertificateProblem, ConnectError},
    name::BackendName,
    spooled::{MEMORY_LIMIT, SpooledLoadError},
};
use muster_mcp::wire::RpcError;
use muster_net::UrlError;
use thiserror::Error;

/// The largest message that is held in memory: a result may contain a large file, but must not exhaust
/// the process.
pub(crate) const MAX_IN_MEMORY: usize = MEMORY_LIMIT as usize;

/// The error text for a message of more than `limit` bytes.
pub(crate) fn too_large(limit: u64) -> String {
    SpooledLoadError::TooLarge { limit }.to_string()
}

/// Why a request to an upstream has no result. The texts never contain a secret: no header, no query.
#[derive(Debug, Error)]
pub enum TransportError {
    /// The upstream answered with a JSON-RPC error.
    #[error("{}", .error.message)]
    Refused {
        /// The HTTP status, if it was not a success.
        status: Option<u16>,
        /// The error.
        error: RpcError,
    },
    /// The upstream requires a login.
    #[error("authentication required (status 401)")]
    Unauthorized {
        /// Its `WWW-Authenticate` challenge.
        challenge: Option<String>,
    },
    /// There is no token for the upstream, and another login would not help.
    #[error("{0}")]
    LoginFailed(String),
    /// The upstream no longer knows the session, and so has not processed the request.
    #[error("it does not know the session any more (status {status})")]
    SessionGone {
        /// The HTTP status.
        status: u16,
    },
    /// The upstream answered with an HTTP status and no JSON-RPC message.
    #[error("it answered with status {status}")]
    Status {
        /// The HTTP status.
        status: u16,
    },
    /// The upstream cannot be reached. Nothing was sent, so a retry is safe.
    #[error("{0}")]
    Unreachable(String),
    /// The connection was lost. The upstream may have processed the request.
    #[error("{0}")]
    Lost(String),
    /// TLS cannot be set up, or the upstream's certificate is not trusted.
    #[error("{reason}")]
    Insecure {
        /// The reason, for people.
        reason: String,
        /// What is wrong with the certificate; `None` if TLS failed for another reason.
        certificate: Option<CertificateProblem>,
    },
    /// The configuration or the upstream's answer is unusable; a retry would not help.
    #[error("{0}")]
    Invalid(String),
}

impl TransportError {
    /// A JSON-RPC error that arrived with a successful status or without HTTP.
    pub(crate) const fn refused(error: RpcError) -> Self {
        Self::Refused { status: None, error }
    }

    /// The JSON-RPC error code, if the upstream answered with one.
    pub(crate) const fn code(&self) -> Option<i64> {
        match self {
            Self::Refused { error, .. } => Some(error.code),
            _ => None,
        }
    }

    /// Whether the connection failed, before or after the request was sent.
    pub(crate) const fn is_disconnect(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::Lost(_))
    }

    /// Whether the upstream could not be reached or the connection was lost, or a proxy reports that.
    const fn is_no_answer(&self) -> bool {
        match self {
            Self::Status { status } => matches!(status, 502..=504),
            _ => self.is_disconnect(),
        }
    }

    /// Whether the next attempt may succeed, as after a restart, an overload or a login.
    pub(crate) const fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable(_)
            | Self::Lost(_)
            | Self::Unauthorized { .. }
            | Self::LoginFailed(_) => true,
            Self::Status { status } | Self::Refused { status: Some(status), .. } => {
                is_transient(*status)
            }
            Self::Refused { status: None, .. }
            | Self::SessionGone { .. }
            | Self::Insecure { .. }
            | Self::Invalid(_) => false,
        }
    }

    pub(crate) fn into_call_error(self, backend: &BackendName) -> CallError {
        match self {
            Self::Refused { error: RpcError { code, message, data }, .. } => {
                CallError::Upstream { code, message, data }
            }
            other => CallError::Unavailable {
                backend: backend.clone(),
                no_answer: other.is_no_answer(),
                reason: other.to_string(),
            },
        }
    }

    /// The error of connecting or listing; `method` is the request that failed.
    pub(crate) fn into_connect_error(self, method: &str) -> ConnectError {
        match self {
            Self::Unauthorized { challenge } => ConnectError::Unauthorized { challenge },
            Self::Unreachable(reason) | Self::Lost(reason) => ConnectError::Transient(reason),
            Self::Status { status } if is_transient(status) => {
                ConnectError::Transient(self.to_string())
            }
            Self::Refused { status: Some(status), .. } if is_transient(status) => {
                ConnectError::Transient(format!(
                    "it answered `{method}` with status {status}: {self}"
                ))
            }
            Self::Refused { .. } => {
                ConnectError::Permanent(format!("it refused `{method}`: {self}"))
            }
            Self::Insecure { reason, certificate } => {
                ConnectError::Insecure { reason, certificate }
            }
            Self::SessionGone { .. }
            | Self::LoginFailed(_)
            | Self::Status { .. }
            | Self::Invalid(_) => ConnectError::Permanent(self.to_string()),
        }
    }
}

impl From<UrlError> for TransportError {
    fn from(error: UrlError) -> Self {
        Self::Invalid(format!("the address of the server cannot be used: {error}"))
    }
}

/// Whether a status indicates an overload or a fault of the server, so that a retry may succeed.
const fn is_transient(status: u16) -> bool {
    matches!(status, 408 | 425 | 429 | 500..=599)
}
