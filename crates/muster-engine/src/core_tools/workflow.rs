//! `core_workflow_*`: the definitions of workflows.

use std::cell::Cell;

use muster_config::workflow::shown_yaml;
use muster_core::backend::CallContext;
use muster_workflow::{
    Workflow,
    check::check,
    request::{self, Invalid},
};
use serde_json::{Map, Value, json};

use super::{
    Args, CoreTool, ToolReply,
    args::{Field, Shape},
    mcpserver::named,
    object,
};
use crate::{
    events::Reason,
    handle::Handle,
    reconcile::{Edit, EditError, Surroundings, WorkflowEdit},
    workflows::{is_shown, not_found},
};

pub(super) const TOOLS: &[CoreTool] = &[
    CoreTool {
        name: "core_workflow_list",
        summary: "List the workflows with what they are for, and whether all their tools are there. \
                  Run one with call_tool and the name workflow_<name>.",
        schema: || {
            json!({"type": "object", "properties": {
                "include_system": {"type": "boolean", "default": true, "description": "Accepted for compatibility"},
            }})
        },
        run: |handle, cx, _| Box::pin(async move { Ok(list(handle, cx)) }),
    },
    CoreTool {
        name: "core_workflow_get",
        summary: "Show the definition of one workflow, as an object and as YAML.",
        schema: || named("Name of the workflow"),
        run: |handle, cx, args| Box::pin(async move { get(handle, cx, &args) }),
    },
    CoreTool {
        name: "core_workflow_create",
        summary: "Save a task as a workflow: steps that call tools one after the other, with arguments \
                  and conditions written as Go templates ({{ .input.x }}, {{ .results.step.field }}). \
                  Its tool workflow_<name> can be called at once.",
        schema: definition,
        run: |handle, _, args| Box::pin(create(handle, args)),
    },
    CoreTool {
        name: "core_workflow_update",
        summary: "Replace the definition of a workflow as a whole.",
        schema: definition,
        run: |handle, _, args| Box::pin(update(handle, args)),
    },
    CoreTool {
        name: "core_workflow_delete",
        summary: "Delete a workflow. The records of its runs stay.",
        schema: || named("Name of the workflow"),
        run: |handle, _, args| Box::pin(delete(handle, args)),
    },
    CoreTool {
        name: "core_workflow_validate",
        summary: "Check the definition of a workflow without storing it: its form, the tools it calls \
                  and their arguments, its templates and what they refer to.",
        schema: definition,
        run: |handle, cx, args| Box::pin(async move { validate(handle, cx, args) }),
    },
    CoreTool {
        name: "core_workflow_available",
        summary: "Say whether all tools of a workflow are there.",
        schema: || named("Name of the workflow"),
        run: |handle, cx, args| Box::pin(async move { available(handle, cx, &args) }),
    },
];

const FIELDS: &[Field] = &[
    ("name", Shape::Text),
    ("description", Shape::Text),
    ("version", Shape::Text),
    ("args", Shape::MapOf("api.ArgDefinition", ARGUMENT)),
    ("steps", Shape::List("[]api.WorkflowStep", STEP)),
    ("on_failure", Shape::List("[]api.WorkflowStep", PLAIN)),
    ("onFailure", Shape::List("[]api.WorkflowStep", PLAIN)),
    ("output", Shape::Any),
];
const ARGUMENT: &[Field] = &[
    ("type", Shape::Text),
    ("required", Shape::Flag),
    ("default", Shape::Any),
    ("description", Shape::Text),
];
const STEP: &[Field] = &[
    ("id", Shape::Text),
    ("tool", Shape::Text),
    ("args", Shape::AnyMap),
    ("condition", Shape::Object("api.WorkflowCondition", CONDITION)),
    ("allow_failure", Shape::Flag),
    ("allowFailure", Shape::Flag),
    ("outputs", Shape::AnyMap),
    ("store", Shape::Flag),
    ("output", Shape::Flag),
    ("idempotent", Shape::Flag),
    ("description", Shape::Text),
    ("for_each", Shape::Object("api.WorkflowForEach", FOR_EACH)),
    ("forEach", Shape::Object("api.WorkflowForEach", FOR_EACH)),
    ("parallel", Shape::List("[]api.WorkflowStep", PLAIN)),
];
/// What a step inside another one may have.
const PLAIN: &[Field] = &[
    ("id", Shape::Text),
    ("tool", Shape::Text),
    ("args", Shape::AnyMap),
    ("condition", Shape::Object("api.WorkflowCondition", CONDITION)),
    ("allow_failure", Shape::Flag),
    ("allowFailure", Shape::Flag),
    ("outputs", Shape::AnyMap),
    ("store", Shape::Flag),
    ("output", Shape::Flag),
    ("idempotent", Shape::Flag),
    ("description", Shape::Text),
];
const FOR_EACH: &[Field] = &[
    ("items", Shape::Any),
    ("as", Shape::Text),
    ("steps", Shape::List("[]api.WorkflowStep", PLAIN)),
];
const CONDITION: &[Field] = &[
    ("template", Shape::Text),
    ("tool", Shape::Text),
    ("from_step", Shape::Text),
    ("fromStep", Shape::Text),
    ("args", Shape::AnyMap),
    ("expect", Shape::Object("api.WorkflowConditionExpectation", EXPECTATION)),
    ("expect_not", Shape::Object("api.WorkflowConditionExpectation", EXPECTATION)),
    ("expectNot", Shape::Object("api.WorkflowConditionExpectation", EXPECTATION)),
];
const EXPECTATION: &[Field] =
    &[("success", Shape::Flag), ("json_path", Shape::AnyMap), ("jsonPath", Shape::AnyMap)];

