//! How steps and runs end.

use serde_json::{Value as Json, json};

use super::{Answer, Called, Done, Ended, Run, Stop};
use crate::{
    Action, Object, Step,
    content::Content,
    render::{Leaf, Renderer},
    report::{Report, Said, Status},
};

impl Run<'_> {
    pub(super) fn completed(self) -> Ended {
        let Self { workflow, host, data, reports, seen, last, .. } = self;
        if let Some(output) = &workflow.spec.output {
            let mut renderer = Renderer::new(&data, host.context());
            return match renderer.value(output, Leaf::Answer) {
                Ok(result) => Ended { answer: Answer::Result(result), error: None, reports },
                Err(error) => {
                    let error = format!("failed to render the output: {error}");
                    Ended { answer: Answer::Error(error.clone()), error: Some(error), reports }
                }
            };
        }
        let input = data.get("input").unwrap_or(&Json::Null);
        let said = Said {
            workflow,
            status: Status::Completed,
            input,
            reports: &reports,
            after_failure: &[],
            seen: &seen,
        };
        let mut object = said.object();
        // What the last tool said stands at the top where nobody asked for it to be stored.
        let is_open = workflow
            .spec
            .steps
            .last()
            .is_some_and(|step| !step.store && matches!(step.action, Action::Tool { .. }));
        if let Some(Json::Object(last)) = last.filter(|_| is_open) {
            object.extend(last);
        }
        Ended { answer: Answer::Result(Json::Object(object)), error: None, reports }
    }

    pub(super) async fn failed(mut self, stop: Stop) -> Ended {
        let (step, error) = match &stop {
            Stop::Lost { step, error } => (step.as_str(), format!("step {step} failed: {error}")),
            Stop::Answered { step, text, .. } => {
                (step.as_str(), format!("step {step} failed: {text}"))
            }
            Stop::Broken(error) => ("", error.clone()),
        };
        self.put("vars", "failed_step", step.into());
        self.put("vars", "error", error.as_str().into());
        let mut after_failure = Vec::new();
        for step in &self.workflow.spec.on_failure {
            let done = self.plain(step, step.id.clone()).await;
            let (report, _) = self.take(step, done);
            after_failure.push(report);
        }
        let answer = match stop {
            Stop::Answered { outcome, .. } => Answer::Tool(outcome),
            Stop::Broken(error) => Answer::Error(error),
            Stop::Lost { .. } => {
                let said = Said {
                    workflow: self.workflow,
                    status: Status::Failed,
                    input: self.data.get("input").unwrap_or(&Json::Null),
                    reports: &self.reports,
                    after_failure: &after_failure,
                    seen: &self.seen,
                };
                Answer::Result(Json::Object(said.object()))
            }
        };
        self.reports.append(&mut after_failure);
        Ended { answer, error: Some(error), reports: self.reports }
    }
}

/// What a call made of a step.
pub(super) fn ended(step: &Step, mut report: Report, seen: Vec<String>, called: Called) -> Done {
    let (value, error, stop) = match called {
        Called::Answered(content) if !content.failed => {
            if step.store {
                report.result = content.value.clone();
            }
            return Done { report, value: Some(content.value), seen, stop: None };
        }
        Called::Answered(Content { text, outcome, .. }) => {
            let value = json!({"success": false, "isError": true, "error": text});
            let step = report.id.clone();
            (value, text.clone(), Stop::Answered { step, text, outcome })
        }
        Called::Lost(error) => {
            let value = json!({"error": error, "success": false, "isError": true});
            let step = report.id.clone();
            (value, error.clone(), Stop::Lost { step, error })
        }
    };
    report.status = Status::Failed;
    report.error = Some(error);
    if step.store && step.allow_failure {
        report.result = value.clone();
    }
    Done { report, value: Some(value), seen, stop: (!step.allow_failure).then_some(stop) }
}

/// What the steps inside make of the step around them.
pub(super) fn group_end(
    step: &Step,
    report: &mut Report,
    value: Option<Json>,
    stop: Option<Stop>,
) -> (Option<Json>, Option<Stop>) {
    let (inner, error) = match stop {
        None => {
            if step.store {
                report.result = value.clone().unwrap_or_default();
            }
            return (value, None);
        }
        Some(Stop::Broken(error)) => return (value, Some(Stop::Broken(error))),
        Some(Stop::Lost { step, error }) => (step, error),
        Some(Stop::Answered { step, text, .. }) => (step, text),
    };
    report.status = Status::Failed;
    let error = format!("step {inner} failed: {error}");
    report.error = Some(error.clone());
    let lost = json!({"error": error, "success": false, "isError": true});
    let stop = Stop::Lost { step: step.id.clone(), error };
    (Some(lost), (!step.allow_failure).then_some(stop))
}

pub(super) fn blank(step: &Step, id: String) -> Report {
    Report {
        id,
        tool: step.tool().to_owned(),
        status: Status::Completed,
        condition: None,
        allow_failure: step.allow_failure,
        result: Json::Null,
        error: None,
        input: Object::new(),
        steps: Vec::new(),
    }
}

pub(super) fn broken(mut report: Report, seen: Vec<String>, error: String) -> Done {
    report.status = Status::Failed;
    report.error = Some(error.clone());
    Done { report, value: None, seen, stop: Some(Stop::Broken(error)) }
}
