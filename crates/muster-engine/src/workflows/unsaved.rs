//! Unsaved workflows: steps that are sent with the request to run them.
//!
//! They are checked like saved ones, but any finding prevents the run: the caller can correct it at once, and nothing
//! has happened yet. Their records hold the definition, from which they can be saved.

use indexmap::IndexMap;
use muster_core::{
    backend::{BoxFuture, CallContext},
    call::Outcome,
    json::Raw,
};
use muster_gateway::{call_turns::CallTurns, step_runner::StepRunner};
use muster_workflow::{
    JsonObject, StepAction, Workflow, WorkflowArg, WorkflowSpec, arguments,
    check::check,
    content::{with_blocks, with_execution_id},
    definition::{self, ParsedSpec},
    report::{ReplyDetail, StepReport, StepStatus},
    request,
    run::{CompletedSteps, RunOutcome, RunResult},
};
use serde_json::{Value as Json, json, value::RawValue};

use super::{Deps, Workflows, executions::Origin};
use crate::{handle::Handle, reconcile::Surroundings};

/// The name of unsaved workflows in records and events.
pub(crate) const NAME: &str = "run_steps";
/// The longest definition, in bytes.
const MAX_DEFINITION: usize = 64 * 1024;
/// The maximum number of steps, including nested ones.
const MAX_STEPS: usize = 100;

/// A step, for errors.
const EXAMPLE: &str = r#"{"id":"a","tool":"x_github_get_issue","args":{"number":7}}"#;
/// The number of unknown tools for which similar names are searched.
const MAX_SEARCHES: usize = 3;

/// Runs unsaved workflows.
#[derive(Debug)]
pub(crate) struct UnsavedRuns {
    handle: Handle,
}

impl UnsavedRuns {
    pub(crate) fn new(handle: Handle) -> Self {
        Self { handle }
    }

    async fn run(&self, cx: CallContext<'_>, request: Raw) -> Outcome {
        let view = self.handle.now();
        let read = read(&request).and_then(|(spec, input)| {
            let workflow = Workflow::new(NAME, view.settings.namespace(), spec);
            let state = self.handle.state_of(cx.caller);
            let surroundings = Surroundings::now(&state, &view.workflows, MAX_SEARCHES);
            // Check it without its name: a saved workflow may have the same name, but nothing can call an unsaved one.
            let nameless = Workflow { name: String::new(), ..workflow.clone() };
            let findings = check(&nameless, &surroundings);
            if !findings.is_empty() {
                let lines = findings.iter().flat_map(|found| {
                    let place = found.path.join(".");
                    [format!("{place}: {}", found.message), format!("hint: {}", found.hint)]
                });
                return Err(lines.collect::<Vec<_>>().join("\n"));
            }
            Ok((workflow, input))
        });
        let (workflow, input) = match read {
            Ok(read) => read,
            Err(problem) => return refused(&problem),
        };
        let workflows = Workflows::new(view.workflows.clone(), Deps::of(&self.handle));
        if let Some((_, why)) = workflows.unavailable_reason(&workflow, cx.caller, Origin::Unsaved)
        {
            return refused(&why);
        }
        let input = match arguments::with_defaults(&workflow.spec, input) {
            Ok(input) => input,
            Err(unfit) => return refused(&unfit.to_string()),
        };
        workflows.run_unsaved(cx, &workflow, input).await
    }
}

impl StepRunner for UnsavedRuns {
    fn run_steps<'a>(&'a self, cx: CallContext<'a>, definition: Raw) -> BoxFuture<'a, Outcome> {
        Box::pin(self.run(cx, definition))
    }
}

impl Workflows {
    async fn run_unsaved(
        &self,
        cx: CallContext<'_>,
        workflow: &Workflow,
        input: JsonObject,
    ) -> Outcome {
        let begun = self.begin(workflow, input.clone(), cx.caller, Origin::Unsaved).await;
        let live = match begun {
            Ok(live) => live,
            Err(failure) => return failure,
        };
        let id = live.id().to_owned();
        let (past, detail) = (CompletedSteps::new(), ReplyDetail::Visible);
        let turns = Some(CallTurns::default());
        let Some(ended) = self.interpret(cx, workflow, &live, turns, input, past, detail).await
        else {
            return live.disown();
        };
        let RunOutcome { result, error, reports, .. } = &ended;
        let outcome = match (result, error) {
            (RunResult::Value(result), None) => super::text(result, false),
            (_, error) => failure(error.as_deref().unwrap_or_default(), reports),
        };
        self.close(workflow, live, &ended).await;
        with_blocks(with_execution_id(outcome, &id), ended.blocks)
    }
}

/// The reply if a step failed: the error, and the steps that completed.
fn failure(error: &str, reports: &[StepReport]) -> Outcome {
    let done = reports.iter().filter(|report| report.status == StepStatus::Completed);
    let done: Vec<String> = done.map(StepReport::result_name).collect();
    super::text(&json!({"error": error, "completed": done}), true)
}

fn refused(problem: &str) -> Outcome {
    Outcome::failure(format!("nothing ran: {problem}"))
}

