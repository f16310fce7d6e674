//! Why a request of the client has no answer of the server.

use muster_mcp::wire::{RpcError, code};
use thiserror::Error;

use crate::failure::Failure;

/// What other clients say for a connection that broke.
const CONNECTION_CLOSED: i64 = -32000;

/// Why a request has no answer.
#[derive(Debug, Error)]
pub(super) enum Trouble {
    /// The server was never reached, for as long as it was tried.
    #[error("{0}; start it with: muster serve")]
    Unreachable(String),
    /// The server may have seen the request, but did not answer it.
    #[error("{0}; the request may have been carried out, so it was not repeated")]
    Broke(String),
    /// It does not know the session.
    #[error("the server does not know the session any more")]
    SessionGone,
    /// It wants to know who asks.
    #[error("the server wants a login")]
    Unauthorized {
        /// The token that it did not take.
        refused: Option<String>,
        /// What it says about that.
        challenge: Option<String>,
    },
    /// There is no login.
    #[error("authentication failed: {0}")]
    NoLogin(String),
    /// It answered in terms of HTTP only.
    #[error("the server answered with status {0}")]
    Status(u16),
    /// It answered with something else than messages.
    #[error("the server answered with `{0}` instead of a message")]
    NoMessage(String),
    /// It said an error without naming the request.
    #[error("{}", .0.message)]
    Refused(RpcError),
}

impl Trouble {
    /// What a failure comes to once the server may have seen the request.
    pub(super) fn after(failure: &Failure) -> Self {
        Self::Broke(failure.to_string())
    }

    pub(super) fn into_error(self) -> RpcError {
        let message = self.to_string();
        match self {
            Self::Refused(error) => error,
            Self::Unreachable(_) | Self::Broke(_) | Self::SessionGone => {
                RpcError::new(CONNECTION_CLOSED, message)
            }
            Self::Unauthorized { .. } | Self::NoLogin(_) | Self::Status(_) | Self::NoMessage(_) => {
                RpcError::new(code::INTERNAL_ERROR, message)
            }
        }
    }
}
