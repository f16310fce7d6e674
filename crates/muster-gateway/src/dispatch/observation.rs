//! Observes one call, from when the dispatcher takes it until it has a result or is dropped.

use std::{
    sync::Arc,
    time::{Instant, SystemTime},
};

use muster_core::{
    call::{Call, CallError, Caller, Outcome},
    catalog::ToolEntry,
    hex,
    json::Raw,
    name::ToolName,
    observer::{CallObserver, CallStatus, FinishedCall, FinishedError, TraceSpan},
    policy::{Permitted, Policy},
    protocol_request::SentRequest,
    spooled::ToolResult,
    trace_context::SpanContext,
};

use super::{Dispatcher, GatewaySnapshot, audit, is_error};

/// The longest arguments that are copied for the observer.
const MAX_ARGUMENTS: usize = 64 * 1024;

/// A call in progress. A call that is dropped before its end is reported as cancelled.
pub(super) struct Observation<'a> {
    observer: Option<&'a dyn CallObserver>,
    surface: &'static str,
    caller: &'a Caller,
    policy: &'a Arc<Policy>,
    tool: ToolName,
    entry: Option<Arc<ToolEntry>>,
    began: (SystemTime, Instant),
    /// When the call was handed to the backend.
    handed_over: Option<Instant>,
    arguments: Option<Raw>,
    argument_bytes: usize,
    /// The names of the arguments, if there is an audit log.
    names: Option<String>,
    span: Option<TraceSpan>,
    /// Receives the request that the backend sends. Only for calls whose span is recorded.
    sent: Option<Box<SentRequest>>,
    is_reported: bool,
}

/// Begins a span as a child of the one in `meta`, or else of the caller's enclosing call, and writes it to `meta`.
pub(super) fn span(
    observer: &dyn CallObserver,
    caller: &Caller,
    meta: &mut Option<Raw>,
) -> Option<TraceSpan> {
    let parent = meta.as_deref().and_then(SpanContext::of_meta).or(caller.span);
    let context = observer.begin_span(parent)?;
    *meta = Some(context.into_meta(meta.as_deref()));
    Some(TraceSpan { context, parent: parent.map(|parent| parent.span_id) })
}

/// Returns the `tracing` span for log lines written meanwhile: it adds the ids of the trace to them.
pub(super) fn log_span(span: Option<TraceSpan>) -> tracing::Span {
    let Some(TraceSpan { context, .. }) = span else { return tracing::Span::none() };
    let (trace_id, span_id) = (hex::encode(&context.trace_id), hex::encode(&context.span_id));
    // At the level that is never filtered out: the span by itself logs nothing.
    tracing::error_span!("traced", trace_id, span_id)
}

impl<'a> Observation<'a> {
    /// Begins to observe a call. `None` if nothing observes it.
    pub(super) fn begin(
        dispatcher: &'a Dispatcher,
        snapshot: &'a GatewaySnapshot,
        caller: &'a Caller,
        call: &mut Call,
    ) -> Option<Self> {
        let observer = dispatcher.observer.as_deref();
        let is_audited = audit::is_enabled();
        if observer.is_none() && !is_audited {
            return None;
        }
        let argument_bytes = call.arguments.get().len();
        let wants = observer.is_some_and(CallObserver::wants_arguments);
        let span = observer.and_then(|observer| span(observer, caller, &mut call.meta));
        let is_recorded = span.is_some_and(|span| span.context.sampled);
        Some(Self {
            observer,
            surface: dispatcher.surface,
            caller,
            policy: &snapshot.policy,
            tool: call.tool.clone(),
            entry: snapshot.catalog.get(call.tool.as_str()).cloned(),
            began: (SystemTime::now(), Instant::now()),
            handed_over: None,
            arguments: (wants && argument_bytes <= MAX_ARGUMENTS).then(|| call.arguments.clone()),
            argument_bytes,
            names: is_audited.then(|| audit::argument_names(&call.arguments)),
            span,
            sent: is_recorded.then(Box::default),
            is_reported: false,
        })
    }

    /// Records that the call is permitted and goes to its backend.
    pub(super) fn hand_over(&mut self, call: &Permitted) {
        let entry = call.shared_entry();
        if let Some(observer) = self.observer {
            observer.running(entry);
        }
        // For a tool of a family, this is the tool of the selected server.
        self.entry = Some(Arc::clone(entry));
        self.handed_over = Some(Instant::now());
    }

    /// The caller of nested calls, whose spans are children of this one's; `None` if this call has no span.
    pub(super) fn nested_caller(&self) -> Option<Caller> {
        let span = self.span?;
        Some(Caller { span: Some(span.context), ..self.caller.clone() })
    }

    /// The place for the request that the backend sends.
    pub(super) fn sent_request(&self) -> Option<&SentRequest> {
        self.sent.as_deref()
    }

    /// The span of log lines that are written during the call.
    pub(super) fn log_span(&self) -> tracing::Span {
        log_span(self.span)
    }

    /// Records the result of the call.
    pub(super) fn end(mut self, result: &Result<ToolResult, CallError>) {
        let (status, bytes) = judged(result);
        let error = result.as_ref().err().map(FinishedError::from);
        self.report(status, bytes, error);
    }

    fn report(&mut self, status: CallStatus, result_bytes: u64, error: Option<FinishedError>) {
        self.is_reported = true;
        let (began, instant) = self.began;
        let call = FinishedCall {
            began,
            duration: instant.elapsed(),
            backend_duration: self.handed_over.map(|at| at.elapsed()),
            caller: self.caller.clone(),
            surface: self.surface,
            tool: self.tool.clone(),
            entry: self.entry.take(),
            policy: Arc::clone(self.policy),
            status,
            error,
            arguments: self.arguments.take(),
            argument_bytes: self.argument_bytes,
            result_bytes,
            span: self.span,
            sent: self.sent.as_ref().and_then(|sent| sent.take()),
        };
        if let Some(names) = &self.names {
            audit::write(&call, names);
        }
        if let Some(observer) = self.observer {
            observer.finished(call);
        }
    }
}

impl Drop for Observation<'_> {
    fn drop(&mut self) {
        if !self.is_reported {
            self.report(CallStatus::Cancelled, 0, None);
        }
    }
}

/// How a call ended, and the length of its result.
fn judged(result: &Result<ToolResult, CallError>) -> (CallStatus, u64) {
    let length = |text: &str| u64::try_from(text.len()).unwrap_or(u64::MAX);
    let (failed, bytes) = match result {
        Ok(ToolResult::Inline(Outcome::Text { failed, text, .. })) => (*failed, length(text)),
        Ok(ToolResult::Inline(Outcome::Raw(raw))) => (is_error(raw), length(raw.get())),
        Ok(ToolResult::Inline(Outcome::InputRequired(_))) => return (CallStatus::NeedsInput, 0),
        Ok(ToolResult::Spooled(spooled)) => (spooled.failed(), spooled.bytes()),
        Err(error) => return (CallStatus::of_error(error), 0),
    };
    (if failed { CallStatus::Failed } else { CallStatus::Ok }, bytes)
}
