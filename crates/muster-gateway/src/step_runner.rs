//! The port to what runs the steps of an unsaved workflow.

use std::fmt;

use muster_core::{
    backend::{BoxFuture, CallContext},
    call::Outcome,
    json::Raw,
};

/// Runs unsaved workflows.
pub trait StepRunner: fmt::Debug + Send + Sync {
    /// Checks a workflow and runs it: `definition` is a JSON object with its definition and the values of its arguments. Its
    /// steps call tools as the caller of `cx`, by the one call path. Dropping the future ends the run.
    fn run_steps<'a>(&'a self, cx: CallContext<'a>, definition: Raw) -> BoxFuture<'a, Outcome>;
}
