//! `core_workflow_list` and `core_workflow_get`.

use serde::{Deserialize, Serialize};
use serde_json::Value;

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
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkflowInfo {
    /// The definition as an object.
    pub workflow: Value,
    /// The definition as YAML.
    pub yaml: String,
}
