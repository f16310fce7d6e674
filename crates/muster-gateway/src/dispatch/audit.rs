//! The audit log: one line per call with its subject, tool, outcome and duration. Argument values are never
//! logged.

use muster_core::{
    call::AUDIT,
    hex,
    json::{Raw, RawObject},
    observer::FinishedCall,
    text::log_name,
};

/// The maximum number of argument names in a line.
const MAX_ARGUMENTS: usize = 100;

/// Whether the audit log is enabled. Callers check first, because collecting argument names is not free.
pub(super) fn is_enabled() -> bool {
    tracing::enabled!(target: AUDIT, tracing::Level::INFO)
}

/// The names of the arguments, made safe for a log line, because clients choose them.
pub(super) fn argument_names(arguments: &Raw) -> String {
    let names = RawObject::parse(arguments).unwrap_or_default();
    let mut shown = String::new();
    for (name, _) in names.iter().take(MAX_ARGUMENTS) {
        let separator = if shown.is_empty() { "" } else { "," };
        shown.push_str(separator);
        shown.push_str(&log_name(name));
    }
    shown
}

/// Writes the line of a call.
pub(super) fn write(call: &FinishedCall, arguments: &str) {
    let span = call.span.map(|span| span.context);
    let trace_id = span.map(|span| hex::encode(&span.trace_id));
    let span_id = span.map(|span| hex::encode(&span.span_id));
    let duration_ms = u64::try_from(call.duration.as_millis()).unwrap_or(u64::MAX);
    tracing::info!(
        target: AUDIT,
        subject = %call.caller.subject,
        depth = call.caller.depth,
        tool = %log_name(call.tool.as_str()),
        outcome = call.status.as_str(),
        duration_ms,
        arguments,
        trace_id,
        span_id,
        "call"
    );
}
