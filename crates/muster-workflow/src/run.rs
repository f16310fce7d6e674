//! How a workflow runs: step after step, each told to the [`Host`] before it begins and after it ends.

mod end;

use std::collections::BTreeMap;

use muster_core::{backend::BoxFuture, call::Outcome};
use muster_template::Context;
use serde_json::{Value as Json, json};

use self::end::{blank, broken, ended, group_end};
use super::{
    Action, Condition, Object, Step, Workflow,
    condition::holds,
    content::Content,
    join::join_all,
    render::{Leaf, Renderer},
    report::{Judged, Report, Status},
};

/// More items than this are not meant.
const MOST_ITEMS: usize = 10_000;

/// What a run needs of the world.
pub trait Host: Send + Sync {
    /// Calls a tool, by the one call path.
    fn call<'a>(&'a self, tool: &'a str, arguments: Object) -> BoxFuture<'a, Called>;

    /// Takes down what is about to happen or has happened. The run goes on when that is done.
    fn note(&self, note: Note) -> BoxFuture<'_, ()>;

    /// Time, chance and limits for templates.
    fn context(&self) -> Context<'_>;
}

/// What became of a call.
#[derive(Debug)]
pub enum Called {
    /// The tool answered.
    Answered(Content),
    /// It did not run, or its answer was lost.
    Lost(String),
}

/// A line of a run's journal.
#[derive(Debug, Clone)]
pub enum Note {
    /// A step begins. From now on it may have been done.
    Begins {
        /// Its name; inside a loop with the number of the item behind it.
        step: String,
        /// What it calls.
        tool: String,
    },
    /// A step ended.
    Ended {
        /// What came of it.
        report: Box<Report>,
        /// What later steps see of it.
        value: Json,
    },
}

/// What steps of an earlier attempt at the same run gave, by name.
pub type Past = BTreeMap<String, (Report, Json)>;

/// What came of a run.
#[derive(Debug)]
pub struct Ended {
    /// What its caller is told.
    pub answer: Answer,
    /// Why it failed, if it did.
    pub error: Option<String>,
    /// What came of its steps, as far as it got.
    pub reports: Vec<Report>,
}

/// What the caller of a run is told.
#[derive(Debug)]
pub enum Answer {
    /// The result of the workflow.
    Result(Json),
    /// What the tool said that failed.
    Tool(Outcome),
    /// Why there is no result.
    Error(String),
}

