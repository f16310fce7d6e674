//! The interpreter: runs step after step, each journaled by the [`Host`] before it starts and after it ends.

mod end;

use std::collections::BTreeMap;

use muster_core::{backend::BoxFuture, call::Outcome};
use muster_template::RenderContext;
use serde_json::{Value as Json, json};

use self::end::{group_outcome, invalid_step, new_report, step_outcome};
use super::{
    JsonObject, StepAction, StepCondition, Workflow, WorkflowStep,
    condition::holds,
    content::ToolContent,
    join::join_all,
    render::{Renderer, TemplateTarget},
    report::{ConditionResult, StepReport, StepStatus},
};

/// The maximum number of items of a loop.
const MAX_ITEMS: usize = 10_000;

/// The environment of a run.
pub trait Host: Send + Sync {
    /// Calls a tool, by the one call path.
    fn call<'a>(&'a self, tool: &'a str, arguments: JsonObject) -> BoxFuture<'a, CallOutcome>;

    /// Writes a line of the journal. The run continues once it is written.
    fn journal(&self, note: JournalNote) -> BoxFuture<'_, ()>;

    /// Clock, randomness and limits for templates.
    fn context(&self) -> RenderContext<'_>;
}

/// The outcome of a call.
#[derive(Debug)]
pub enum CallOutcome {
    /// The tool returned a result.
    Returned(ToolContent),
    /// It did not run, or its result was lost.
    Failed(String),
}

/// A line of a run's journal.
#[derive(Debug, Clone)]
pub enum JournalNote {
    /// A step starts. From now on its effect may exist.
    Begins {
        /// Its id; in a loop followed by the number of the item.
        step: String,
        /// The tool that it calls.
        tool: String,
    },
    /// A step ended.
    Ended {
        /// Its report.
        report: Box<StepReport>,
        /// Its value for later steps.
        value: Json,
    },
}

/// The values of steps that an interrupted run completed, by step.
pub type CompletedSteps = BTreeMap<String, (StepReport, Json)>;

/// The outcome of a run.
#[derive(Debug)]
pub struct RunOutcome {
    /// The reply to its caller.
    pub result: RunResult,
    /// The error, if it failed.
    pub error: Option<String>,
    /// The reports of the steps that ran.
    pub reports: Vec<StepReport>,
}

/// The reply to the caller of a run.
#[derive(Debug)]
pub enum RunResult {
    /// The result of the workflow.
    Value(Json),
    /// The result of the tool that failed.
    Tool(Outcome),
    /// Why there is no result.
    Error(String),
}

/// Runs a workflow with valid arguments. Steps in `past` are not repeated.
pub async fn run(
    workflow: &Workflow,
    input: JsonObject,
    host: &dyn Host,
    past: CompletedSteps,
) -> RunOutcome {
    let data = json!({"input": input, "results": {}, "vars": {}});
    let mut run = Run {
        workflow,
        host,
        completed: past,
        data,
        statuses: BTreeMap::new(),
        reports: Vec::new(),
        used_inputs: Vec::new(),
        last: None,
    };
    let mut ended = Ok(());
    for step in &workflow.spec.steps {
        ended = run.step(step).await;
        if ended.is_err() {
            break;
        }
    }
    match ended {
        Ok(()) => run.completed(),
        Err(stop) => run.failed(stop).await,
    }
}

/// Why a run stops.
enum RunFailure {
    /// A step could not run.
    CallFailed { step: String, error: String },
    /// A tool reported an error.
    ToolFailed { step: String, text: String, outcome: Outcome },
    /// A template or condition of the file cannot be evaluated.
    Invalid(String),
}

/// The outcome of a step.
struct StepOutcome {
    report: StepReport,
    /// Its value for later steps; `None` if it was skipped.
    value: Option<Json>,
    used_inputs: Vec<String>,
    stop: Option<RunFailure>,
}

struct Run<'a> {
    workflow: &'a Workflow,
    host: &'a dyn Host,
    completed: CompletedSteps,
    /// The values that templates see.
    data: Json,
    /// The status of each step, and whether its result is stored.
    statuses: BTreeMap<String, (StepStatus, bool)>,
    reports: Vec<StepReport>,
    used_inputs: Vec<String>,
    /// The result of the last tool that was called.
    last: Option<Json>,
}

