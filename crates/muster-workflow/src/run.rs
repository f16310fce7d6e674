//! The interpreter: runs step after step, each journaled by the [`Host`] before it starts and after it ends.

mod blocks;
mod end;
mod limits;
mod step_outcome;

use std::collections::BTreeMap;

use muster_core::{backend::BoxFuture, call::Outcome, join::join_all, json::Raw};
use muster_template::RenderContext;
use serde_json::{Value as Json, json};

use self::{
    blocks::StepBlocks,
    end::{failure_record, invalid_step, step_outcome},
    limits::Usage,
    step_outcome::{RunFailure, StepOutcome},
};
use super::{
    JsonObject, StepAction, StepCondition, Workflow, WorkflowStep,
    condition::holds,
    content::ToolContent,
    go_type::go_type,
    render::{Renderer, TemplateTarget},
    report::{ConditionResult, ReplyDetail, StepReport, StepStatus},
};

pub use self::limits::RunBounds;
pub(crate) use self::limits::size as json_size;

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

    /// The limits of the run; none for any number of calls.
    fn limits(&self) -> Option<RunBounds> {
        None
    }
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
        /// Its id.
        id: String,
        /// Its name that is unique in the run.
        key: String,
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

/// The values of steps that an interrupted run completed, by [`StepReport::key`].
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
    /// The pictures, sounds and resources of visible steps and of the last one.
    pub blocks: Vec<Raw>,
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
    detail: ReplyDetail,
) -> RunOutcome {
    let data = json!({"input": input, "results": {}, "vars": {}});
    let mut run = Run {
        workflow,
        host,
        detail,
        completed: past,
        data,
        steps: Vec::new(),
        used_inputs: Vec::new(),
        last: None,
        blocks: StepBlocks::default(),
        usage: Usage::new(host.limits()),
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

/// The position of a step.
#[derive(Clone, Copy, Default)]
struct StepPlace<'a> {
    /// The group that it is nested in.
    group: Option<&'a str>,
    /// The number of the item, in a loop.
    item: Option<usize>,
}

impl StepPlace<'_> {
    fn report(self, step: &WorkflowStep) -> StepReport {
        StepReport {
            id: step.id.clone(),
            group: self.group.map(str::to_owned),
            item: self.item,
            tool: step.tool().to_owned(),
            status: StepStatus::Completed,
            condition: None,
            allow_failure: step.allow_failure,
            result: Json::Null,
            error: None,
            input: JsonObject::new(),
        }
    }
}

struct Run<'a> {
    workflow: &'a Workflow,
    host: &'a dyn Host,
    detail: ReplyDetail,
    completed: CompletedSteps,
    /// The values that templates see.
    data: Json,
    /// The steps that ran, with their results.
    steps: Vec<(StepReport, Json)>,
    used_inputs: Vec<String>,
    /// The result of the last tool that was called outside of groups.
    last: Option<Json>,
    blocks: StepBlocks,
    usage: Usage,
}