/// Runs a workflow with arguments that fit. What `past` knows is not done again.
pub async fn run(workflow: &Workflow, input: Object, host: &dyn Host, past: Past) -> Ended {
    let data = json!({"input": input, "results": {}, "vars": {}});
    let mut run = Run {
        workflow,
        host,
        past,
        data,
        done: BTreeMap::new(),
        reports: Vec::new(),
        seen: Vec::new(),
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

/// Why a run does not go on.
enum Stop {
    /// A step could not be done.
    Lost { step: String, error: String },
    /// A tool failed and says so.
    Answered { step: String, text: String, outcome: Outcome },
    /// Something in the file does not work out.
    Broken(String),
}

/// What a step gave.
struct Done {
    report: Report,
    /// What later steps see of it; none of a step that was skipped.
    value: Option<Json>,
    seen: Vec<String>,
    stop: Option<Stop>,
}

struct Run<'a> {
    workflow: &'a Workflow,
    host: &'a dyn Host,
    past: Past,
    /// What templates see.
    data: Json,
    /// How steps ended, and whether their results are stored.
    done: BTreeMap<String, (Status, bool)>,
    reports: Vec<Report>,
    seen: Vec<String>,
    /// The answer of the last tool that was called.
    last: Option<Json>,
}

impl Run<'_> {
    async fn step(&mut self, step: &Step) -> Result<(), Stop> {
        match &step.action {
            Action::Tool { .. } => {
                let done = self.plain(step, step.id.clone()).await;
                let (report, stop) = self.take(step, done);
                self.reports.push(report);
                stop.map_or(Ok(()), Err)
            }
            Action::ForEach { .. } | Action::Parallel { .. } => self.group(step).await,
        }
    }

    /// A step that calls a tool. It changes nothing here, so that it can be done beside others.
    async fn plain(&self, step: &Step, key: String) -> Done {
        if let Some((report, value)) = self.past.get(&key) {
            let value = (report.status != Status::Skipped).then(|| value.clone());
            return Done { report: report.clone(), value, seen: Vec::new(), stop: None };
        }
        self.begins(step, &key).await;
        let done = self.tried(step, key).await;
        let value = done.value.clone().unwrap_or_default();
        self.host.note(Note::Ended { report: Box::new(done.report.clone()), value }).await;
        done
    }

    async fn begins(&self, step: &Step, key: &str) {
        let (step, tool) = (key.to_owned(), step.tool().to_owned());
        self.host.note(Note::Begins { step, tool }).await;
    }

    async fn tried(&self, step: &Step, key: String) -> Done {
        let mut report = blank(step, key);
        let mut seen = Vec::new();
        match self.judged(step, &mut seen).await {
            Ok(judged) => report.condition = judged,
            Err(error) => return broken(report, seen, error),
        }
        if report.condition.as_ref().is_some_and(|judged| !judged.holds) {
            report.status = Status::Skipped;
            return Done { report, value: None, seen, stop: None };
        }
        let Action::Tool { tool, args } = &step.action else {
            return Done { report, value: None, seen, stop: None };
        };
        let mut renderer = Renderer::new(&self.data, self.host.context());
        let rendered = renderer.arguments(args);
        seen.append(&mut renderer.seen);
        match rendered {
            Ok(arguments) => report.input = arguments,
            Err(error) => {
                let id = &step.id;
                let error = format!("failed to resolve arguments for step {id}: {error}");
                return broken(report, seen, error);
            }
        }
        let called = self.host.call(tool, report.input.clone()).await;
        ended(step, report, seen, called)
    }

    /// What became of a step's condition, if it has one. An error ends the run.
    async fn judged(&self, step: &Step, seen: &mut Vec<String>) -> Result<Option<Judged>, String> {
        let Some(condition) = &step.condition else { return Ok(None) };
        let mut renderer = Renderer::new(&self.data, self.host.context());
        let unresolved = |error: String| {
            format!("failed to resolve condition arguments for step {}: {error}", step.id)
        };
        let judged = if let Some(template) = &condition.template {
            let value = renderer.value(&Json::String(template.clone()), Leaf::Argument);
            let result = value.map_err(unresolved)?;
            let holds = matches!(&result, Json::Bool(true))
                || result.as_str().is_some_and(|text| text.trim() == "true");
            Judged { holds, result, source: "template".to_owned() }
        } else if let Some(from) = &condition.from_step {
            let condition = expected(&mut renderer, condition).map_err(unresolved)?;
            let Some((result, failed)) = self.result_of(from, &condition) else {
                let id = &step.id;
                return Err(format!(
                    "step {id} condition references non-existent step result: {from}"
                ));
            };
            let holds = holds(&condition, &result, failed);
            Judged { holds, result, source: format!("from_step:{from}") }
        } else {
            let tool = condition.tool.as_deref().unwrap_or_default();
            let arguments = renderer.arguments(&condition.args).map_err(unresolved)?;
            let condition = expected(&mut renderer, condition).map_err(unresolved)?;
            let (holds, result) = match self.host.call(tool, arguments).await {
                Called::Answered(content) => {
                    (holds(&condition, &content.value, content.failed), content.value)
                }
                Called::Lost(_) => (false, Json::Bool(false)),
            };
            Judged { holds, result, source: tool.to_owned() }
        };
        seen.append(&mut renderer.seen);
        Ok(Some(judged))
    }

    /// The result of an earlier step as a condition sees it, and whether it is a failure.
    fn result_of(&self, id: &str, condition: &Condition) -> Option<(Json, bool)> {
        let (status, stored) = self.done.get(id)?;
        let looked_into = [&condition.expect, &condition.expect_not]
            .into_iter()
            .flatten()
            .any(|expectation| !expectation.json_path.is_empty());
        let value = self.data.get("results").and_then(|results| results.get(id));
        let value = value.filter(|value| (*stored || looked_into) && !value.is_null());
        let result = match (status, value) {
            (Status::Skipped, _) => return None,
            (_, Some(value)) => value.clone(),
            (Status::Completed, None) => json!({"success": true, "status": "completed"}),
            (Status::Failed, None) => json!({
                "error": format!("Step {id} failed"),
                "success": false, "isError": true, "status": "failed",
            }),
        };
        let failed = result.get("isError").and_then(Json::as_bool).unwrap_or_default();
        Some((result, failed))
    }

    /// Takes in what a step gave.
    fn take(&mut self, step: &Step, done: Done) -> (Report, Option<Stop>) {
        let Done { report, value, seen, stop } = done;
        for name in seen {
            if !self.seen.contains(&name) {
                self.seen.push(name);
            }
        }
        self.done.insert(step.id.clone(), (report.status, step.store));
        if let Some(value) = value {
            if report.status == Status::Completed && matches!(step.action, Action::Tool { .. }) {
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

    /// A step with steps inside.
    async fn group(&mut self, step: &Step) -> Result<(), Stop> {
        let mut report = blank(step, step.id.clone());
        let mut seen = Vec::new();
        report.condition = self.judged(step, &mut seen).await.map_err(Stop::Broken)?;
        self.seen.append(&mut seen);
        let held = report.condition.as_ref().is_none_or(|judged| judged.holds);
        let (value, stop) = match &step.action {
            _ if !held => {
                report.status = Status::Skipped;
                (None, None)
            }
            Action::ForEach { items, name, steps } => {
                let items = self.items(step, items)?;
                let (value, stop) = self.for_each(items, name, steps, &mut report.steps).await;
                (Some(value), stop)
            }
            Action::Parallel { steps } => {
                let (value, stop) = self.parallel(steps, &mut report.steps).await;
                (Some(value), stop)
            }
            Action::Tool { .. } => (None, None),
        };
        let (value, stop) = group_end(step, &mut report, value, stop);
        let done = Done { report, value, seen: Vec::new(), stop };
        let (report, stop) = self.take(step, done);
        self.reports.push(report);
        stop.map_or(Ok(()), Err)
    }

    fn items(&mut self, step: &Step, items: &Json) -> Result<Vec<Json>, Stop> {
        let id = &step.id;
        let mut renderer = Renderer::new(&self.data, self.host.context());
        let rendered = renderer.value(items, Leaf::Answer);
        let mut seen = std::mem::take(&mut renderer.seen);
        seen.retain(|name| !self.seen.contains(name));
        self.seen.append(&mut seen);
        let failed =
            |why: String| Stop::Broken(format!("failed to resolve the items of step {id}: {why}"));
        match rendered.map_err(failed)? {
            Json::Array(items) if items.len() <= MOST_ITEMS => Ok(items),
            Json::Array(items) => {
                Err(failed(format!("{} items are more than {MOST_ITEMS}", items.len())))
            }
            other => Err(failed(format!("they are no list but {}", kind(&other)))),
        }
    }

    async fn for_each(
        &mut self,
        items: Vec<Json>,
        name: &str,
        steps: &[Step],
        reports: &mut Vec<Report>,
    ) -> (Json, Option<Stop>) {
        let mut all = Vec::new();
        for (index, item) in items.into_iter().enumerate() {
            self.put("vars", name, item);
            self.put("vars", &format!("{name}_index"), index.into());
            let mut given = Object::new();
            for step in steps {
                let done = self.plain(step, format!("{}_{index}", step.id)).await;
                given.extend(done.value.clone().map(|value| (step.id.clone(), value)));
                let (report, stop) = self.take(step, done);
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
        steps: &[Step],
        reports: &mut Vec<Report>,
    ) -> (Json, Option<Stop>) {
        let this = &*self;
        let all = steps
            .iter()
            .map(|step| -> BoxFuture<'_, Done> { Box::pin(this.plain(step, step.id.clone())) });
        let all = join_all(all.collect()).await;
        let (mut given, mut first) = (Object::new(), None);
        for (step, done) in steps.iter().zip(all) {
            given.extend(done.value.clone().map(|value| (step.id.clone(), value)));
            let (report, stop) = self.take(step, done);
            reports.push(report);
            first = first.or(stop);
        }
        (Json::Object(given), first)
    }
}

/// A condition with its expected values rendered.
fn expected(renderer: &mut Renderer<'_>, condition: &Condition) -> Result<Condition, String> {
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
