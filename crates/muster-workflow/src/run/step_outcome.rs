//! How a step ended.

use muster_core::{call::Outcome, json::Raw};
use serde_json::Value as Json;

use crate::{JsonObject, report::StepReport};

/// Why a run stops.
pub(super) enum RunFailure {
    /// A step could not run.
    CallFailed { step: String, error: String },
    /// A tool reported an error.
    ToolFailed { step: String, text: String, outcome: Outcome },
    /// A template or condition of the file cannot be evaluated.
    Invalid(String),
}

/// The outcome of a step.
pub(super) struct StepOutcome {
    pub(super) report: StepReport,
    /// Its value for later steps; `None` if it was skipped.
    pub(super) value: Option<Json>,
    pub(super) used_inputs: Vec<String>,
    pub(super) stop: Option<RunFailure>,
    /// What it returned besides text.
    pub(super) blocks: Vec<Raw>,
}

impl StepOutcome {
    pub(super) fn without_result(
        report: StepReport,
        used_inputs: Vec<String>,
        stop: Option<RunFailure>,
    ) -> Self {
        Self { report, value: None, used_inputs, stop, blocks: Vec::new() }
    }

    /// The outcome of a step that was carried out, and whose values are too large to keep. It stops the run.
    pub(super) fn without_values(self, error: &str) -> Self {
        let Self { mut report, used_inputs, .. } = self;
        let error = format!("step {} was carried out, but {error}", report.id);
        report.input = JsonObject::new();
        report.result = Json::Null;
        report.condition = None;
        report.error = Some(error.clone());
        Self::without_result(report, used_inputs, Some(RunFailure::Invalid(error)))
    }
}
