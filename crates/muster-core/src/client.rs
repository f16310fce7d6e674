//! The way back to the client whose request is being served.
//!
//! A request may have something to say before its answer (progress, log lines), and the work behind
//! it may have something to ask (a choice, a completion by the client's model). What carries these
//! differs by transport and protocol era; here it is only said what can be carried.

use std::{fmt, sync::Arc};

use thiserror::Error;

use crate::{backend::BoxFuture, json::Raw};

/// The client of one request, for as long as the request is being served.
pub trait ClientHandle: fmt::Debug + Send + Sync {
    /// What the client said it can do: a JSON object of capabilities.
    fn capabilities(&self) -> Raw;

    /// How it can be asked something.
    fn input_mode(&self) -> InputMode;

    /// Tells it something about this request. What cannot be delivered is dropped.
    fn notify(&self, notice: Notification);

    /// Says that the request cannot be served without a capability that it did not declare.
    fn missing_capability(&self, _capability: &str) {}

    /// Asks it something and waits for the answer. Dropping the future withdraws the question.
    fn request_input(&self, question: InputRequest) -> BoxFuture<'_, Result<Raw, InputError>>;
}

/// How a client can be asked something while its request is being served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputMode {
    /// By a request of ours, now.
    Direct,
    /// By answering its request with questions; it will come again with answers.
    InResult,
    /// Not at all.
    Unsupported,
}

/// Something a client is told: a method of the protocol and its parameters.
#[derive(Debug, Clone)]
pub struct Notification {
    /// Such as `notifications/progress`.
    pub method: String,
    /// A JSON object.
    pub params: Raw,
}

/// Something a client is asked.
#[derive(Debug, Clone)]
pub struct InputRequest {
    /// Such as `elicitation/create`.
    pub method: String,
    /// A JSON object.
    pub params: Raw,
}

/// Why a question has no answer.
#[derive(Debug, Clone, Error)]
pub enum InputError {
    /// The client cannot be asked such a thing.
    #[error("the client did not declare the capability `{capability}`")]
    NotDeclared {
        /// What it would have to declare.
        capability: String,
    },
    /// The client answered with an error.
    #[error("{message}")]
    Refused {
        /// Its code.
        code: i64,
        /// Its words.
        message: String,
        /// What it added.
        data: Option<Raw>,
    },
    /// The client is gone.
    #[error("the client is gone")]
    Disconnected,
}

/// A client that hears nothing and answers nothing: for work that nobody waits for.
#[derive(Debug)]
pub struct NoClient;

impl NoClient {
    /// It, shared.
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

/// The questions that stand between a request and its answer.
#[derive(Debug, Clone)]
pub struct InputRequired {
    /// What is asked, by a key that the answers use again.
    pub requests: Vec<(String, InputRequest)>,
    /// What the client must send back unchanged.
    pub state: Option<Raw>,
    /// What else came with the questions: the whole result object, where a backend made it.
    pub result: Option<Raw>,
}

/// What a client brings along when it comes again with answers.
#[derive(Debug, Clone, Default)]
pub struct Continuation {
    /// The answers by key: a JSON object, exactly as sent.
    pub responses: Option<Raw>,
    /// The state it was given, exactly as sent.
    pub state: Option<Raw>,
}

impl Continuation {
    /// Whether this is a first request.
    pub fn is_empty(&self) -> bool {
        self.responses.is_none() && self.state.is_none()
    }
}
