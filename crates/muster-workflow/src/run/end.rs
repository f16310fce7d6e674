//! The outcomes of steps and runs.

use serde_json::{Value as Json, json};

use super::{CallOutcome, Run, RunFailure, RunOutcome, RunResult, StepOutcome, StepPlace, Usage};
use crate::{
    JsonObject, StepAction, WorkflowStep,
    content::ToolContent,
    render::Renderer,
    report::{ReplyDetail, RunReport, StepReport, StepStatus},
};

impl Run<'_> {
    pub(super) fn completed(mut self) -> RunOutcome {
        let output = self.workflow.spec.output.as_ref();
        let rendered = output
            .map(|output| Renderer::new(&self.data, self.context()).output(output))
            .transpose();
        let rendered = match rendered {
            Ok(Some(result)) if self.detail == ReplyDetail::Visible => {
                return self.ended(RunResult::Value(result), None);
            }
            Ok(rendered) => rendered,
            Err(error) => {
                let error = format!("failed to render output template: {error}");
                self.detail = ReplyDetail::Debug;
                let mut object = self.report(StepStatus::Completed);
                object.insert("output_error".to_owned(), error.as_str().into());
                return self.ended(RunResult::Value(Json::Object(object)), Some(error));
            }
        };
        let mut object = self.report(StepStatus::Completed);
        let is_open = self.is_last_open();
        if let Some(Json::Object(last)) = self.last.take().filter(|_| is_open) {
            object.extend(last);
        }
        object.extend(rendered.map(|rendered| ("output".to_owned(), rendered)));
        self.ended(RunResult::Value(Json::Object(object)), None)
    }

    /// Whether the result of the last tool is at the top, and not in its step.
    fn is_last_open(&self) -> bool {
        self.workflow.spec.steps.last().is_some_and(|step| {
            !step.is_visible() && matches!(step.action, StepAction::Tool { .. })
        })
    }

    pub(super) async fn failed(mut self, stop: RunFailure) -> RunOutcome {
        let error = failure_text(&stop);
        let step = match &stop {
            RunFailure::CallFailed { step, .. } | RunFailure::ToolFailed { step, .. } => {
                step.as_str()
            }
            RunFailure::Invalid(_) => "",
        };
        self.put("vars", "failed_step", step.into());
        self.put("vars", "error", error.as_str().into());
        // What cleans up runs in any case.
        self.usage = Usage::new(None);
        for step in &self.workflow.spec.on_failure {
            let step = WorkflowStep { allow_failure: true, ..step.clone() };
            let place = StepPlace { group: Some("onFailure"), item: None };
            let done = self.call_step(&step, place).await;
            drop(self.record(done));
        }
        let answer = match stop {
            RunFailure::ToolFailed { outcome, .. } => RunResult::Tool(outcome),
            RunFailure::Invalid(error) => RunResult::Error(error),
            RunFailure::CallFailed { .. } => {
                RunResult::Value(Json::Object(self.report(StepStatus::Failed)))
            }
        };
        self.ended(answer, Some(error))
    }

    fn report(&self, status: StepStatus) -> JsonObject {
        let report = RunReport {
            workflow: self.workflow,
            status,
            input: self.data.get("input").unwrap_or(&Json::Null),
            steps: &self.steps,
            detail: self.detail,
            used_inputs: &self.used_inputs,
        };
        report.object()
    }

    fn ended(self, result: RunResult, error: Option<String>) -> RunOutcome {
        let has_last =
            error.is_none() && self.workflow.spec.output.is_none() && self.is_last_open();
        let reports = self.steps.into_iter().map(|(report, _)| report).collect();
        RunOutcome { result, error, reports, blocks: self.blocks.finish(has_last) }
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
            if step.is_visible() {
                report.result = content.value.clone();
            }
            // The last step outside of groups is not known yet.
            let is_shown = step.is_visible() || report.group.is_none();
            let blocks = if is_shown { content.blocks() } else { Vec::new() };
            return StepOutcome {
                report,
                value: Some(content.value),
                used_inputs: seen,
                stop: None,
                blocks,
            };
        }
        CallOutcome::Returned(ToolContent { value, text, outcome, .. }) => {
            let value = match step.allow_failure {
                true => json!({"success": false, "isError": true, "error": text}),
                false => value,
            };
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
    if step.is_visible() && step.allow_failure {
        report.result = value.clone();
    }
    StepOutcome {
        report,
        value: Some(value),
        used_inputs: seen,
        stop: (!step.allow_failure).then_some(stop),
        blocks: Vec::new(),
    }
}

/// The value of a group that failed, for later steps.
pub(super) fn failure_record(stop: &RunFailure) -> Json {
    json!({"error": failure_text(stop), "success": false, "isError": true})
}

fn failure_text(stop: &RunFailure) -> String {
    match stop {
        RunFailure::CallFailed { step, error: why }
        | RunFailure::ToolFailed { step, text: why, .. } => {
            format!("step {step} failed: {why}")
        }
        RunFailure::Invalid(error) => error.clone(),
    }
}

pub(super) fn invalid_step(
    mut report: StepReport,
    seen: Vec<String>,
    error: String,
) -> StepOutcome {
    report.status = StepStatus::Failed;
    report.error = Some(error.clone());
    StepOutcome::without_result(report, seen, Some(RunFailure::Invalid(error)))
}
