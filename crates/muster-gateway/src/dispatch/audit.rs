//! The audit log: one line per call with its subject, tool, outcome and duration. Argument values are never
//! logged.

use std::{sync::Arc, time::Instant};

use muster_core::{
    call::{AUDIT, Call, CallError, Caller, Outcome},
    json::RawObject,
    spooled::ToolResult,
    text::log_name,
};

/// The number of argument names in a line.
const MAX_ARGUMENTS: usize = 100;

/// A call in progress. A call that is dropped before its end is logged as cancelled.
pub(super) struct Audit(Option<Line>);

struct Line {
    subject: Arc<str>,
    depth: u8,
    /// The tool, as a line shows it: clients choose the name.
    tool: String,
    /// The names of the arguments.
    arguments: String,
    began: Instant,
}

impl Audit {
    pub(super) fn begin(caller: &Caller, call: &Call) -> Self {
        // Parsing the arguments is not free.
        if !tracing::enabled!(target: AUDIT, tracing::Level::INFO) {
            return Self(None);
        }
        let names = RawObject::parse(&call.arguments).unwrap_or_default();
        let mut arguments = String::new();
        for (name, _) in names.iter().take(MAX_ARGUMENTS) {
            let separator = if arguments.is_empty() { "" } else { "," };
            arguments.push_str(separator);
            arguments.push_str(&log_name(name));
        }
        Self(Some(Line {
            subject: Arc::clone(&caller.subject),
            depth: caller.depth,
            tool: log_name(call.tool.as_str()).into_owned(),
            arguments,
            began: Instant::now(),
        }))
    }

    pub(super) fn end(mut self, result: &Result<ToolResult, CallError>, failed: bool) {
        self.write(outcome(result, failed));
    }

    fn write(&mut self, outcome: &str) {
        let Some(Line { subject, depth, tool, arguments, began }) = self.0.take() else { return };
        let duration_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        tracing::info!(
            target: AUDIT,
            %subject,
            depth,
            %tool,
            outcome,
            duration_ms,
            arguments,
            "call"
        );
    }
}

impl Drop for Audit {
    fn drop(&mut self) {
        self.write("cancelled");
    }
}

fn outcome(result: &Result<ToolResult, CallError>, failed: bool) -> &'static str {
    match result {
        Ok(ToolResult::Inline(Outcome::InputRequired(_))) => "needs_input",
        Ok(_) if failed => "failed",
        Ok(_) => "ok",
        Err(error) => error_outcome(error),
    }
}

const fn error_outcome(error: &CallError) -> &'static str {
    match error {
        CallError::UnknownTool { .. } => "unknown",
        CallError::InvalidArguments { .. } => "arguments",
        CallError::PolicyViolation { .. }
        | CallError::InvalidPolicy { .. }
        | CallError::Destructive { .. } => "denied",
        CallError::Unavailable { .. } => "unavailable",
        CallError::Upstream { .. } => "refused",
        CallError::TooDeep { .. } => "too_deep",
    }
}
