//! The span of a client's request: the parent of the spans of its calls.

use std::time::{Instant, SystemTime};

use muster_core::{
    call::{Caller, Outcome},
    client::ClientHandle,
    json::Raw,
    observer::{CallObserver, CallStatus, FinishedError, FinishedRequest, TraceSpan},
    protocol_request::ProtocolRequest,
    request::RequestError,
    text,
};

use super::{Dispatcher, is_error};

/// A request in progress. A request that is dropped before its end is reported as cancelled.
pub(crate) struct RequestSpan<'a> {
    observer: &'a dyn CallObserver,
    caller: &'a Caller,
    tool: String,
    span: TraceSpan,
    protocol: Option<ProtocolRequest>,
    began: (SystemTime, Instant),
    is_reported: bool,
}

impl<'a> RequestSpan<'a> {
    /// Begins a span for a call of a surface's tool and writes it to `meta`. `None` if there are no traces.
    pub(crate) fn begin(
        dispatcher: &'a Dispatcher,
        (caller, client): (&'a Caller, &dyn ClientHandle),
        tool: &str,
        meta: &mut Option<Raw>,
    ) -> Option<Self> {
        let observer = dispatcher.observer.as_deref()?;
        let span = super::observation::span(observer, caller, meta)?;
        let protocol = span.context.sampled.then(|| client.protocol_request()).flatten();
        let began = (SystemTime::now(), Instant::now());
        // Unknown names may be of any length.
        let tool = text::shortened(tool).into_owned();
        Some(Self { observer, caller, tool, span, protocol, began, is_reported: false })
    }

    /// The span of log lines that are written during the request.
    pub(crate) fn log_span(&self) -> tracing::Span {
        super::observation::log_span(Some(self.span))
    }

    /// Records the reply to the request.
    pub(crate) fn end(mut self, answer: &Result<Outcome, RequestError>) {
        let status = match answer {
            Ok(Outcome::Text { failed: false, .. }) => CallStatus::Ok,
            Ok(Outcome::Raw(result)) if !is_error(result) => CallStatus::Ok,
            Ok(Outcome::Text { .. } | Outcome::Raw(_)) => CallStatus::Failed,
            Ok(Outcome::InputRequired(_)) => CallStatus::NeedsInput,
            Err(_) => CallStatus::Refused,
        };
        self.report(status, answer.as_ref().err().map(FinishedError::from));
    }

    fn report(&mut self, status: CallStatus, error: Option<FinishedError>) {
        self.is_reported = true;
        let (began, instant) = self.began;
        self.observer.request_finished(FinishedRequest {
            began,
            duration: instant.elapsed(),
            caller: self.caller.clone(),
            tool: std::mem::take(&mut self.tool),
            status,
            error,
            span: self.span,
            protocol: self.protocol.take(),
        });
    }
}

impl Drop for RequestSpan<'_> {
    fn drop(&mut self) {
        if !self.is_reported {
            self.report(CallStatus::Cancelled, None);
        }
    }
}
