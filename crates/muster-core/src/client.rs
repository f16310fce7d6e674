//! The port back to the client whose request is being served.
//!
//! While a request is served, it may send notifications (progress, log lines), and its backend may
//! request input (elicitation, sampling). How these travel depends on the transport and the
//! protocol era.

use std::{fmt, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{
    backend::BoxFuture, connect::ProtocolEra, json::Raw, protocol_request::ProtocolRequest,
};

/// A handle to the client of one request, valid while the request is served.
pub trait ClientHandle: Send + Sync {
    /// The capabilities that the client declared: a JSON object.
    fn capabilities(&self) -> Raw;

    /// How the client can be asked for input.
    fn input_mode(&self) -> InputMode;

    /// The protocol era that the client speaks, if it is known.
    fn era(&self) -> Option<ProtocolEra> {
        None
    }

    /// The request that is being served, as traces describe it; `None` if it did not arrive over the protocol.
    fn protocol_request(&self) -> Option<ProtocolRequest> {
        None
    }

    /// Sends a notification. It is dropped if it cannot be delivered.
    fn notify(&self, notice: Notification);

    /// The session of the client, if it has one that outlives the request.
    fn client_session(&self) -> Option<Arc<dyn ClientSession>> {
        None
    }

    /// Records that the request needs a capability that the client did not declare.
    fn missing_capability(&self, _capability: &str) {}

    /// The limits on further calls of the request; `None` if calls are not limited. The first call of a request is counted
    /// with it.
    fn call_counter(&self) -> Option<Arc<dyn CallCounter>> {
        None
    }

    /// Requests input and waits for the response. Dropping the future cancels the request.
    fn request_input(&self, question: InputRequest) -> BoxFuture<'_, Result<Raw, InputError>>;
}

crate::opaque_debug!(ClientHandle);

/// The limits on the calls of a request's caller.
pub trait CallCounter: Send + Sync {
    /// Counts a further call, if the caller may make one now.
    fn begin(&self) -> BoxFuture<'_, Result<CallSlot, TooManyCalls>>;
}

crate::opaque_debug!(CallCounter);

/// Holds the slot of a counted call until it is dropped.
pub type CallSlot = Box<dyn fmt::Debug + Send + Sync>;

/// The caller has reached a limit on its calls.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct TooManyCalls {
    /// The limit that was reached, and how to proceed.
    pub message: String,
    /// When to try again.
    pub retry: CallRetry,
}

/// When a caller may retry a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallRetry {
    /// As soon as another call of the caller has ended. This call already counts towards the rate limit.
    WhenOneEnds,
    /// After this time, unless other calls use up the rate limit first.
    After(Duration),
}

/// The session of a client.
pub trait ClientSession: Send + Sync {
    /// Sends a notification that belongs to no request; `false` if it cannot be delivered.
    fn notify(&self, notification: &Notification) -> bool;

    /// Starts a stream of notifications, which replaces the one before, and returns its number.
    fn begin_stream(&self) -> u64;

    /// The number of the newest stream.
    fn newest_stream(&self) -> u64;
}

crate::opaque_debug!(ClientSession);

/// How a client can be asked for input while its request is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum InputMode {
    /// By a request from the server to the client.
    Direct,
    /// By a result that carries the input requests; the client repeats its request with the
    /// responses.
    InResult,
    /// The client cannot be asked.
    Unsupported,
}

/// A notification to a client.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Notification {
    /// The method, such as `notifications/progress`.
    pub method: String,
    /// The parameters: a JSON object.
    pub params: Raw,
}

/// A request for input from a client.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct InputRequest {
    /// The method, such as `elicitation/create`.
    pub method: String,
    /// The parameters: a JSON object.
    pub params: Raw,
}

/// Why an input request has no response.
#[derive(Debug, Clone, Error, Serialize, Deserialize)]
pub enum InputError {
    /// The client did not declare the capability.
    #[error("the client did not declare the capability `{capability}`")]
    NotDeclared {
        /// The missing capability.
        capability: String,
    },
    /// The client responded with an error.
    #[error("{message}")]
    Refused {
        /// The error code.
        code: i64,
        /// The error message.
        message: String,
        /// The error data.
        data: Option<Raw>,
    },
    /// The client has disconnected.
    #[error("the client is gone")]
    Disconnected,
}

/// A client that ignores notifications and cannot be asked: for background work.
#[derive(Debug)]
pub struct NoClient;

impl NoClient {
    /// A shared handle.
    pub fn shared() -> Arc<dyn ClientHandle> {
        Arc::new(Self)
    }
}

impl ClientHandle for NoClient {
    fn capabilities(&self) -> Raw {
        crate::json::RawObject::new().to_raw()
    }

    fn input_mode(&self) -> InputMode {
        InputMode::Unsupported
    }

    fn notify(&self, _: Notification) {}

    fn request_input(&self, _: InputRequest) -> BoxFuture<'_, Result<Raw, InputError>> {
        Box::pin(std::future::ready(Err(InputError::Disconnected)))
    }
}

/// A result that requests input before the real result can be given.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct InputRequired {
    /// The input requests by key; the responses use the same keys.
    pub requests: Vec<(String, InputRequest)>,
    /// Opaque state that the client must send back unchanged.
    pub state: Option<Raw>,
    /// The whole result object, if a backend made it.
    pub result: Option<Raw>,
}

/// The responses of a client that repeats a request.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Continuation {
    /// The responses by key: a JSON object, exactly as sent.
    pub responses: Option<Raw>,
    /// The state from the earlier result, exactly as sent.
    pub state: Option<Raw>,
}

impl Continuation {
    /// Whether this is the first attempt.
    pub fn is_empty(&self) -> bool {
        self.responses.is_none() && self.state.is_none()
    }
}
