//! Parses a workflow definition from JSON: the `spec` of a file, or the arguments of a tool. Files write
//! `allowFailure`, tools write `allow_failure`; both are accepted everywhere.

use std::fmt::Display;

use muster_core::{fields::FieldTable, suggest};
use serde_json::Value as Json;

use super::{
    JsonObject, ResultExpectation, StepAction, StepCondition, WorkflowArg, WorkflowSpec,
    WorkflowStep,
    fields::{ARGUMENT, CONDITION, EXPECTATION, FOR_EACH, SPEC, STEP},
};

/// A problem and its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpecProblem {
    /// Field names and list indexes from the top.
    pub path: Vec<String>,
    /// What is wrong.
    pub message: String,
    /// How to fix it.
    pub fix: String,
}

/// A spec, and its fields that have no effect.
#[derive(Debug, Clone, PartialEq)]
pub struct ParsedSpec {
    /// The spec.
    pub spec: WorkflowSpec,
    /// The unknown fields, with similar known names.
    pub unknown: Vec<(Vec<String>, Option<&'static str>)>,
}

/// Parses a spec. Reports all problems at once.
pub fn read(spec: &Json) -> Result<ParsedSpec, Vec<SpecProblem>> {
    let mut walk = SpecReader::default();
    let read = walk.spec(spec);
    match read {
        Some(spec) if walk.issues.is_empty() => Ok(ParsedSpec { spec, unknown: walk.unknown }),
        Some(_) | None => Err(walk.issues),
    }
}

#[derive(Default)]
struct SpecReader {
    path: Vec<String>,
    issues: Vec<SpecProblem>,
    unknown: Vec<(Vec<String>, Option<&'static str>)>,
}

impl SpecReader {
    fn refuse<T>(&mut self, message: impl Into<String>, fix: impl Into<String>) -> Option<T> {
        let (path, message, fix) = (self.path.clone(), message.into(), fix.into());
        self.issues.push(SpecProblem { path, message, fix });
        None
    }

    fn within<T>(&mut self, part: impl Display, work: impl FnOnce(&mut Self) -> T) -> T {
        self.path.push(part.to_string());
        let done = work(self);
        self.path.pop();
        done
    }

    fn object<'j>(&mut self, json: &'j Json, table: &'static FieldTable) -> Option<&'j JsonObject> {
        let Json::Object(object) = json else {
            return self.refuse("Input should be a mapping", "write `field: value` lines");
        };
        for name in object.keys().filter(|name| !table.all().any(|field| is(name, field.name))) {
            let mut path = self.path.clone();
            path.push(name.clone());
            let meant =
                suggest::similar(name, table.all().map(|field| field.name)).first().copied();
            self.unknown.push((path, meant));
        }
        Some(object)
    }

    fn text(&mut self, object: &JsonObject, name: &'static str) -> Option<String> {
        match get(object, name) {
            None | Some(Json::Null) => Some(String::new()),
            Some(Json::String(text)) => Some(text.clone()),
            Some(_) => self.within(name, |walk| {
                walk.refuse("Input should be a valid string", "write text, in quotes")
            }),
        }
    }

    fn flag(&mut self, object: &JsonObject, name: &'static str) -> Option<bool> {
        match get(object, name) {
            None | Some(Json::Null) => Some(false),
            Some(Json::Bool(flag)) => Some(*flag),
            Some(_) => self.within(name, |walk| {
                walk.refuse("Input should be a valid boolean", "write `true` or `false`")
            }),
        }
    }

    fn free(&mut self, object: &JsonObject, name: &'static str) -> Option<JsonObject> {
        match get(object, name) {
            None | Some(Json::Null) => Some(JsonObject::new()),
            Some(Json::Object(free)) => Some(free.clone()),
            Some(_) => self.within(name, |walk| {
                walk.refuse("Input should be a mapping", "write `name: value` lines")
            }),
        }
    }

    fn list<T>(
        &mut self,
        object: &JsonObject,
        name: &'static str,
        read: impl Fn(&mut Self, &Json) -> Option<T>,
    ) -> Option<Vec<T>> {
        self.within(name, |walk| match get(object, name) {
            None | Some(Json::Null) => Some(Vec::new()),
            Some(Json::Array(items)) => {
                let read: Vec<Option<T>> = items
                    .iter()
                    .enumerate()
                    .map(|(index, item)| walk.within(index, |walk| read(walk, item)))
                    .collect();
                read.into_iter().collect()
            }
            Some(_) => walk.refuse("Input should be a list", "write items that begin with `-`"),
        })
    }

    fn spec(&mut self, json: &Json) -> Option<WorkflowSpec> {
        let object = self.object(json, &SPEC)?;
        let description = self.text(object, "description");
        let args = self.args(object);
        let steps = self.list(object, "steps", |walk, step| walk.step(step, Nesting::Top));
        let on_failure =
            self.list(object, "onFailure", |walk, step| walk.step(step, Nesting::Nested));
        let output = object.get("output").filter(|output| !output.is_null()).cloned();
        Some(WorkflowSpec {
            description: description?,
            args: args?,
            steps: steps?,
            on_failure: on_failure?,
            output,
        })
    }

    fn args(&mut self, object: &JsonObject) -> Option<indexmap::IndexMap<String, WorkflowArg>> {
        let args = self.free(object, "args")?;
        let read: Vec<Option<(String, WorkflowArg)>> = self.within("args", |walk| {
            let each = args.iter();
            each.map(|(name, arg)| {
                let arg = walk.within(name, |walk| walk.arg(arg))?;
                Some((name.clone(), arg))
            })
            .collect()
        });
        read.into_iter().collect()
    }

