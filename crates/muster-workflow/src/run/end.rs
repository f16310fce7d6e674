//! The outcomes of steps and runs.

use serde_json::{Value as Json, json};

use super::{CallOutcome, Run, RunFailure, RunOutcome, RunResult, StepOutcome};
use crate::{
    JsonObject, StepAction, WorkflowStep,
    content::ToolContent,
    render::{Renderer, TemplateTarget},
    report::{RunReport, StepReport, StepStatus},
};

impl Run<'_> {
    pub(super) fn completed(self) -> RunOutcome {
        let Self { workflow, host, data, reports, used_inputs: seen, last, .. } = self;
        if let Some(output) = &workflow.spec.output {
            let mut renderer = Renderer::new(&data, host.context());
            return match renderer.value(output, TemplateTarget::Output) {
                Ok(result) => RunOutcome { result: RunResult::Value(result), error: None, reports },
                Err(error) => {
                    let error = format!("failed to render the output: {error}");
                    RunOutcome {
                        result: RunResult::Error(error.clone()),
                        error: Some(error),
                        reports,
                    }
                }
            };
        }
        let input = data.get("input").unwrap_or(&Json::Null);
        let said = RunReport {
            workflow,
            status: StepStatus::Completed,
            input,
            reports: &reports,
            after_failure: &[],
            used_inputs: &seen,
        };
        let mut object = said.object();
        // Without stored results, the result of the last tool is at the top.
        let is_open = workflow
            .spec
            .steps
            .last()
            .is_some_and(|step| !step.store && matches!(step.action, StepAction::Tool { .. }));
        if let Some(Json::Object(last)) = last.filter(|_| is_open) {
            object.extend(last);
        }
        RunOutcome { result: RunResult::Value(Json::Object(object)), error: None, reports }
    }

    pub(super) async fn failed(mut self, stop: RunFailure) -> RunOutcome {
        let (step, error) = match &stop {
            RunFailure::CallFailed { step, error } => {
                (step.as_str(), format!("step {step} failed: {error}"))
            }
            RunFailure::ToolFailed { step, text, .. } => {
                (step.as_str(), format!("step {step} failed: {text}"))
            }
            RunFailure::Invalid(error) => ("", error.clone()),
        };
        self.put("vars", "failed_step", step.into());
        self.put("vars", "error", error.as_str().into());
        let mut after_failure = Vec::new();
        for step in &self.workflow.spec.on_failure {
            let done = self.call_step(step, step.id.clone()).await;
            let (report, _) = self.record(step, done);
            after_failure.push(report);
        }
        let answer = match stop {
            RunFailure::ToolFailed { outcome, .. } => RunResult::Tool(outcome),
            RunFailure::Invalid(error) => RunResult::Error(error),
            RunFailure::CallFailed { .. } => {
                let said = RunReport {
                    workflow: self.workflow,
                    status: StepStatus::Failed,
                    input: self.data.get("input").unwrap_or(&Json::Null),
                    reports: &self.reports,
                    after_failure: &after_failure,
                    used_inputs: &self.used_inputs,
                };
                RunResult::Value(Json::Object(said.object()))
            }
        };
        self.reports.append(&mut after_failure);
        RunOutcome { result: answer, error: Some(error), reports: self.reports }
    }
}

/// The outcome of a step from the outcome of its call.
pub(super) fn step_outcome(
    step: &WorkflowStep,
    mut report: StepReport,
    seen: Vec<String>,
    called: CallOutcome,
) -> StepOutcome {
    let (value, error, stop) = match called {
        CallOutcome::Returned(content) if !content.failed => {
            if step.store {
                report.result = content.value.clone();
            }
            return StepOutcome {
                report,
                value: Some(content.value),
                used_inputs: seen,
                stop: None,
            };
        }
        CallOutcome::Returned(ToolContent { text, outcome, .. }) => {
            let value = json!({"success": false, "isError": true, "error": text});
            let step = report.id.clone();
            (value, text.clone(), RunFailure::ToolFailed { step, text, outcome })
        }
        CallOutcome::Failed(error) => {
            let value = json!({"error": error, "success": false, "isError": true});
            let step = report.id.clone();
            (value, error.clone(), RunFailure::CallFailed { step, error })
        }
    };
    report.status = StepStatus::Failed;
    report.error = Some(error);
    if step.store && step.allow_failure {
        report.result = value.clone();
    }
    StepOutcome {
        report,
        value: Some(value),
        used_inputs: seen,
        stop: (!step.allow_failure).then_some(stop),
    }
}

/// The outcome of a step from its nested steps.
pub(super) fn group_outcome(
    step: &WorkflowStep,
    report: &mut StepReport,
    value: Option<Json>,
    stop: Option<RunFailure>,
) -> (Option<Json>, Option<RunFailure>) {
    let (inner, error) = match stop {
        None => {
            if step.store {
                report.result = value.clone().unwrap_or_default();
            }
            return (value, None);
        }
        Some(RunFailure::Invalid(error)) => return (value, Some(RunFailure::Invalid(error))),
        Some(RunFailure::CallFailed { step, error }) => (step, error),
        Some(RunFailure::ToolFailed { step, text, .. }) => (step, text),
    };
    report.status = StepStatus::Failed;
    let error = format!("step {inner} failed: {error}");
    report.error = Some(error.clone());
    let lost = json!({"error": error, "success": false, "isError": true});
    let stop = RunFailure::CallFailed { step: step.id.clone(), error };
    (Some(lost), (!step.allow_failure).then_some(stop))
}

pub(super) fn new_report(step: &WorkflowStep, id: String) -> StepReport {
    StepReport {
        id,
        tool: step.tool().to_owned(),
        status: StepStatus::Completed,
        condition: None,
        allow_failure: step.allow_failure,
        result: Json::Null,
        error: None,
        input: JsonObject::new(),
        steps: Vec::new(),
    }
}

pub(super) fn invalid_step(
    mut report: StepReport,
    seen: Vec<String>,
    error: String,
) -> StepOutcome {
    report.status = StepStatus::Failed;
    report.error = Some(error.clone());
    StepOutcome { report, value: None, used_inputs: seen, stop: Some(RunFailure::Invalid(error)) }
}
