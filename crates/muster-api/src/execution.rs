//! `workflow_*`, `core_workflow_execution_list` and `core_workflow_execution_get`.

pub use muster_workflow::{
    TOOL_PREFIX,
    record::{RunRecord, RunState, RunSummary, StepRecord},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::is_false;

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

/// The reply of a workflow: a report of its execution, unless the workflow defines its own `output`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExecutionReply {
    /// The ID of the execution.
    pub execution_id: String,
    /// The name of the workflow.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub workflow: String,
    /// `completed` or `failed`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub status: String,
    /// Why it failed, unless the error is that of a step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The arguments of the call.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub input: Map<String, Value>,
    /// The steps that ran, in order; null if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<Vec<StepReply>>,
    /// The arguments that templates refer to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub template_vars: Vec<String>,
    /// The result of the last step, or the workflow's own `output`.
    #[serde(flatten)]
    pub output: Map<String, Value>,
}

/// A step in the reply of a workflow.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StepReply {
    /// Its ID.
    pub id: String,
    /// The tool it called.
    pub tool: String,
    /// `completed`, `failed` or `skipped`.
    pub status: String,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Its result, if it is stored.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub result: Value,
    /// Whether it was allowed to fail.
    #[serde(skip_serializing_if = "is_false")]
    pub allow_failure: bool,
}
