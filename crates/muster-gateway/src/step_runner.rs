//! The port to the runner of unsaved workflows.

use muster_core::{
    backend::{BoxFuture, CallContext},
    call::Outcome,
    json::Raw,
};

/// Runs unsaved workflows.
pub trait StepRunner: Send + Sync {
    /// Checks a workflow and runs it: `definition` is a JSON object with its definition and the values of its arguments. Its
    /// steps call tools as the caller of `cx`, through the one call path. Dropping the future cancels the run.
    fn run_steps<'a>(&'a self, cx: CallContext<'a>, definition: Raw) -> BoxFuture<'a, Outcome>;
}

muster_core::opaque_debug!(StepRunner);
