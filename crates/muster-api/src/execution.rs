//! `core_workflow_execution_list` and `core_workflow_execution_get`.

pub use muster_workflow::record::{RunRecord, RunSummary, StepRecord};
use serde::{Deserialize, Serialize};

/// The reply of `core_workflow_execution_list`. `core_workflow_execution_get` replies with a `RunRecord`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExecutionList {
    /// The executions, newest first.
    pub executions: Vec<RunSummary>,
    /// The number of executions that match, on all pages.
    pub total: usize,
    /// The size of a page.
    pub limit: usize,
    /// The number of newer executions that are left out.
    pub offset: usize,
    /// Whether there are older executions.
    pub has_more: bool,
}
