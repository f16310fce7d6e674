//! Writes a workflow as JSON, with the field names of tools or of files.

use serde_json::{Value as Json, json};

use super::{
    JsonObject, ResultExpectation, StepAction, StepCondition, Workflow, WorkflowArg, WorkflowSpec,
    WorkflowStep,
};

/// The time shown where none is known.
const NEVER: &str = "0001-01-01T00:00:00Z";

/// The spelling of field names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Spelling {
    /// `allow_failure`, as tools write.
    Tool,
    /// `allowFailure`, as files write.
    File,
}

impl Spelling {
    const fn of(self, tool: &'static str, file: &'static str) -> &'static str {
        match self {
            Self::Tool => tool,
            Self::File => file,
        }
    }
}

impl Workflow {
    /// The definition as `core_workflow_get` shows it.
    pub fn shown(&self, available: bool) -> JsonObject {
        let mut object = self.definition();
        if available {
            put(&mut object, "available", true.into());
        }
        put(&mut object, "createdAt", NEVER.into());
        put(&mut object, "lastModified", NEVER.into());
        object
    }

    fn definition(&self) -> JsonObject {
        let mut object = JsonObject::new();
        put(&mut object, "name", self.name.as_str().into());
        put(&mut object, "description", self.spec.description.as_str().into());
        body(&mut object, &self.spec, Spelling::Tool);
        let labels: JsonObject =
            self.labels().into_iter().map(|(key, value)| (key.to_owned(), value.into())).collect();
        if !labels.is_empty() {
            put(&mut object, "labels", Json::Object(labels));
        }
        object
    }
}

impl WorkflowSpec {
    /// The spec with the field names of files.
    pub fn to_file(&self) -> JsonObject {
        let mut object = JsonObject::new();
        if !self.description.is_empty() {
            put(&mut object, "description", self.description.as_str().into());
        }
        body(&mut object, self, Spelling::File);
        object
    }
}

fn body(object: &mut JsonObject, spec: &WorkflowSpec, spelling: Spelling) {
    if !spec.args.is_empty() {
        let args = spec.args.iter().map(|(name, arg)| (name.clone(), argument(arg)));
        put(object, "args", Json::Object(args.collect()));
    }
    put(object, "steps", steps(&spec.steps, spelling));
    if !spec.on_failure.is_empty() {
        put(object, "onFailure", steps(&spec.on_failure, spelling));
    }
    if let Some(output) = &spec.output {
        put(object, "output", output.clone());
    }
}

fn argument(arg: &WorkflowArg) -> Json {
    let mut object = JsonObject::new();
    put(&mut object, "type", arg.kind.as_str().into());
    put(&mut object, "required", arg.required.into());
    if let Some(default) = &arg.default {
        put(&mut object, "default", default.clone());
    }
    if !arg.description.is_empty() {
        put(&mut object, "description", arg.description.as_str().into());
    }
    Json::Object(object)
}

fn steps(steps: &[WorkflowStep], spelling: Spelling) -> Json {
    steps.iter().map(|item| step(item, spelling)).collect()
}

fn step(step: &WorkflowStep, spelling: Spelling) -> Json {
    let mut object = JsonObject::new();
    put(&mut object, "id", step.id.as_str().into());
    if let Some(condition) = &step.condition {
        put(&mut object, "condition", condition_of(condition, spelling));
    }
    match &step.action {
        StepAction::Tool { tool, args } => {
            put(&mut object, "tool", tool.as_str().into());
            if !args.is_empty() {
                put(&mut object, "args", Json::Object(args.clone()));
            }
        }
        StepAction::ForEach { items, name, steps: inner } => {
            let group = json!({"items": items, "as": name, "steps": steps(inner, spelling)});
            put(&mut object, "forEach", group);
        }
        StepAction::Parallel { steps: inner } => {
            put(&mut object, "parallel", steps(inner, spelling));
        }
    }
    if step.allow_failure {
        put(&mut object, spelling.of("allow_failure", "allowFailure"), true.into());
    }
    if let Some(outputs) = &step.outputs {
        put(&mut object, "outputs", outputs.clone());
    }
    if let Some(output) = step.output {
        put(&mut object, "output", output.into());
    }
    if step.store {
        put(&mut object, "store", true.into());
    }
    if step.idempotent {
        put(&mut object, "idempotent", true.into());
    }
    if !step.description.is_empty() {
        put(&mut object, "description", step.description.as_str().into());
    }
    Json::Object(object)
}

fn condition_of(condition: &StepCondition, spelling: Spelling) -> Json {
    let mut object = JsonObject::new();
    let texts = [
        ("template", &condition.template),
        ("tool", &condition.tool),
        (spelling.of("from_step", "fromStep"), &condition.from_step),
    ];
    for (name, text) in texts {
        if let Some(text) = text {
            put(&mut object, name, text.as_str().into());
        }
    }
    if !condition.args.is_empty() {
        put(&mut object, "args", Json::Object(condition.args.clone()));
    }
    let sides = [
        ("expect", &condition.expect),
        (spelling.of("expect_not", "expectNot"), &condition.expect_not),
    ];
    for (name, expected) in sides {
        match expected {
            Some(expected) => put(&mut object, name, expectation(expected, spelling)),
            // Clients expect both sides of every condition.
            None if spelling == Spelling::Tool && condition.template.is_none() => {
                put(&mut object, name, json!({"success": false}));
            }
            None => (),
        }
    }
    Json::Object(object)
}

fn expectation(expected: &ResultExpectation, spelling: Spelling) -> Json {
    let mut object = JsonObject::new();
    put(&mut object, "success", expected.success.into());
    if !expected.json_path.is_empty() {
        let name = spelling.of("json_path", "jsonPath");
        put(&mut object, name, Json::Object(expected.json_path.clone()));
    }
    Json::Object(object)
}

fn put(object: &mut JsonObject, name: &str, value: Json) {
    object.insert(name.to_owned(), value);
}
