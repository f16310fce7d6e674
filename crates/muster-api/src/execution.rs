//! `workflow_*`, `core_workflow_execution_list` and `core_workflow_execution_get`.

pub use muster_workflow::{
    TOOL_PREFIX,
    record::{RunRecord, RunState, RunSummary, StepRecord},
    report::{StepState, StepStatus},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{is_false, keyword::known};

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

/// The reply of a workflow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ExecutionReply {
    /// A report of the execution.
    Report(ExecutionReport),
    /// The workflow's own `output`, with the ID of the execution. Also a report whose members the result of the last
    /// step replaced.
    Output(Map<String, Value>),
}

impl ExecutionReply {
    /// The ID of the execution; empty if there is none.
    pub fn execution_id(&self) -> &str {
        match self {
            Self::Report(report) => &report.execution_id,
            Self::Output(members) => {
                members.get("execution_id").and_then(Value::as_str).unwrap_or_default()
            }
        }
    }
}

/// The report of an execution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExecutionReport {
    /// The ID of the execution.
    pub execution_id: String,
    /// The name of the workflow.
    pub workflow: String,
    /// How it ended: completed or failed.
    pub status: StepStatus,
    /// Why it failed, unless the error is that of a step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The arguments of the call.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub input: Map<String, Value>,
    /// The steps that ran, in order; null if there are none.
    #[serde(deserialize_with = "Option::deserialize")]
    pub steps: Option<Vec<StepReply>>,
    /// The arguments that templates refer to; null if there are none.
    #[serde(deserialize_with = "Option::deserialize")]
    pub template_vars: Option<Vec<String>>,
    /// The result of the last step.
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
    /// How it ended.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "known")]
    pub status: Option<StepStatus>,
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

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json, to_value};

    use super::{ExecutionReply, StepStatus};

    #[test]
    fn only_a_whole_report_is_a_report() {
        let report = json!({"execution_id": "7", "workflow": "deploy", "status": "completed", "input": {"a": 1},
                            "steps": null, "template_vars": ["input.a"], "said": 1});
        let ExecutionReply::Report(found) = from_value(report.clone()).unwrap() else {
            panic!("{report}")
        };
        assert_eq!((found.status, &found.output["said"]), (StepStatus::Completed, &json!(1)));
        for output in [
            json!({"execution_id": "7", "status": "completed", "workflow": "deploy", "steps": null}),
            json!({"execution_id": "7", "status": "completed", "workflow": "deploy", "template_vars": null}),
            json!({"execution_id": "7", "status": "green", "steps": ["a"], "template_vars": []}),
            // The last step's result has a member of the same name.
            json!({"execution_id": "7", "workflow": "deploy", "status": {"code": 3}, "steps": null, "template_vars": []}),
        ] {
            let reply: ExecutionReply = from_value(output.clone()).unwrap();
            assert!(matches!(reply, ExecutionReply::Output(_)), "{output}");
            assert_eq!((reply.execution_id(), to_value(&reply).unwrap()), ("7", output));
        }
    }
}
