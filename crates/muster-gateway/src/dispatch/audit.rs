//! One line for each call: who, what, how it ended, how long it took. Never what it was given.

use std::{sync::Arc, time::Instant};

use muster_core::{
    call::{Call, CallError, Caller, Outcome},
    json::Object,
    name::ToolName,
};
use serde_json::value::RawValue;

/// A call that is being served. When it is dropped before its end, it was cancelled.
pub(super) struct Audit(Option<Line>);

struct Line {
    subject: Arc<str>,
    depth: u8,
    tool: ToolName,
    /// The names of the arguments.
    arguments: String,
    began: Instant,
}

impl Audit {
    pub(super) fn begin(caller: &Caller, call: &Call) -> Self {
        // Nobody may be reading.
        if !tracing::enabled!(target: "audit", tracing::Level::INFO) {
            return Self(None);
        }
        let names = Object::parse(&call.arguments).unwrap_or_default();
        let names: Vec<&str> = names.iter().map(|(name, _)| name).collect();
        Self(Some(Line {
            subject: Arc::clone(&caller.subject),
            depth: caller.depth,
            tool: call.tool.clone(),
            arguments: names.join(","),
            began: Instant::now(),
        }))
    }

    pub(super) fn end(mut self, result: &Result<Outcome, CallError>) {
        self.write(word(result));
    }

    fn write(&mut self, outcome: &str) {
        let Some(Line { subject, depth, tool, arguments, began }) = self.0.take() else { return };
        let duration_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        tracing::info!(
            target: "audit",
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

fn word(result: &Result<Outcome, CallError>) -> &'static str {
    match result {
        Ok(Outcome::Text { failed: true, .. }) => "failed",
        Ok(Outcome::Raw(result)) if is_failure(result) => "failed",
        Ok(Outcome::Text { failed: false, .. } | Outcome::Raw(_)) => "ok",
        Ok(Outcome::NeedsInput(_)) => "needs_input",
        Err(CallError::Unknown { .. }) => "unknown",
        Err(CallError::Arguments { .. }) => "arguments",
        Err(
            CallError::Constraint { .. }
            | CallError::BrokenPolicy { .. }
            | CallError::Blocked { .. },
        ) => "denied",
        Err(CallError::Backend { .. }) => "unavailable",
        Err(CallError::Refused { .. }) => "refused",
        Err(CallError::TooDeep { .. }) => "too_deep",
    }
}

/// Whether a server's own result says that the tool failed. Most results have no such word in them.
fn is_failure(result: &RawValue) -> bool {
    result.get().contains("isError")
        && Object::parse(result)
            .and_then(|result| result.get("isError").map(|value| value.get() == "true"))
            .unwrap_or(false)
}