/// The spec and the values of its arguments.
fn read(request: &RawValue) -> Result<(WorkflowSpec, JsonObject), String> {
    let text = request.get();
    if text.len() > MAX_DEFINITION {
        return Err(format!("the steps are larger than {} KiB", MAX_DEFINITION / 1024));
    }
    // The arguments are JSON, so only their depth can prevent reading them.
    let Ok(Json::Object(mut given)) = serde_json::from_str(text) else {
        return Err("the steps are nested too deeply".to_owned());
    };
    let input = match given.remove("input").map(unquoted) {
        None | Some(Json::Null) => JsonObject::new(),
        Some(Json::Object(input)) => match input.iter().find(|(_, value)| value.is_null()) {
            Some((name, _)) => {
                return Err(format!("`input.{name}` is null: leave it out, or give it a value"));
            }
            None => input,
        },
        Some(_) => return Err("input must be a JSON object".to_owned()),
    };
    for (key, steps) in &mut given {
        if ["steps", "onFailure", "on_failure"].contains(&key.as_str()) {
            repair(steps);
            if !steps.is_array() && !steps.is_null() {
                return Err(format!("{key} must be a list such as [{EXAMPLE}]"));
            }
        }
    }
    let mut named = given.clone();
    named.insert("name".to_owned(), NAME.into());
    let (_, mut spec) =
        request::read(&Json::Object(named)).map_err(|invalid| invalid.plain().to_owned())?;
    let parsed = definition::read(&Json::Object(given));
    if let Ok(ParsedSpec { unknown, .. }) = parsed
        && let Some((path, near)) = unknown.first()
    {
        let near = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
        return Err(format!("there is no field `{}`{near}", path.join(".")));
    }
    let count = spec.steps.iter().chain(&spec.on_failure).map(|step| 1 + step.inner().len());
    let count: usize = count.sum();
    if count > MAX_STEPS {
        return Err(format!("{count} steps are more than {MAX_STEPS}"));
    }
    declare(&mut spec.args, &input);
    if spec.output.is_none() {
        spec.output = last_result(&spec);
        // Include its images with the result.
        let last = spec.steps.last_mut().filter(|_| spec.output.is_some());
        last.into_iter().for_each(|last| last.output = Some(true));
    }
    Ok((spec, input))
}

/// Repairs steps that are written as JSON text, or with the key names of tool calls.
fn repair(steps: &mut Json) {
    if let Json::String(text) = steps
        && let Ok(list @ Json::Array(_)) = serde_json::from_str(text)
    {
        *steps = list;
    }
    let Json::Array(list) = steps else { return };
    for step in list.iter_mut().filter_map(Json::as_object_mut) {
        for (wrong, right) in [("arguments", "args"), ("name", "tool")] {
            if !step.contains_key(right)
                && let Some(value) = step.remove(wrong)
            {
                step.insert(right.to_owned(), value);
            }
        }
        call_its_tool(step);
        for group in ["forEach", "for_each"] {
            let inner = step.get_mut(group).and_then(|group| group.get_mut("steps"));
            inner.into_iter().for_each(repair);
        }
        step.get_mut("parallel").into_iter().for_each(repair);
    }
}

/// An object that is written as JSON text.
fn unquoted(value: Json) -> Json {
    let inside = value.as_str().and_then(|text| serde_json::from_str(text).ok());
    inside.filter(Json::is_object).unwrap_or(value)
}

/// Takes the call out of a step that wraps it in `call_tool`, unless it says more than the name and arguments of the tool.
fn call_its_tool(step: &mut JsonObject) {
    let is_wrapped = step.get("tool").is_some_and(|tool| tool == "call_tool");
    let Some(Json::Object(call)) = step.get("args").filter(|_| is_wrapped) else { return };
    let is_plain = call.keys().all(|key| ["name", "arguments"].contains(&key.as_str()));
    if let (Some(tool @ Json::String(_)), true) = (call.get("name").cloned(), is_plain) {
        let args = call.get("arguments").cloned();
        step.insert("tool".to_owned(), tool);
        step.insert("args".to_owned(), args.unwrap_or_else(|| json!({})));
    }
}

/// Declares the given arguments, so that a workflow saved from the run accepts them.
fn declare(args: &mut IndexMap<String, WorkflowArg>, input: &JsonObject) {
    for (name, value) in input {
        let kind = match value {
            Json::String(_) | Json::Null => "string",
            Json::Bool(_) => "boolean",
            Json::Number(number) if number.is_f64() => "number",
            Json::Number(_) => "integer",
            Json::Array(_) => "array",
            Json::Object(_) => "object",
        };
        let declared =
            WorkflowArg { kind: kind.to_owned(), required: true, ..WorkflowArg::default() };
        args.entry(name.clone()).or_insert(declared);
    }
}

/// A template for the result of the last step, if it is certain to have one.
fn last_result(spec: &WorkflowSpec) -> Option<Json> {
    let last = spec.steps.last().filter(|last| last.condition.is_none())?;
    let is_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let is_plain =
        last.id.chars().all(is_word) && !last.id.starts_with(|c: char| c.is_ascii_digit());
    let is_tool = matches!(last.action, StepAction::Tool { .. });
    (is_plain && is_tool).then(|| format!("{{{{ .results.{} }}}}", last.id).into())
}