impl Run<'_> {
    async fn step(&mut self, step: &WorkflowStep) -> Result<(), RunFailure> {
        match &step.action {
            StepAction::Tool { .. } => {
                let done = self.call_step(step, step.id.clone()).await;
                let (report, stop) = self.record(step, done);
                self.reports.push(report);
                stop.map_or(Ok(()), Err)
            }
            StepAction::ForEach { .. } | StepAction::Parallel { .. } => self.group(step).await,
        }
    }

    /// Runs a step that calls a tool. Changes no state, so that steps can run concurrently.
    async fn call_step(&self, step: &WorkflowStep, key: String) -> StepOutcome {
        if let Some((report, value)) = self.completed.get(&key) {
            let value = (report.status != StepStatus::Skipped).then(|| value.clone());
            return StepOutcome {
                report: report.clone(),
                value,
                used_inputs: Vec::new(),
                stop: None,
            };
        }
        self.journal_begin(step, &key).await;
        let done = self.attempt(step, key).await;
        let value = done.value.clone().unwrap_or_default();
        self.host
            .journal(JournalNote::Ended { report: Box::new(done.report.clone()), value })
            .await;
        done
    }

    async fn journal_begin(&self, step: &WorkflowStep, key: &str) {
        let (step, tool) = (key.to_owned(), step.tool().to_owned());
        self.host.journal(JournalNote::Begins { step, tool }).await;
    }

    async fn attempt(&self, step: &WorkflowStep, key: String) -> StepOutcome {
        let mut report = new_report(step, key);
        let mut seen = Vec::new();
        match self.evaluate_condition(step, &mut seen).await {
            Ok(judged) => report.condition = judged,
            Err(error) => return invalid_step(report, seen, error),
        }
        if report.condition.as_ref().is_some_and(|judged| !judged.holds) {
            report.status = StepStatus::Skipped;
            return StepOutcome { report, value: None, used_inputs: seen, stop: None };
        }
        let StepAction::Tool { tool, args } = &step.action else {
            return StepOutcome { report, value: None, used_inputs: seen, stop: None };
        };
        let mut renderer = Renderer::new(&self.data, self.host.context());
        let rendered = renderer.arguments(args);
        seen.append(&mut renderer.used_inputs);
        match rendered {
            Ok(arguments) => report.input = arguments,
            Err(error) => {
                let id = &step.id;
                let error = format!("failed to resolve arguments for step {id}: {error}");
                return invalid_step(report, seen, error);
            }
        }
        let called = self.host.call(tool, report.input.clone()).await;
        step_outcome(step, report, seen, called)
    }

    /// Evaluates the condition of a step, if it has one. An error ends the run.
    async fn evaluate_condition(
        &self,
        step: &WorkflowStep,
        seen: &mut Vec<String>,
    ) -> Result<Option<ConditionResult>, String> {
        let Some(condition) = &step.condition else { return Ok(None) };
        let mut renderer = Renderer::new(&self.data, self.host.context());
        let unresolved = |error: String| {
            format!("failed to resolve condition arguments for step {}: {error}", step.id)
        };
        let judged = if let Some(template) = &condition.template {
            let value = renderer.value(&Json::String(template.clone()), TemplateTarget::Argument);
            let result = value.map_err(unresolved)?;
            let holds = matches!(&result, Json::Bool(true))
                || result.as_str().is_some_and(|text| text.trim() == "true");
            ConditionResult { holds, result, source: "template".to_owned() }
        } else if let Some(from) = &condition.from_step {
            let condition = render_expectations(&mut renderer, condition).map_err(unresolved)?;
            let Some((result, failed)) = self.result_of(from, &condition) else {
                let id = &step.id;
                return Err(format!(
                    "step {id} condition references non-existent step result: {from}"
                ));
            };
            let holds = holds(&condition, &result, failed);
            ConditionResult { holds, result, source: format!("from_step:{from}") }
        } else {
            let tool = condition.tool.as_deref().unwrap_or_default();
            let arguments = renderer.arguments(&condition.args).map_err(unresolved)?;
            let condition = render_expectations(&mut renderer, condition).map_err(unresolved)?;
            let (holds, result) = match self.host.call(tool, arguments).await {
                CallOutcome::Returned(content) => {
                    (holds(&condition, &content.value, content.failed), content.value)
                }
                CallOutcome::Failed(_) => (false, Json::Bool(false)),
            };
            ConditionResult { holds, result, source: tool.to_owned() }
        };
        seen.append(&mut renderer.used_inputs);
        Ok(Some(judged))
    }

    /// The result of an earlier step for a condition, and whether it failed.
    fn result_of(&self, id: &str, condition: &StepCondition) -> Option<(Json, bool)> {
        let (status, stored) = self.statuses.get(id)?;
        let looked_into = [&condition.expect, &condition.expect_not]
            .into_iter()
            .flatten()
            .any(|expectation| !expectation.json_path.is_empty());
        let value = self.data.get("results").and_then(|results| results.get(id));
        let value = value.filter(|value| (*stored || looked_into) && !value.is_null());
        let result = match (status, value) {
            (StepStatus::Skipped, _) => return None,
            (_, Some(value)) => value.clone(),
            (StepStatus::Completed, None) => json!({"success": true, "status": "completed"}),
            (StepStatus::Failed, None) => json!({
                "error": format!("Step {id} failed"),
                "success": false, "isError": true, "status": "failed",
            }),
        };
        let failed = result.get("isError").and_then(Json::as_bool).unwrap_or_default();
        Some((result, failed))
    }

    /// Applies the outcome of a step.
    fn record(
        &mut self,
        step: &WorkflowStep,
        done: StepOutcome,
    ) -> (StepReport, Option<RunFailure>) {
        let StepOutcome { report, value, used_inputs: seen, stop } = done;
        for name in seen {
            if !self.used_inputs.contains(&name) {
                self.used_inputs.push(name);
            }
        }
        self.statuses.insert(step.id.clone(), (report.status, step.store));
        if let Some(value) = value {
            if report.status == StepStatus::Completed
                && matches!(step.action, StepAction::Tool { .. })
            {
                self.last = Some(value.clone());
            }
            if report.id != step.id {
                self.put("results", &report.id, value.clone());
            }
            self.put("results", &step.id, value);
        }
        (report, stop)
    }

    fn put(&mut self, root: &str, name: &str, value: Json) {
        if let Some(Json::Object(object)) = self.data.get_mut(root) {
            object.insert(name.to_owned(), value);
        }
    }

    /// Runs a step with nested steps.
    async fn group(&mut self, step: &WorkflowStep) -> Result<(), RunFailure> {
        let mut report = new_report(step, step.id.clone());
        let mut seen = Vec::new();
        report.condition =
            self.evaluate_condition(step, &mut seen).await.map_err(RunFailure::Invalid)?;
        self.used_inputs.append(&mut seen);
        let held = report.condition.as_ref().is_none_or(|judged| judged.holds);
        let (value, stop) = match &step.action {
            _ if !held => {
                report.status = StepStatus::Skipped;
                (None, None)
            }
            StepAction::ForEach { items, name, steps } => {
                let items = self.items(step, items)?;
                let (value, stop) = self.for_each(items, name, steps, &mut report.steps).await;
                (Some(value), stop)
            }
            StepAction::Parallel { steps } => {
                let (value, stop) = self.parallel(steps, &mut report.steps).await;
                (Some(value), stop)
            }
            StepAction::Tool { .. } => (None, None),
        };
        let (value, stop) = group_outcome(step, &mut report, value, stop);
        let done = StepOutcome { report, value, used_inputs: Vec::new(), stop };
        let (report, stop) = self.record(step, done);
        self.reports.push(report);
        stop.map_or(Ok(()), Err)
    }

    fn items(&mut self, step: &WorkflowStep, items: &Json) -> Result<Vec<Json>, RunFailure> {
        let id = &step.id;
        let mut renderer = Renderer::new(&self.data, self.host.context());
        let rendered = renderer.value(items, TemplateTarget::Output);
        let mut seen = std::mem::take(&mut renderer.used_inputs);
        seen.retain(|name| !self.used_inputs.contains(name));
        self.used_inputs.append(&mut seen);
        let failed = |why: String| {
            RunFailure::Invalid(format!("failed to resolve the items of step {id}: {why}"))
        };
        match rendered.map_err(failed)? {
            Json::Array(items) if items.len() <= MAX_ITEMS => Ok(items),
            Json::Array(items) => {
                Err(failed(format!("{} items are more than {MAX_ITEMS}", items.len())))
            }
            other => Err(failed(format!("they are no list but {}", kind(&other)))),
        }
    }

    async fn for_each(
        &mut self,
        items: Vec<Json>,
        name: &str,
        steps: &[WorkflowStep],
        reports: &mut Vec<StepReport>,
    ) -> (Json, Option<RunFailure>) {
        let mut all = Vec::new();
        for (index, item) in items.into_iter().enumerate() {
            self.put("vars", name, item);
            self.put("vars", &format!("{name}_index"), index.into());
            let mut given = JsonObject::new();
            for step in steps {
                let done = self.call_step(step, format!("{}_{index}", step.id)).await;
                given.extend(done.value.clone().map(|value| (step.id.clone(), value)));
                let (report, stop) = self.record(step, done);
                reports.push(report);
                if stop.is_some() {
                    all.push(Json::Object(given));
                    return (Json::Array(all), stop);
                }
            }
            all.push(Json::Object(given));
        }
        (Json::Array(all), None)
    }

    async fn parallel(
        &mut self,
        steps: &[WorkflowStep],
        reports: &mut Vec<StepReport>,
    ) -> (Json, Option<RunFailure>) {
        let this = &*self;
        let all = steps.iter().map(|step| -> BoxFuture<'_, StepOutcome> {
            Box::pin(this.call_step(step, step.id.clone()))
        });
        let all = join_all(all.collect()).await;
        let (mut given, mut first) = (JsonObject::new(), None);
        for (step, done) in steps.iter().zip(all) {
            given.extend(done.value.clone().map(|value| (step.id.clone(), value)));
            let (report, stop) = self.record(step, done);
            reports.push(report);
            first = first.or(stop);
        }
        (Json::Object(given), first)
    }
}

/// A condition with its expected values rendered.
fn render_expectations(
    renderer: &mut Renderer<'_>,
    condition: &StepCondition,
) -> Result<StepCondition, String> {
    let mut condition = condition.clone();
    for side in [&mut condition.expect, &mut condition.expect_not].into_iter().flatten() {
        side.json_path = renderer.arguments(&side.json_path)?;
    }
    Ok(condition)
}

const fn kind(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "a truth value",
        Json::Number(_) => "a number",
        Json::String(_) => "text",
        Json::Array(_) => "a list",
        Json::Object(_) => "a mapping",
    }
}

#[cfg(test)]
mod tests;
