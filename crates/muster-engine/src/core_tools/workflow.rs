//! `core_workflow_*`: the definitions of workflows.

use std::sync::Arc;

use muster_api::{
    Availability,
    workflow::{WorkflowDefinition, WorkflowInfo, WorkflowList, WorkflowSummary},
};
use muster_config::{schema::arguments, workflow::shown_yaml};
use muster_core::{
    backend::CallContext,
    fields::{Field, FieldTable, FieldType, NONE},
};
use muster_workflow::{
    Workflow,
    check::check,
    fields::SPEC,
    request::{self, InvalidWorkflow},
};
use serde_json::{Value, json};

use super::{Args, CoreTool, Failure, Reply, ToolAudience, ToolReply, mcpserver::named, object};
use crate::{
    events::Reason,
    handle::Handle,
    reconcile::{Edit, EditError, Surroundings, WorkflowEdit},
    workflows::{missing_tools, not_found},
};

pub(super) const TOOLS: &[CoreTool] = &[
    CoreTool {
        name: "core_workflow_list",
        audience: ToolAudience::Everyone,
        effect: None,
        summary: "List the workflows with their descriptions, and whether all their tools can be called. \
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
        audience: ToolAudience::Everyone,
        effect: None,
        summary: "Show the definition of one workflow, as an object and as YAML.",
        schema: || named("Name of the workflow"),
        run: |handle, cx, args| Box::pin(async move { get(handle, cx, &args) }),
    },
    CoreTool {
        name: "core_workflow_create",
        audience: ToolAudience::Operators,
        effect: None,
        summary: "Save a task as a workflow: steps that call tools one after the other, with arguments \
                  and conditions written as Go templates ({{ .input.x }}, {{ .results.step.field }}). \
                  Its tool workflow_<name> can be called at once.",
        schema: || arguments(NEW_FIELDS, &["name"], true),
        run: |handle, cx, args| Box::pin(create(handle, cx, args)),
    },
    CoreTool {
        name: "core_workflow_update",
        audience: ToolAudience::Operators,
        effect: None,
        summary: "Replace the definition of a workflow as a whole.",
        schema: definition,
        run: |handle, cx, args| Box::pin(update(handle, cx, args)),
    },
    CoreTool {
        name: "core_workflow_delete",
        audience: ToolAudience::Operators,
        effect: None,
        summary: "Delete a workflow. The records of its runs stay.",
        schema: || named("Name of the workflow"),
        run: |handle, _, args| Box::pin(delete(handle, args)),
    },
    CoreTool {
        name: "core_workflow_validate",
        audience: ToolAudience::Everyone,
        effect: None,
        summary: "Check the definition of a workflow without storing it: its form, the tools it calls \
                  and their arguments, its templates and what they refer to.",
        schema: definition,
        run: |handle, cx, args| Box::pin(async move { validate(handle, cx, args) }),
    },
    CoreTool {
        name: "core_workflow_available",
        audience: ToolAudience::Everyone,
        effect: None,
        summary: "Check whether all tools of a workflow can be called.",
        schema: || named("Name of the workflow"),
        run: |handle, cx, args| Box::pin(async move { available(handle, cx, &args) }),
    },
];

static NAME: FieldTable = FieldTable::new(
    "Workflow",
    "workflow",
    &[
        Field::required(
            "name",
            FieldType::String,
            "Name of the workflow; its tool is workflow_<name>",
        ),
        Field::optional("version", FieldType::String, NONE, "Accepted and ignored").legacy(),
    ],
);

static FROM_RUN: FieldTable = FieldTable::new(
    "Workflow",
    "workflow",
    &[Field::optional(
        "from_run",
        FieldType::String,
        NONE,
        "Id of a run of unsaved steps (run_steps), in place of steps",
    )],
);

const FIELDS: &[&FieldTable] = &[&NAME, &SPEC];
const NEW_FIELDS: &[&FieldTable] = &[&NAME, &SPEC, &FROM_RUN];

fn definition() -> Value {
    arguments(FIELDS, &["name", "steps"], true)
}