fn definition() -> Value {
    let text = |description: &str| json!({"type": "string", "description": description});
    let plain = step(&json!({}));
    let steps = step(&json!({
        "for_each": {"type": "object", "additionalProperties": false, "required": ["items", "steps"],
            "description": "In place of `tool`: do steps for each item of a list", "properties": {
            "items": {"description": "The list, or a template that is one: {{ .input.clusters }}"},
            "as": text("What an item is called: {{ .vars.<as> }}; `item` unless given"),
            "steps": {"type": "array", "items": plain},
        }},
        "parallel": {"type": "array", "items": plain,
            "description": "In place of `tool`: do steps at the same time"},
    }));
    json!({"type": "object", "required": ["name", "steps"], "properties": {
        "name": text("Name of the workflow; its tool is workflow_<name>"),
        "description": text("What it is for; agents find it by this"),
        "args": {"type": "object", "description": "What it takes, by name",
            "additionalProperties": {"type": "object", "additionalProperties": false, "required": ["type"], "properties": {
                "type": {"type": "string", "enum": ["string", "integer", "boolean", "number", "object", "array"]},
                "required": {"type": "boolean"},
                "default": {"description": "What holds when it is not given"},
                "description": text("What it is for"),
            }}},
        "steps": {"type": "array", "minItems": 1, "items": steps, "description": "What it does, in order"},
        "on_failure": {"type": "array", "items": plain, "description": "What it does when a step fails that must not"},
        "output": {"description": "What it answers in place of the usual: a value with templates inside"},
    }})
}

/// One step, with further properties.
fn step(more: &Value) -> Value {
    let text = |description: &str| json!({"type": "string", "description": description});
    let expectation = json!({"type": "object", "additionalProperties": false, "properties": {
        "success": {"type": "boolean", "description": "Whether the result is a good one"},
        "json_path": {"type": "object", "description": "Values by path: {\"pod.state\": \"ready\"}"},
    }});
    let mut properties = json!({
        "id": text("Its name; later steps see its result as {{ .results.<id> }}"),
        "tool": text("The tool it calls"),
        "args": {"type": "object", "description": "The tool's arguments, templates inside"},
        "condition": {"type": "object", "additionalProperties": false,
            "description": "When it is done: if a template is true, or a tool or an earlier step answers as expected",
            "properties": {
                "template": text("A template that is true or false"),
                "tool": {"type": "string"}, "args": {"type": "object"},
                "from_step": text("An earlier step"),
                "expect": expectation, "expect_not": expectation,
            }},
        "allow_failure": {"type": "boolean", "description": "Whether the workflow goes on when it fails"},
        "outputs": {"type": "object", "description": "Accepted for compatibility"},
        "store": {"type": "boolean", "description": "Whether its result is part of the answer"},
        "idempotent": {"type": "boolean", "description": "Whether doing it twice is as good as once"},
        "description": text("What it is for"),
    });
    let is_plain = more.as_object().is_none_or(Map::is_empty);
    if let (Some(properties), Some(more)) = (properties.as_object_mut(), more.as_object()) {
        properties.extend(more.clone());
    }
    let required: &[&str] = if is_plain { &["id", "tool"] } else { &["id"] };
    json!({"type": "object", "additionalProperties": false, "required": required, "properties": properties})
}

fn is_available(handle: &Handle, cx: CallContext<'_>, workflow: &Workflow) -> bool {
    let state = handle.state_of(cx.caller);
    workflow.is_available(|tool| is_shown(&state, tool))
}

fn list(handle: &Handle, cx: CallContext<'_>) -> String {
    let (view, state) = (handle.now(), handle.state_of(cx.caller));
    let shown = view.workflows.values().map(|workflow| {
        let mut shown = Map::new();
        let available = workflow.is_available(|tool| is_shown(&state, tool));
        shown.insert("available".to_owned(), available.into());
        if !workflow.spec.description.is_empty() {
            let description = workflow.spec.description.as_str();
            shown.insert("description".to_owned(), description.into());
        }
        shown.insert("name".to_owned(), workflow.name.as_str().into());
        Value::Object(shown)
    });
    object(&json!({"workflows": shown.collect::<Vec<_>>()}))
}