    fn arg(&mut self, json: &Json) -> Option<WorkflowArg> {
        // A single word is a type: `owner: string`.
        if let Json::String(kind) = json {
            return Some(WorkflowArg { kind: kind.clone(), ..WorkflowArg::default() });
        }
        let object = self.object(json, &ARGUMENT)?;
        let (kind, required) = (self.text(object, "type"), self.flag(object, "required"));
        let description = self.text(object, "description");
        let default = object.get("default").filter(|default| !default.is_null()).cloned();
        Some(WorkflowArg { kind: kind?, required: required?, default, description: description? })
    }

    fn step(&mut self, json: &Json, place: Nesting) -> Option<WorkflowStep> {
        let object = self.object(json, &STEP)?;
        let id = self.text(object, "id");
        let action = self.action(object, place);
        let condition = match get(object, "condition") {
            None | Some(Json::Null) => Some(None),
            Some(condition) => self.within("condition", |walk| walk.condition(condition)).map(Some),
        };
        let store = self.flag(object, "store");
        let output = match get(object, "output") {
            None | Some(Json::Null) => Some(None),
            Some(_) => self.flag(object, "output").map(Some),
        };
        let allow_failure = self.flag(object, "allowFailure");
        let idempotent = self.flag(object, "idempotent");
        let description = self.text(object, "description");
        let outputs = self.free(object, "outputs")?;
        let id = match id? {
            id if id.is_empty() => self.refuse("a step needs an `id`", "add `id: …`"),
            id => Some(id),
        };
        Some(WorkflowStep {
            id: id?,
            action: action?,
            condition: condition?,
            store: store?,
            output: output?,
            allow_failure: allow_failure?,
            idempotent: idempotent?,
            description: description?,
            outputs: (!outputs.is_empty()).then_some(Json::Object(outputs)),
        })
    }

    fn action(&mut self, object: &JsonObject, place: Nesting) -> Option<StepAction> {
        let (tool, args) = (self.text(object, "tool"), self.free(object, "args"));
        let (for_each, parallel) = (get(object, "forEach"), get(object, "parallel"));
        let (tool, args) = (tool?, args?);
        match (tool.is_empty(), for_each, parallel) {
            (false, None, None) => Some(StepAction::Tool { tool, args }),
            (true, None, None) => self.refuse("a step needs a `tool`", "add `tool: …`"),
            (true, Some(_), None) | (true, None, Some(_)) if place == Nesting::Nested => self
                .refuse(
                    "a step inside another one can only call a tool",
                    "put the inner group into a workflow of its own and call that",
                ),
            (true, Some(for_each), None) => self.within("forEach", |walk| walk.for_each(for_each)),
            (true, None, Some(_)) => {
                let steps =
                    self.list(object, "parallel", |walk, step| walk.step(step, Nesting::Nested))?;
                Some(StepAction::Parallel { steps })
            }
            _ => self.refuse(
                "a step has one of `tool`, `forEach` and `parallel`",
                "make two steps of it",
            ),
        }
    }

    fn for_each(&mut self, json: &Json) -> Option<StepAction> {
        let object = self.object(json, &FOR_EACH)?;
        let name = self.text(object, "as");
        let steps = self.list(object, "steps", |walk, step| walk.step(step, Nesting::Nested));
        let items = match object.get("items") {
            Some(items @ (Json::String(_) | Json::Array(_))) => Some(items.clone()),
            Some(_) | None => self.within("items", |walk| {
                walk.refuse("Input should be a list", "write a list, or a template that is one")
            }),
        };
        let name = match name? {
            name if name.is_empty() => "item".to_owned(),
            name => name,
        };
        Some(StepAction::ForEach { items: items?, name, steps: steps? })
    }

    fn condition(&mut self, json: &Json) -> Option<StepCondition> {
        let object = self.object(json, &CONDITION)?;
        let template = self.text(object, "template");
        let (tool, args) = (self.text(object, "tool"), self.free(object, "args"));
        let from_step = self.text(object, "fromStep");
        let expect = self.expectation(object, "expect");
        let expect_not = self.expectation(object, "expectNot");
        let given = |text: String| (!text.is_empty()).then_some(text);
        Some(StepCondition {
            template: given(template?),
            tool: given(tool?),
            args: args?,
            from_step: given(from_step?),
            expect: expect?,
            expect_not: expect_not?,
        })
    }

    #[expect(clippy::option_option, reason = "left out is not unreadable")]
    fn expectation(
        &mut self,
        object: &JsonObject,
        name: &'static str,
    ) -> Option<Option<ResultExpectation>> {
        let Some(json) = get(object, name).filter(|json| !json.is_null()) else {
            return Some(None);
        };
        self.within(name, |walk| {
            let object = walk.object(json, &EXPECTATION)?;
            let success = walk.flag(object, "success");
            let json_path = walk.free(object, "jsonPath");
            Some(Some(ResultExpectation { success: success?, json_path: json_path? }))
        })
    }
}

/// The position of a step.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Nesting {
    Top,
    Nested,
}

/// A field by its name in files, or by the name that tools use.
fn get<'j>(object: &'j JsonObject, name: &str) -> Option<&'j Json> {
    let found = object.iter().find(|(key, _)| is(key, name));
    found.map(|(_, value)| value)
}

/// Whether a key is a name, whatever its case, and with or without `_` between its words.
fn is(key: &str, name: &str) -> bool {
    let plain = key.bytes().filter(|byte| *byte != b'_').map(|byte| byte.to_ascii_lowercase());
    plain.eq(name.bytes().map(|byte| byte.to_ascii_lowercase()))
}