impl Run<'_> {
    fn context(&self) -> RenderContext<'_> {
        self.usage.counted(self.host.context())
    }

    async fn step(&mut self, step: &WorkflowStep) -> Result<(), RunFailure> {
        match &step.action {
            StepAction::Tool { .. } => {
                let mut done = self.call_step(step, StepPlace::default()).await;
                if done.report.status == StepStatus::Completed {
                    self.last.clone_from(&done.value);
                    if !step.is_visible() {
                        self.blocks.set_last(std::mem::take(&mut done.blocks));
                    }
                }
                self.record(done).map_or(Ok(()), Err)
            }
            StepAction::ForEach { .. } | StepAction::Parallel { .. } => self.group(step).await,
        }
    }

    /// Runs a step that calls a tool. Changes no state, so that steps can run concurrently.
    async fn call_step(&self, step: &WorkflowStep, place: StepPlace<'_>) -> StepOutcome {
        let report = place.report(step);
        let key = report.key();
        if let Some((report, value)) = self.completed.get(&key) {
            let value = (report.status != StepStatus::Skipped).then(|| value.clone());
            return StepOutcome {
                report: report.clone(),
                value,
                used_inputs: Vec::new(),
                stop: None,
                blocks: Vec::new(),
            };
        }
        if let Err(error) = self.usage.count_call() {
            return invalid_step(report, Vec::new(), error);
        }
        let (id, tool) = (step.id.clone(), step.tool().to_owned());
        self.host.journal(JournalNote::Begins { id, key, tool }).await;
        let mut done = self.attempt(step, report).await;
        if let Err(error) = self.usage.count_results(&done) {
            done = match done.report.status {
                StepStatus::Completed => done.without_values(&error),
                StepStatus::Failed | StepStatus::Skipped => {
                    invalid_step(place.report(step), done.used_inputs, error)
                }
            };
        }
        let value = done.value.clone().unwrap_or_default();
        self.host
            .journal(JournalNote::Ended { report: Box::new(done.report.clone()), value })
            .await;
        done
    }

    async fn attempt(&self, step: &WorkflowStep, mut report: StepReport) -> StepOutcome {
        let mut seen = Vec::new();
        match self.evaluate_condition(step, &mut seen).await {
            Ok(judged) => report.condition = judged,
            Err(error) => return invalid_step(report, seen, error),
        }
        if report.condition.as_ref().is_some_and(|judged| !judged.holds) {
            report.status = StepStatus::Skipped;
            return StepOutcome::without_result(report, seen, None);
        }
        let StepAction::Tool { tool, args } = &step.action else {
            return StepOutcome::without_result(report, seen, None);
        };
        let mut renderer = Renderer::new(&self.data, self.context());
        let rendered = renderer
            .arguments(args)
            .map_err(|error| format!("failed to resolve arguments for step {}: {error}", step.id));
        seen.append(&mut renderer.used_inputs);
        // Counted before the call: what is too large is neither sent nor carried out.
        let counted = |args: JsonObject| self.usage.count_arguments(&args).map(|()| args);
        match rendered.and_then(counted) {
            Ok(arguments) => report.input = arguments,
            Err(error) => return invalid_step(report, seen, error),
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
        let mut renderer = Renderer::new(&self.data, self.context());
        let id = &step.id;
        let unresolved =
            |error: String| format!("failed to resolve condition arguments for step {id}: {error}");
        let judged = if let Some(template) = &condition.template {
            let value = renderer.value(&Json::String(template.clone()), TemplateTarget::Argument);
            let result = value.map_err(|error| {
                format!("failed to evaluate condition template for step {id}: {error}")
            })?;
            let holds = matches!(&result, Json::Bool(true))
                || result.as_str().is_some_and(|text| text.trim() == "true");
            ConditionResult { holds, result, source: "template".to_owned() }
        } else if let Some(from) = &condition.from_step {
            let condition = renderer.condition(condition).map_err(unresolved)?;
            let Some(result) = self.data.get("results").and_then(|results| results.get(from))
            else {
                return Err(format!(
                    "step {id} condition references non-existent step result: {from}"
                ));
            };
            let failed = result.get("isError").and_then(Json::as_bool).unwrap_or_default();
            let holds = self.holds(&condition, result, failed);
            let result = result.clone();
            ConditionResult { holds, result, source: format!("from_step:{from}") }
        } else {
            let tool = condition.tool.as_deref().unwrap_or_default();
            self.usage.count_call()?;
            let arguments = renderer.arguments(&condition.args).map_err(unresolved)?;
            let condition = renderer.condition(condition).map_err(unresolved)?;
            let (holds, result) = match self.host.call(tool, arguments).await {
                CallOutcome::Returned(content) => {
                    let holds = self.holds(&condition, &content.value, content.failed);
                    (holds, content.value)
                }
                CallOutcome::Failed(_) => (false, Json::Bool(false)),
            };
            ConditionResult { holds, result, source: tool.to_owned() }
        };
        seen.append(&mut renderer.used_inputs);
        Ok(Some(judged))
    }

    /// Whether a result is as expected. Paths may be templates that see it as `.result`.
    fn holds(&self, condition: &StepCondition, result: &Json, failed: bool) -> bool {
        let render = |path: &str| {
            let cx = self.context();
            if cx.budget.is_some_and(|budget| !budget.take(json_size(&self.data) as u64)) {
                return None;
            }
            let mut data = self.data.clone();
            if let Json::Object(data) = &mut data {
                data.insert("result".to_owned(), result.clone());
            }
            let mut renderer = Renderer::new(&data, cx);
            renderer.value(&Json::String(path.to_owned()), TemplateTarget::Output).ok()
        };
        holds(condition, result, failed, &render)
    }

    /// Applies the outcome of a step.
    fn record(&mut self, done: StepOutcome) -> Option<RunFailure> {
        let StepOutcome { report, value, used_inputs, stop, blocks } = done;
        self.note_inputs(used_inputs);
        self.blocks.add(blocks);
        if let Some(value) = &value {
            self.put("results", &report.id, value.clone());
        }
        self.steps.push((report, value.unwrap_or_default()));
        stop
    }

    fn note_inputs(&mut self, seen: Vec<String>) {
        for name in seen {
            if !self.used_inputs.contains(&name) {
                self.used_inputs.push(name);
            }
        }
    }

    fn put(&mut self, root: &str, name: &str, value: Json) {
        if let Some(Json::Object(object)) = self.data.get_mut(root) {
            object.insert(name.to_owned(), value);
        }
    }

    /// Runs a step with nested steps. It is in the result only if its condition does not hold.
    async fn group(&mut self, step: &WorkflowStep) -> Result<(), RunFailure> {
        let mut seen = Vec::new();
        let condition =
            self.evaluate_condition(step, &mut seen).await.map_err(RunFailure::Invalid)?;
        self.note_inputs(seen);
        if condition.as_ref().is_some_and(|judged| !judged.holds) {
            let mut report = StepPlace::default().report(step);
            report.condition = condition;
            report.status = StepStatus::Skipped;
            let skipped =
                JournalNote::Ended { report: Box::new(report.clone()), value: Json::Null };
            self.host.journal(skipped).await;
            self.steps.push((report, Json::Null));
            return Ok(());
        }
        let (value, stop) = match &step.action {
            StepAction::ForEach { items, name, steps } => {
                let items = self.items(step, items)?;
                self.for_each(&step.id, items, name, steps).await
            }
            StepAction::Parallel { steps } => self.parallel(&step.id, steps).await,
            StepAction::Tool { .. } => (Json::Null, None),
        };
        let value = stop.as_ref().map_or(value, failure_record);
        self.put("results", &step.id, value);
        match stop {
            None => Ok(()),
            Some(stop @ RunFailure::Invalid(_)) => Err(stop),
            Some(_) if step.allow_failure => Ok(()),
            Some(stop) => Err(stop),
        }
    }

    fn items(&mut self, step: &WorkflowStep, items: &Json) -> Result<Vec<Json>, RunFailure> {
        let id = &step.id;
        let mut renderer = Renderer::new(&self.data, self.context());
        let rendered = renderer.value(items, TemplateTarget::Output);
        let seen = std::mem::take(&mut renderer.used_inputs);
        self.note_inputs(seen);
        let failed = |why: String| RunFailure::Invalid(format!("forEach step {id}: {why}"));
        let expression = items.as_str().unwrap_or_default();
        match rendered.map_err(|error| failed(format!("failed to resolve items: {error}")))? {
            Json::Array(items) if items.len() <= MAX_ITEMS => Ok(items),
            Json::Array(items) => {
                Err(failed(format!("{} items are more than {MAX_ITEMS}", items.len())))
            }
            other => {
                let found = if other.is_null() { "nil" } else { go_type(&other) };
                Err(failed(format!(
                    "items expression {expression:?} resolved to {found}, expected a list"
                )))
            }
        }
    }

    async fn for_each(
        &mut self,
        group: &str,
        items: Vec<Json>,
        name: &str,
        steps: &[WorkflowStep],
    ) -> (Json, Option<RunFailure>) {
        let index_name = format!("{name}_index");
        let before = [name, &index_name].map(|name| (name, self.var(name)));
        let mut all = Vec::new();
        let mut stop = None;
        for (index, item) in items.into_iter().enumerate() {
            self.set_var(name, Some(item));
            self.set_var(&index_name, Some(index.into()));
            let mut given = JsonObject::new();
            for step in steps {
                let place = StepPlace { group: Some(group), item: Some(index) };
                let done = self.call_step(step, place).await;
                given.extend(done.value.clone().map(|value| (step.id.clone(), value)));
                stop = self.record(done);
                if stop.is_some() {
                    break;
                }
                // A skipped step refers to its last result, if it has one.
                let last = self.data.get("results").and_then(|results| results.get(&step.id));
                if let Some(last) = last.cloned() {
                    self.put("results", &format!("{}_{index}", step.id), last);
                }
            }
            all.push(Json::Object(given));
            if stop.is_some() {
                break;
            }
        }
        for (name, value) in before {
            self.set_var(name, value);
        }
        (Json::Array(all), stop)
    }

    fn var(&self, name: &str) -> Option<Json> {
        self.data.get("vars").and_then(|vars| vars.get(name)).cloned()
    }

    fn set_var(&mut self, name: &str, value: Option<Json>) {
        match (value, self.data.get_mut("vars")) {
            (Some(value), _) => self.put("vars", name, value),
            (None, Some(Json::Object(vars))) => drop(vars.remove(name)),
            (None, _) => (),
        }
    }

    async fn parallel(
        &mut self,
        group: &str,
        steps: &[WorkflowStep],
    ) -> (Json, Option<RunFailure>) {
        let this = &*self;
        let place = StepPlace { group: Some(group), item: None };
        let all = steps
            .iter()
            .map(|step| -> BoxFuture<'_, StepOutcome> { Box::pin(this.call_step(step, place)) });
        let all = join_all(all.collect()).await;
        let (mut given, mut first) = (JsonObject::new(), None);
        for (step, done) in steps.iter().zip(all) {
            given.extend(done.value.clone().map(|value| (step.id.clone(), value)));
            first = match (first, self.record(done)) {
                // A step that cannot be resolved ends the run, whatever may fail.
                (
                    None | Some(RunFailure::CallFailed { .. } | RunFailure::ToolFailed { .. }),
                    invalid @ Some(RunFailure::Invalid(_)),
                ) => invalid,
                (first, stop) => first.or(stop),
            };
        }
        (Json::Object(given), first)
    }
}

#[cfg(test)]
mod tests;
