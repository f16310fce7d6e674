//! Why a request to a server has no result.

use muster_core::{
    call::CallError,
    connect::ConnectError,
    name::BackendName,
    spooled::{MEMORY_LIMIT, SpoolError},
};
use muster_mcp::wire::RpcError;
use thiserror::Error;

/// The largest message of a server that is held in memory: a result may hold a large file, but not all
/// memory.
pub(super) const LARGEST: usize = MEMORY_LIMIT as usize;

/// The message about an answer that is longer than `limit` bytes.
pub(super) fn too_large(limit: u64) -> String {
    SpoolError::TooLarge { limit }.to_string()
}

/// Why a request to a server has no result. Texts never hold a secret: no header, no query.
#[derive(Debug, Error)]
pub(super) enum Failure {
    /// It answered with an error.
    #[error("{}", .error.message)]
    Refused {
        /// The HTTP status that came with it, if it was not a plain success.
        status: Option<u16>,
        /// The error.
        error: RpcError,
    },
    /// It wants a login first.
    #[error("authentication required (status 401)")]
    Unauthorized {
        /// What it says about that.
        challenge: Option<String>,
    },
    /// There is no token for it, and logging in anew would not help.
    #[error("{0}")]
    NotAdmitted(String),
    /// It does not know our session, and so has not looked at the request.
    #[error("it does not know the session any more (status {status})")]
    SessionGone {
        /// The HTTP status that said so.
        status: u16,
    },
    /// It did not speak of the request at all, only in terms of HTTP.
    #[error("it answered with status {status}")]
    Status {
        /// The HTTP status.
        status: u16,
    },
    /// It could not be reached, or went away: later it may work.
    #[error("{0}")]
    Lost(String),
    /// It cannot be spoken to in secret, or is not who it should be.
    #[error("{0}")]
    Insecure(String),
    /// It will not work like this.
    #[error("{0}")]
    Broken(String),
}

impl Failure {
    /// An error that came without trouble of the transport.
    pub(super) const fn refused(error: RpcError) -> Self {
        Self::Refused { status: None, error }
    }

    /// The code of its error, if it answered with one.
    pub(super) const fn code(&self) -> Option<i64> {
        match self {
            Self::Refused { error, .. } => Some(error.code),
            Self::Unauthorized { .. }
            | Self::NotAdmitted(_)
            | Self::SessionGone { .. }
            | Self::Status { .. }
            | Self::Lost(_)
            | Self::Insecure(_)
            | Self::Broken(_) => None,
        }
    }

    /// What a call comes to.
    pub(super) fn into_call_error(self, backend: &BackendName) -> CallError {
        match self {
            Self::Refused { error: RpcError { code, message, data }, .. } => {
                CallError::Upstream { code, message, data }
            }
            other => CallError::Unavailable { backend: backend.clone(), reason: other.to_string() },
        }
    }

    /// What connecting or listing comes to; `doing` is the method that failed.
    pub(super) fn into_connect_error(self, doing: &str) -> ConnectError {
        match self {
            Self::Unauthorized { challenge } => ConnectError::Unauthorized { challenge },
            Self::Lost(reason) => ConnectError::Transient(reason),
            Self::Status { status } if is_transient(status) => {
                ConnectError::Transient(self.to_string())
            }
            Self::Refused { status: Some(status), .. } if is_transient(status) => {
                ConnectError::Transient(format!(
                    "it answered `{doing}` with status {status}: {self}"
                ))
            }
            Self::Refused { .. } => {
                ConnectError::Permanent(format!("it refused `{doing}`: {self}"))
            }
            Self::SessionGone { .. }
            | Self::NotAdmitted(_)
            | Self::Status { .. }
            | Self::Insecure(_)
            | Self::Broken(_) => ConnectError::Permanent(self.to_string()),
        }
    }
}

/// Whether the same request may be answered otherwise later: overload and faults of the server.
const fn is_transient(status: u16) -> bool {
    matches!(status, 408 | 425 | 429 | 500..=599)
}
