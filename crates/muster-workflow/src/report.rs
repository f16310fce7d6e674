//! What came of a step, and how a run answers.

use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use super::{JsonObject, Workflow};

/// How a step ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StepStatus {
    /// Its tool answered.
    Completed,
    /// Its tool failed, or could not be called.
    Failed,
    /// Its condition did not hold.
    Skipped,
}

/// What became of a condition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConditionResult {
    /// Whether it held.
    pub holds: bool,
    /// What was looked at.
    #[serde(default, skip_serializing_if = "Json::is_null")]
    pub result: Json,
    /// Where that came from: a tool, `from_step:<id>`, or `template`.
    pub source: String,
}

/// What came of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepReport {
    /// The step; inside a loop with the number of the item behind it.
    pub id: String,
    /// What it called.
    pub tool: String,
    /// How it ended.
    pub status: StepStatus,
    /// What became of its condition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<ConditionResult>,
    /// Whether it was allowed to fail.
    #[serde(default)]
    pub allow_failure: bool,
    /// What it answered, where that is part of the answer.
    #[serde(default, skip_serializing_if = "Json::is_null")]
    pub result: Json,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What it called its tool with.
    #[serde(default)]
    pub input: JsonObject,
    /// What came of the steps inside it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Self>,
}

impl StepReport {
    /// As the answer of a run shows it.
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

    /// Its result as records keep it: of a step with a condition, together with that.
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

    /// Itself, and what came of the steps inside it.
    pub fn all(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(&self.steps)
    }
}

/// What a run has to say at its end.
pub(super) struct RunReport<'a> {
    pub(super) workflow: &'a Workflow,
    pub(super) status: StepStatus,
    pub(super) input: &'a Json,
    pub(super) reports: &'a [StepReport],
    pub(super) after_failure: &'a [StepReport],
    pub(super) used_inputs: &'a [String],
}

impl RunReport<'_> {
    /// The usual answer, with its keys sorted.
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