fn list(handle: &Handle, cx: CallContext<'_>) -> Reply {
    let (view, state) = (handle.now(), handle.state_of(cx.caller));
    let summary = |workflow: &Arc<Workflow>| WorkflowSummary {
        available: missing_tools(workflow, &view.workflows, &state).is_empty(),
        description: workflow.spec.description.clone(),
        name: workflow.name.clone(),
    };
    object(&WorkflowList { workflows: view.workflows.values().map(summary).collect() })
}

fn get(handle: &Handle, cx: CallContext<'_>, args: &Args) -> ToolReply {
    let name = args.text("name").ok_or("name is required")?;
    let view = handle.now();
    let workflow = view.workflows.get(name).ok_or_else(|| {
        Failure::not_found(format!("Failed to get workflow: {}", not_found(name)))
    })?;
    let state = handle.state_of(cx.caller);
    let missing_tools = missing_tools(workflow, &view.workflows, &state);
    let explainer = handle.explainer(cx.caller);
    let (unavailable, reasons) =
        (explainer.servers(&missing_tools), explainer.reasons(&missing_tools));
    let definition = json!(workflow.shown(missing_tools.is_empty()));
    let definition: WorkflowDefinition = serde_json::from_value(definition)
        .map_err(|error| format!("Failed to get workflow: {error}"))?;
    let yaml = shown_yaml(workflow);
    Ok(object(&WorkflowInfo { workflow: definition, yaml, missing_tools, unavailable, reasons }))
}

fn available(handle: &Handle, cx: CallContext<'_>, args: &Args) -> ToolReply {
    let name = args.text("name").ok_or("name argument is required")?;
    let view = handle.now();
    let workflow = view.workflows.get(name).ok_or_else(|| Failure::not_found(not_found(name)))?;
    let state = handle.state_of(cx.caller);
    let missing_tools = missing_tools(workflow, &view.workflows, &state);
    let available = missing_tools.is_empty();
    let explainer = handle.explainer(cx.caller);
    let (unavailable, reasons) =
        (explainer.servers(&missing_tools), explainer.reasons(&missing_tools));
    let name = name.to_owned();
    Ok(object(&Availability { available, name, missing_tools, unavailable, reasons }))
}

async fn create(handle: &Handle, cx: CallContext<'_>, args: Args) -> ToolReply {
    let mut request = args.strict("WorkflowCreateRequest", NEW_FIELDS)?;
    let failed = |text: String| format!("Tool execution failed: failed to create workflow: {text}");
    if let Some(id) = request.as_object_mut().and_then(|request| request.remove("from_run")) {
        let id = id.as_str().unwrap_or_default();
        fill_in(handle, cx, &mut request, id).await.map_err(failed)?;
    }
    let (name, spec) = request::read(&request).map_err(|invalid| {
        tell_invalid(handle, &request, &invalid);
        failed(match invalid {
            InvalidWorkflow::Malformed(text) => text,
            InvalidWorkflow::Inconsistent(text) => format!("validation failed: {text}"),
        })
    })?;
    match handle.edit(Edit::Workflow(Box::new(WorkflowEdit::Create(name.clone(), spec)))).await {
        Ok(()) => Ok(with_findings("Workflow created successfully", handle, cx, &name)),
        Err(error) => {
            let text = match error {
                EditError::Exists(_) => format!("{} already exists", resource(&name)),
                error => error.to_string(),
            };
            tell(handle, Reason::WorkflowValidationFailed, &name, &text);
            Err(failed(text).into())
        }
    }
}

/// Adds the definition of an unsaved run to a request that has no definition.
async fn fill_in(
    handle: &Handle,
    cx: CallContext<'_>,
    request: &mut Value,
    id: &str,
) -> Result<(), String> {
    let record = handle.executions.get(id, cx.caller).await.map_err(|error| error.to_string())?;
    let Some(definition) = record.definition else {
        let name = record.workflow_name;
        return Err(format!("run {id} is one of the saved workflow {name}"));
    };
    if request.get("steps").is_some_and(|steps| !steps.is_null()) {
        return Err("give either from_run or steps".to_owned());
    }
    for (key, value) in definition {
        if let Some(request) = request.as_object_mut()
            && request.get(&key).is_none_or(Value::is_null)
        {
            request.insert(key, value);
        }
    }
    Ok(())
}

