//! The messages between replicas about servers that one of them runs.

use muster_api::mcp_server::ServerLogLine;
use muster_core::{
    backend::ResourceOperation,
    call::{CallError, Outcome},
    client::{Continuation, InputError, InputMode, InputRequest, Notification},
    connect::{ConnectError, ProtocolEra, ServerListing},
    json::Raw,
    name::BackendName,
};
use serde::{Deserialize, Serialize};

/// A request to the replica that runs a server.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Request {
    /// Lists what the server offers.
    List(Target),
    /// Runs a call that the asking replica permitted.
    Run {
        target: Target,
        tool: String,
        arguments: Raw,
        meta: Option<Raw>,
        continuation: Continuation,
        from: CallerInfo,
    },
    /// Serves a request that is not a tool call.
    Resource {
        target: Target,
        operation: ResourceOperation,
        meta: Option<Raw>,
        continuation: Continuation,
        from: CallerInfo,
    },
    /// Reads the log of a server.
    Logs { server: String, tail: usize, after: u64 },
    /// Starts, restarts or stops a server, and waits until that is done.
    Switch { server: String, running: bool, change: String },
}

/// A server under one lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Target {
    pub(super) server: String,
    /// The lease. Messages for an earlier lease are ignored.
    pub(super) lease: String,
}

/// The client of a call, as far as the server learns about it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct CallerInfo {
    pub(super) subject: String,
    pub(super) capabilities: Raw,
    pub(super) input_mode: InputMode,
    pub(super) era: Option<ProtocolEra>,
}

/// The answer to a request.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Reply {
    Listing(Box<ServerListing>),
    NotListed(String),
    /// The server no longer runs under that lease.
    Moving,
    Outcome(Outcome),
    Failed(Failure),
    Logs(Vec<ServerLogLine>),
    Switched,
}

/// Why a call failed.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Failure {
    Unavailable { reason: String, no_answer: bool },
    Upstream { code: i64, message: String, data: Option<Raw> },
}

impl Failure {
    /// A failure that says nothing about the server itself, and does not count for its circuit breaker.
    pub(super) fn elsewhere(reason: &str) -> Self {
        Self::Unavailable { reason: reason.to_owned(), no_answer: false }
    }

    pub(super) fn error(self, server: &str) -> CallError {
        match self {
            Self::Unavailable { reason, no_answer } => {
                CallError::Unavailable { backend: BackendName::new(server), reason, no_answer }
            }
            Self::Upstream { code, message, data } => CallError::Upstream { code, message, data },
        }
    }
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Upstream { code, message, data } => Self::Upstream { code, message, data },
            CallError::Unavailable { reason, no_answer, .. } => {
                Self::Unavailable { reason, no_answer }
            }
            error => Self::elsewhere(&error.to_string()),
        }
    }
}

impl Reply {
    pub(super) fn listed(listing: Result<ServerListing, ConnectError>) -> Self {
        match listing {
            Ok(listing) => Self::Listing(Box::new(listing)),
            Err(error) => Self::NotListed(error.to_string()),
        }
    }

    pub(super) fn ran(result: Result<Outcome, CallError>) -> Self {
        match result {
            Ok(outcome) => Self::Outcome(outcome),
            Err(error) => Self::Failed(error.into()),
        }
    }
}

/// A message about a call, to the replica of its client.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Notice {
    pub(super) ticket: String,
    /// The replica that runs the call.
    pub(super) replica: String,
    pub(super) what: NoticeKind,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum NoticeKind {
    /// A notification for the client.
    Notification(Notification),
    /// The call needs a capability that the client did not declare.
    MissingCapability(String),
    /// A request for input, sent again until it is answered.
    Input { number: u64, request: InputRequest },
    /// The input is no longer needed.
    Withdrawn { number: u64 },
}

/// The client's answer to a request for input.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Answer {
    pub(super) ticket: String,
    pub(super) number: u64,
    pub(super) answer: Result<Raw, InputError>,
}

/// Something that happened at a server.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Happened {
    pub(super) target: Target,
    pub(super) event: SharedEvent,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum SharedEvent {
    ListChanged,
    ResourceUpdated(String),
}
