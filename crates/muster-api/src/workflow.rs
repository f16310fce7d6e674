//! `core_workflow_list` and `core_workflow_get`.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{MissingTool, UnavailableServer, is_false};

/// The reply of `core_workflow_list`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkflowList {
    /// The workflows, by name.
    pub workflows: Vec<WorkflowSummary>,
}

/// A workflow in a list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkflowSummary {
    /// Whether all of its tools can be called.
    pub available: bool,
    /// One line about it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Its name.
    pub name: String,
}

/// The reply of `core_workflow_get`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkflowInfo {
    /// The definition as an object.
    pub workflow: WorkflowDefinition,
    /// The definition as YAML.
    pub yaml: String,
    /// Its tools that cannot be called.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing_tools: Vec<String>,
    /// The servers of those tools.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unavailable: Vec<UnavailableServer>,
    /// The reasons for those that are missing for another one than their server.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<MissingTool>,
}

/// The definition of a workflow.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkflowDefinition {
    /// Its name.
    pub name: String,
    /// One line about it.
    pub description: String,
    /// Its arguments, in the order of the file.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub args: IndexMap<String, WorkflowArgInfo>,
    /// Its steps, in order.
    pub steps: Vec<WorkflowStepInfo>,
    /// The steps after a failure.
    #[serde(rename = "onFailure", skip_serializing_if = "Vec::is_empty")]
    pub on_failure: Vec<WorkflowStepInfo>,
    /// The template of its reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// The labels of its file.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub labels: IndexMap<String, String>,
    /// Whether all of its tools can be called.
    #[serde(skip_serializing_if = "is_false")]
    pub available: bool,
    /// Always the zero time; other clients expect the key.
    #[serde(rename = "createdAt")]
    pub created_at: String,
    /// Always the zero time; other clients expect the key.
    #[serde(rename = "lastModified")]
    pub last_modified: String,
}

/// An argument of a workflow.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkflowArgInfo {
    /// Its JSON type.
    pub r#type: String,
    /// Whether every call must provide it.
    pub required: bool,
    /// Its value in calls that omit it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// One line about it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
}

/// A step of a workflow: a call, a loop or a group of parallel steps.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key of the reply")]
pub struct WorkflowStepInfo {
    /// Its ID.
    pub id: String,
    /// When it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub condition: Option<Value>,
    /// The tool it calls; empty for loops and groups.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub tool: String,
    /// The arguments of the call, with templates.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub args: Map<String, Value>,
    /// The loop.
    #[serde(rename = "forEach", skip_serializing_if = "Option::is_none")]
    pub for_each: Option<ForEachInfo>,
    /// The parallel steps.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parallel: Vec<Self>,
    /// Whether the workflow continues after its failure.
    #[serde(skip_serializing_if = "is_false")]
    pub allow_failure: bool,
    /// Accepted and ignored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outputs: Option<Value>,
    /// Whether its result is part of the reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<bool>,
    /// The older name of `output`.
    #[serde(skip_serializing_if = "is_false")]
    pub store: bool,
    /// Whether it may be repeated after an interruption.
    #[serde(skip_serializing_if = "is_false")]
    pub idempotent: bool,
    /// One line about it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
}

/// A loop over a list.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ForEachInfo {
    /// The list, or a template that renders one.
    pub items: Value,
    /// The name of an item in templates.
    pub r#as: String,
    /// The steps for each item.
    pub steps: Vec<WorkflowStepInfo>,
}

/// The reply of `core_calls_draft`: the arguments of `core_workflow_create`, and what is left to do.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkflowDraft {
    /// The name of the workflow.
    pub name: String,
    /// One line about it.
    pub description: String,
    /// Its steps.
    pub steps: Vec<DraftStep>,
    /// What is left to do, one sentence each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A step of a draft.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DraftStep {
    /// Its id.
    pub id: String,
    /// The tool.
    pub tool: String,
    /// The arguments.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub args: Map<String, Value>,
}
