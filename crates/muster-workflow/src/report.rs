//! The status and the report of a step, and the result of a run.

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

impl StepStatus {
    /// Its name in replies.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        }
    }
}

/// The status of a step in a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StepState {
    /// Its tool returned a result.
    Completed,
    /// Its tool failed, or could not be called.
    Failed,
    /// Its condition did not hold.
    Skipped,
    /// The gateway ended while it ran. Also a status that this version does not know.
    #[serde(other)]
    Interrupted,
}

impl StepState {
    /// Parses the name of a status.
    pub fn of(word: &str) -> Self {
        [Self::Completed, Self::Failed, Self::Skipped]
            .into_iter()
            .find(|state| state.as_str() == word)
            .unwrap_or(Self::Interrupted)
    }

    /// Its name in records.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => StepStatus::Completed.as_str(),
            Self::Failed => StepStatus::Failed.as_str(),
            Self::Skipped => StepStatus::Skipped.as_str(),
            Self::Interrupted => "interrupted",
        }
    }
}

impl From<StepStatus> for StepState {
    fn from(status: StepStatus) -> Self {
        match status {
            StepStatus::Completed => Self::Completed,
            StepStatus::Failed => Self::Failed,
            StepStatus::Skipped => Self::Skipped,
        }
    }
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
    /// The id of the step.
    pub id: String,
    /// The group that it is nested in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The number of the item, in a loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<usize>,
    /// The tool that it called; empty for a group.
    pub tool: String,
    /// Its status.
    pub status: StepStatus,
    /// The evaluation of its condition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<ConditionResult>,
    /// Whether it was allowed to fail.
    #[serde(default)]
    pub allow_failure: bool,
    /// Its result, if visible.
    #[serde(default, skip_serializing_if = "Json::is_null")]
    pub result: Json,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The arguments of the call.
    #[serde(default)]
    pub input: JsonObject,
}

impl StepReport {
    /// The name that is unique in the run. Steps of two groups may have the same id.
    pub fn key(&self) -> String {
        match &self.group {
            Some(group) => format!("{group}/{}", self.result_name()),
            None => self.result_name(),
        }
    }

    /// The name by which later steps refer to its result.
    pub fn result_name(&self) -> String {
        match self.item {
            Some(item) => format!("{}_{item}", self.id),
            None => self.id.clone(),
        }
    }

    /// The report in the result of a run, with `result` in place of its visible one.
    fn shown(&self, result: &Json) -> Json {
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
        if !result.is_null() {
            put("result", result.clone());
        }
        put("status", json!(self.status));
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
}

/// The results of steps that the result of a run contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyDetail {
    /// Those of visible steps.
    Visible,
    /// All of them.
    Debug,
}

/// The data of a run's result.
pub(super) struct RunReport<'a> {
    pub(super) workflow: &'a Workflow,
    pub(super) status: StepStatus,
    pub(super) input: &'a Json,
    /// The steps with their results.
    pub(super) steps: &'a [(StepReport, Json)],
    pub(super) detail: ReplyDetail,
    pub(super) used_inputs: &'a [String],
}

impl RunReport<'_> {
    /// The default result, with sorted keys.
    pub(super) fn object(&self) -> JsonObject {
        let mut object = JsonObject::new();
        let mut put = |name: &str, value: Json| drop(object.insert(name.to_owned(), value));
        put("execution_id", "".into());
        put("input", self.input.clone());
        put("status", json!(self.status));
        let step = |(report, value): &(StepReport, Json)| match self.detail {
            ReplyDetail::Visible => report.shown(&report.result),
            ReplyDetail::Debug => report.shown(value),
        };
        // Clients expect null where nothing ran.
        let steps: Vec<Json> = self.steps.iter().map(step).collect();
        put("steps", if steps.is_empty() { Json::Null } else { steps.into() });
        put("template_vars", self.used_inputs.into());
        put("workflow", self.workflow.name.as_str().into());
        object
    }
}
