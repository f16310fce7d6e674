//! The report of a step, and the result of a run.

use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use super::{JsonObject, Workflow};

/// The status of a step that ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StepStatus {
    /// Its tool returned a result.
    Completed,
    /// Its tool failed, or could not be called.
    Failed,
    /// Its condition did not hold.
    Skipped,
}

/// The evaluation of a condition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConditionResult {
    /// Whether it held.
    pub holds: bool,
    /// The value that was checked.
    #[serde(default, skip_serializing_if = "Json::is_null")]
    pub result: Json,
    /// The source of that value: a tool, `from_step:<id>`, or `template`.
    pub source: String,
}

/// The report of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepReport {
    /// The id of the step; in a loop followed by the number of the item.
    pub id: String,
    /// The tool that it called.
    pub tool: String,
    /// Its status.
    pub status: StepStatus,
    /// The evaluation of its condition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<ConditionResult>,
    /// Whether it was allowed to fail.
    #[serde(default)]
    pub allow_failure: bool,
    /// Its result, if stored.
    #[serde(default, skip_serializing_if = "Json::is_null")]
    pub result: Json,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The arguments of the call.
    #[serde(default)]
    pub input: JsonObject,
    /// The reports of its nested steps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Self>,
}

impl StepReport {
    /// The report in the result of a run.
    pub fn shown(&self) -> Json {
        let mut object = JsonObject::new();
        let mut put = |name: &str, value: Json| drop(object.insert(name.to_owned(), value));
        if self.allow_failure {
            put("allow_failure", true.into());
        }
        if let Some(judged) = &self.condition {
            put("condition_evaluation", judged.holds.into());
            if !judged.result.is_null() {
                put("condition_result", judged.result.clone());
            }
            put("condition_tool", judged.source.as_str().into());
        }
        if let Some(error) = self.error.as_ref().filter(|_| !self.allow_failure) {
            put("error", error.as_str().into());
        }
        put("id", self.id.as_str().into());
        if !self.result.is_null() {
            put("result", self.result.clone());
        }
        put("status", json!(self.status));
        if !self.steps.is_empty() {
            put("steps", self.steps.iter().map(Self::shown).collect());
        }
        put("tool", self.tool.as_str().into());
        Json::Object(object)
    }

    /// Its result in records; with its condition, if it has one.
    pub fn recorded(&self) -> Json {
        let Some(judged) = &self.condition else { return self.result.clone() };
        let mut object = JsonObject::new();
        let mut put = |name: &str, value: Json| drop(object.insert(name.to_owned(), value));
        put("status", json!(self.status));
        put("condition_evaluation", judged.holds.into());
        if !judged.result.is_null() {
            put("condition_result", judged.result.clone());
        }
        put("condition_tool", judged.source.as_str().into());
        if !self.result.is_null() {
            put("result", self.result.clone());
        }
        if self.allow_failure {
            put("allow_failure", true.into());
        }
        Json::Object(object)
    }

    /// Itself and the reports of its nested steps.
    pub fn all(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(&self.steps)
    }
}

/// The data of a run's result.
pub(super) struct RunReport<'a> {
    pub(super) workflow: &'a Workflow,
    pub(super) status: StepStatus,
    pub(super) input: &'a Json,
    pub(super) reports: &'a [StepReport],
    pub(super) after_failure: &'a [StepReport],
    pub(super) used_inputs: &'a [String],
}

impl RunReport<'_> {
    /// The default result, with sorted keys.
    pub(super) fn object(&self) -> JsonObject {
        let mut object = JsonObject::new();
        let mut put = |name: &str, value: Json| drop(object.insert(name.to_owned(), value));
        put("execution_id", "".into());
        put("input", self.input.clone());
        if !self.after_failure.is_empty() {
            put("on_failure", self.after_failure.iter().map(StepReport::shown).collect());
        }
        put("status", json!(self.status));
        put("steps", self.reports.iter().map(StepReport::shown).collect());
        put("template_vars", self.used_inputs.into());
        put("workflow", self.workflow.name.as_str().into());
        object
    }
}
