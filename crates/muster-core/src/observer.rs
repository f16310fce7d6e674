//! The port to telemetry: an observer is notified once of every call that ends.
//!
//! The observer decides what is counted, stored or exported. It is notified on the thread that served the call, so it
//! must not block.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use serde::{Deserialize, Serialize};

use crate::{
    call::{CallError, Caller},
    catalog::ToolEntry,
    json::Raw,
    name::ToolName,
    policy::Policy,
    protocol_request::ProtocolRequest,
    request::RequestError,
    trace_context::SpanContext,
};

/// Observes the calls of a dispatcher.
pub trait CallObserver: Send + Sync {
    /// Whether finished calls should carry their arguments, which costs a copy.
    fn wants_arguments(&self) -> bool;

    /// A permitted call is handed to its backend.
    fn running(&self, tool: &ToolEntry);

    /// A call is over.
    fn finished(&self, call: FinishedCall);

    /// Begins a span below `parent`; `None` if calls are not traced.
    fn begin_span(&self, parent: Option<SpanContext>) -> Option<SpanContext>;

    /// A request with a span is over.
    fn request_finished(&self, request: FinishedRequest);
}

crate::opaque_debug!(CallObserver);

/// A span and its parent.
#[derive(Debug, Clone, Copy)]
pub struct TraceSpan {
    /// The span itself.
    pub context: SpanContext,
    /// The id of its parent span.
    pub parent: Option<[u8; 8]>,
}

/// A client's finished call of a surface's tool, such as `call_tool`.
#[derive(Debug)]
pub struct FinishedRequest {
    /// When it began.
    pub began: SystemTime,
    /// How long it took.
    pub duration: Duration,
    /// The caller.
    pub caller: Caller,
    /// The tool of the surface.
    pub tool: String,
    /// How it ended.
    pub status: CallStatus,
    /// The error of a request without a result.
    pub error: Option<FinishedError>,
    /// Its span.
    pub span: TraceSpan,
    /// The request as the protocol carried it.
    pub protocol: Option<ProtocolRequest>,
}

/// A finished call.
#[derive(Debug)]
pub struct FinishedCall {
    /// When it began.
    pub began: SystemTime,
    /// How long it took, from the dispatcher to the result.
    pub duration: Duration,
    /// How long the backend took; `None` if the call never reached it.
    pub backend_duration: Option<Duration>,
    /// The caller.
    pub caller: Caller,
    /// The surface that the caller used.
    pub surface: &'static str,
    /// The requested name.
    pub tool: ToolName,
    /// The tool; `None` if no tool has this name.
    pub entry: Option<Arc<ToolEntry>>,
    /// The policy that decided.
    pub policy: Arc<Policy>,
    /// How it ended.
    pub status: CallStatus,
    /// The error of a call without a result.
    pub error: Option<FinishedError>,
    /// The arguments, if the observer wants them and they are short enough.
    pub arguments: Option<Raw>,
    /// The length of the arguments in bytes.
    pub argument_bytes: usize,
    /// The length of the result in bytes, as the backend returned it.
    pub result_bytes: u64,
    /// Its span, if it is traced.
    pub span: Option<TraceSpan>,
    /// The request that the backend sent to its server, if the call is traced.
    pub sent: Option<ProtocolRequest>,
}

/// The error of a call or a request without a result.
#[derive(Debug)]
pub struct FinishedError {
    /// Its text.
    pub text: String,
    /// The code of the protocol error that the server returned, if it returned one.
    pub code: Option<i64>,
}

impl From<&CallError> for FinishedError {
    fn from(error: &CallError) -> Self {
        let code = match error {
            CallError::Upstream { code, .. } => Some(*code),
            _ => None,
        };
        Self { text: error.to_string(), code }
    }
}

impl From<&RequestError> for FinishedError {
    fn from(error: &RequestError) -> Self {
        let code = match error {
            RequestError::Upstream { code, .. } => Some(*code),
            _ => None,
        };
        Self { text: error.to_string(), code }
    }
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallStatus {
    /// The tool ran and succeeded.
    Ok,
    /// The tool ran and reported a failure.
    Failed,
    /// The tool requests input first.
    NeedsInput,
    /// The caller left, or the gateway ended.
    Cancelled,
    /// There is no such tool for this caller.
    Unknown,
    /// The arguments are invalid.
    Arguments,
    /// The policy refuses the call.
    Denied,
    /// The backend could not be reached.
    Unavailable,
    /// The backend responded with a protocol error.
    Refused,
    /// Calls are nested too deep.
    TooDeep,
}

impl CallStatus {
    /// Every status, in the order of their numbers.
    pub const ALL: [Self; 10] = [
        Self::Ok,
        Self::Failed,
        Self::NeedsInput,
        Self::Cancelled,
        Self::Unknown,
        Self::Arguments,
        Self::Denied,
        Self::Unavailable,
        Self::Refused,
        Self::TooDeep,
    ];

    /// The status of a call without a result.
    pub const fn of_error(error: &CallError) -> Self {
        match error {
            CallError::UnknownTool { .. } => Self::Unknown,
            CallError::InvalidArguments { .. } | CallError::Instance(_) => Self::Arguments,
            CallError::PolicyViolation { .. }
            | CallError::InvalidPolicy { .. }
            | CallError::Destructive { .. }
            | CallError::ExcessiveEffect(_) => Self::Denied,
            CallError::Unavailable { .. } => Self::Unavailable,
            CallError::Upstream { .. } => Self::Refused,
            CallError::TooDeep { .. } => Self::TooDeep,
        }
    }

    /// Its name in logs, metrics and replies.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed => "failed",
            Self::NeedsInput => "needs_input",
            Self::Cancelled => "cancelled",
            Self::Unknown => "unknown",
            Self::Arguments => "arguments",
            Self::Denied => "denied",
            Self::Unavailable => "unavailable",
            Self::Refused => "refused",
            Self::TooDeep => "too_deep",
        }
    }

    /// The status of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == name)
    }

    /// Its position in [`CallStatus::ALL`].
    pub const fn number(self) -> usize {
        self as usize
    }

    /// Whether the tool reported a failure, or the caller got an error instead of a result of the tool.
    pub const fn is_error(self) -> bool {
        !matches!(self, Self::Ok | Self::NeedsInput | Self::Cancelled)
    }
}

#[cfg(test)]
mod tests {
    use super::CallStatus;

    #[test]
    fn numbers_and_names_are_unambiguous() {
        for (number, status) in CallStatus::ALL.into_iter().enumerate() {
            assert_eq!(status.number(), number);
            assert_eq!(CallStatus::named(status.as_str()), Some(status));
        }
        assert_eq!(CallStatus::named("fine"), None);
    }
}