async fn update(handle: &Handle, cx: CallContext<'_>, args: Args) -> ToolReply {
    let request = args.strict("WorkflowUpdateRequest", FIELDS)?;
    let (name, spec) = request::read(&request).map_err(|invalid| {
        tell_invalid(handle, &request, &invalid);
        format!("Failed to update workflow: validation failed: {}", invalid.plain())
    })?;
    let failed = |text: String| format!("Failed to update workflow: {text}");
    match handle.edit(Edit::Workflow(Box::new(WorkflowEdit::Update(name.clone(), spec)))).await {
        Ok(()) => {
            let done = format!("Workflow '{name}' updated successfully");
            Ok(with_findings(&done, handle, cx, &name))
        }
        Err(error) => Err(not_written(handle, &name, &error, &failed)),
    }
}

async fn delete(handle: &Handle, args: Args) -> ToolReply {
    let name = args.text("name").ok_or("name is required")?;
    let failed = |text: String| format!("Failed to delete workflow: {text}");
    match handle.edit(Edit::Workflow(Box::new(WorkflowEdit::Delete(name.to_owned())))).await {
        Ok(()) => Ok(format!("Workflow '{name}' deleted successfully").into()),
        Err(error) => Err(not_written(handle, name, &error, &failed)),
    }
}

/// The failure of an edit of a workflow that should exist. It is also recorded as an event.
fn not_written(
    handle: &Handle,
    name: &str,
    error: &EditError,
    failed: &dyn Fn(String) -> String,
) -> Failure {
    let (text, is_unknown) = match error {
        EditError::Unknown(_) => (format!("{} not found", resource(name)), true),
        error => (error.to_string(), false),
    };
    tell(handle, Reason::WorkflowValidationFailed, name, &text);
    match is_unknown {
        true => Failure::not_found(failed(text)),
        false => failed(text).into(),
    }
}

fn validate(handle: &Handle, cx: CallContext<'_>, args: Args) -> ToolReply {
    let request = args.strict("WorkflowValidateRequest", FIELDS)?;
    let (name, spec) = request::read(&request).map_err(|invalid| {
        tell_invalid(handle, &request, &invalid);
        format!("Validation failed: {}", invalid.plain())
    })?;
    let workflow = Workflow::new(name, "default", spec);
    tell(handle, Reason::WorkflowValidationSucceeded, &workflow.name, "");
    let done = format!("Validation successful for workflow {}", workflow.name);
    Ok(findings(done, handle, cx, &workflow))
}

/// A confirmation, followed by the problems that keep the stored workflow from running.
fn with_findings(done: &str, handle: &Handle, cx: CallContext<'_>, name: &str) -> Reply {
    match handle.now().workflows.get(name) {
        Some(workflow) => findings(done.to_owned(), handle, cx, workflow),
        None => done.into(),
    }
}

fn findings(done: String, handle: &Handle, cx: CallContext<'_>, workflow: &Workflow) -> Reply {
    let (view, state) = (handle.now(), handle.state_of(cx.caller));
    let surroundings = Surroundings::now(&state, &view.workflows, usize::MAX);
    let mut lines = vec![done];
    for found in check(workflow, &surroundings) {
        lines.push(format!("warning: {}: {}", found.path.join("."), found.message));
        lines.push(format!("hint: {}", found.hint));
    }
    lines.join("\n").into()
}

fn tell_invalid(handle: &Handle, request: &Value, invalid: &InvalidWorkflow) {
    let name = request.get("name").and_then(Value::as_str).unwrap_or_default();
    tell(handle, Reason::WorkflowValidationFailed, name, invalid.plain());
}

fn tell(handle: &Handle, reason: Reason, name: &str, detail: &str) {
    handle.journal.tell(reason, name, handle.now().settings.namespace(), detail);
}

/// The name of a workflow in the errors of the original.
fn resource(name: &str) -> String {
    format!("workflows.muster.giantswarm.io \"{name}\"")
}
