//! One line for each call: who, what, how it ended, how long it took. Never what it was given.

use std::{sync::Arc, time::Instant};

use muster_core::{
    call::{Call, CallError, Caller, Outcome},
    json::RawObject,
    name::ToolName,
};
use serde_json::value::RawValue;

use super::Ending;

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
        let names = RawObject::parse(&call.arguments).unwrap_or_default();
        let names: Vec<&str> = names.iter().map(|(name, _)| name).collect();
        Self(Some(Line {
            subject: Arc::clone(&caller.subject),
            depth: caller.depth,
            tool: call.tool.clone(),
            arguments: names.join(","),
            began: Instant::now(),
        }))
    }

    pub(super) fn end(mut self, ending: Ending<'_>) {
        self.write(word(ending));
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

fn word(ending: Ending<'_>) -> &'static str {
    let of_tool = |failed: bool| if failed { "failed" } else { "ok" };
    match ending {
        Ending::Outcome(Outcome::Text { failed, .. }) => of_tool(*failed),
        Ending::Outcome(Outcome::Raw(result)) => of_tool(is_failure(result)),
        Ending::Outcome(Outcome::InputRequired(_)) => "needs_input",
        Ending::Bulk(bulk) => of_tool(bulk.failed()),
        Ending::Error(error) => word_of(error),
    }
}

const fn word_of(error: &CallError) -> &'static str {
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

/// Whether a server's own result says that the tool failed. Most results have no such word in them.
fn is_failure(result: &RawValue) -> bool {
    result.get().contains("isError")
        && RawObject::parse(result)
            .and_then(|result| result.get("isError").map(|value| value.get() == "true"))
            .unwrap_or(false)
}