fn get(handle: &Handle, cx: CallContext<'_>, args: &Args) -> ToolReply {
    let name = args.text("name").ok_or("name is required")?;
    let view = handle.now();
    let workflow = view
        .workflows
        .get(name)
        .ok_or_else(|| format!("Failed to get workflow: {}", not_found(name)))?;
    let shown = workflow.shown(is_available(handle, cx, workflow));
    Ok(object(&json!({"workflow": shown, "yaml": shown_yaml(&workflow)})))
}

fn available(handle: &Handle, cx: CallContext<'_>, args: &Args) -> ToolReply {
    let name = args.text("name").ok_or("name argument is required")?;
    let view = handle.now();
    let workflow = view.workflows.get(name).ok_or_else(|| not_found(name))?;
    Ok(object(&json!({"available": is_available(handle, cx, workflow), "name": name})))
}

async fn create(handle: &Handle, args: Args) -> ToolReply {
    let request = args.strict("WorkflowCreateRequest", FIELDS)?;
    let failed = |text: String| format!("Tool execution failed: failed to create workflow: {text}");
    let (name, spec) = request::read(&request).map_err(|invalid| {
        tell_invalid(handle, &request, &invalid);
        failed(match invalid {
            Invalid::Form(text) => text,
            Invalid::Sense(text) => format!("validation failed: {text}"),
        })
    })?;
    let failed = |text: String| failed(format!("failed to create workflow: {text}"));
    match handle.edit(Edit::Workflow(Box::new(WorkflowEdit::Create(name.clone(), spec)))).await {
        Ok(()) => Ok("Workflow created successfully".to_owned()),
        Err(EditError::Exists(_)) => Err(failed(format!("{} already exists", resource(&name)))),
        Err(error) => Err(failed(error.to_string())),
    }
}

async fn update(handle: &Handle, args: Args) -> ToolReply {
    let request = args.strict("WorkflowUpdateRequest", FIELDS)?;
    let (name, spec) = request::read(&request).map_err(|invalid| {
        tell_invalid(handle, &request, &invalid);
        format!("Failed to update workflow: validation failed: {}", invalid.plain())
    })?;
    let failed =
        |text: String| format!("Failed to update workflow: failed to update workflow: {text}");
    match handle.edit(Edit::Workflow(Box::new(WorkflowEdit::Update(name.clone(), spec)))).await {
        Ok(()) => Ok(format!("Workflow '{name}' updated successfully")),
        Err(EditError::Unknown(_)) => Err(failed(format!("{} not found", resource(&name)))),
        Err(error) => Err(failed(error.to_string())),
    }
}

async fn delete(handle: &Handle, args: Args) -> ToolReply {
    let name = args.text("name").ok_or("name is required")?;
    let failed =
        |text: String| format!("Failed to delete workflow: failed to delete workflow: {text}");
    match handle.edit(Edit::Workflow(Box::new(WorkflowEdit::Delete(name.to_owned())))).await {
        Ok(()) => Ok(format!("Workflow '{name}' deleted successfully")),
        Err(EditError::Unknown(_)) => Err(failed(format!("{} not found", resource(name)))),
        Err(error) => Err(failed(error.to_string())),
    }
}

fn validate(handle: &Handle, cx: CallContext<'_>, args: Args) -> ToolReply {
    let request = args.strict("WorkflowValidateRequest", FIELDS)?;
    let (name, spec) = request::read(&request).map_err(|invalid| {
        tell_invalid(handle, &request, &invalid);
        format!("Validation failed: {}", invalid.plain())
    })?;
    let workflow = Workflow::new(name, "default", spec);
    let (view, state) = (handle.now(), handle.state_of(cx.caller));
    let surroundings = Surroundings {
        state: &state,
        workflows: &view.workflows,
        awaited: Vec::new(),
        looked_for: Cell::new(usize::MAX),
    };
    let mut lines = vec![format!("Validation successful for workflow {}", workflow.name)];
    for found in check(&workflow, &surroundings) {
        lines.push(format!("warning: {}: {}", found.path.join("."), found.message));
        lines.push(format!("hint: {}", found.hint));
    }
    Ok(lines.join("\n"))
}

fn tell_invalid(handle: &Handle, request: &Value, invalid: &Invalid) {
    let name = request.get("name").and_then(Value::as_str).unwrap_or_default();
    let view = handle.now();
    let namespace = view.settings.namespace();
    let reason = Reason::WorkflowValidationFailed;
    handle.journal.tell(reason, name, namespace, invalid.plain());
}

/// What the original calls a workflow in its store.
fn resource(name: &str) -> String {
    format!("workflows.muster.giantswarm.io \"{name}\"")
}
