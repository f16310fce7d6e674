//! `core_serviceclass_*`: the definitions that services are made from.

mod shown;

use serde_json::{Value, json};

use self::shown::shown;
use super::{
    Args, CoreTool, ToolReply,
    args::{Field, Shape, unfit},
    mcpserver::named,
    object,
};
use crate::{
    events::Reason,
    handle::Handle,
    reconcile::{ClassDraft, ClassEdit, ClassError, Edit, EditError},
    services::missing_tools,
};

pub(super) const TOOLS: &[CoreTool] = &[
    CoreTool {
        name: "core_serviceclass_list",
        summary: "List the service classes with their definitions, and whether their tools are there.",
        schema: || json!({"type": "object"}),
        run: |handle, _, _| Box::pin(async { Ok(list(handle)) }),
    },
    CoreTool {
        name: "core_serviceclass_get",
        summary: "Show one service class, and whether its tools are there.",
        schema: || named("Name of the service class"),
        run: |handle, _, args| Box::pin(async move { get(handle, &args) }),
    },
    CoreTool {
        name: "core_serviceclass_available",
        summary: "Say whether all tools of a service class are there, so that services can be made from it.",
        schema: || named("Name of the service class"),
        run: |handle, _, args| Box::pin(async move { available(handle, &args) }),
    },
    CoreTool {
        name: "core_serviceclass_validate",
        summary: "Check the definition of a service class without storing it.",
        schema: || definition(&["name", "serviceConfig"]),
        run: |handle, _, args| Box::pin(async move { validate(handle, args) }),
    },
    CoreTool {
        name: "core_serviceclass_create",
        summary: "Add a service class: which tools start, stop and watch its services. Make services \
                  from it with core_service_create.",
        schema: || definition(&["name", "serviceConfig"]),
        run: |handle, _, args| Box::pin(create(handle, args)),
    },
    CoreTool {
        name: "core_serviceclass_update",
        summary: "Change a service class. What is not given stays; `args` and `serviceConfig` are \
                  replaced as a whole. Services that run are not touched.",
        schema: || definition(&["name"]),
        run: |handle, _, args| Box::pin(update(handle, args)),
    },
    CoreTool {
        name: "core_serviceclass_delete",
        summary: "Take a service class away. Services made from it go on.",
        schema: || named("Name of the service class"),
        run: |handle, _, args| Box::pin(delete(handle, args)),
    },
];

const FIELDS: &[Field] = &[
    ("name", Shape::Text),
    // Old callers send it; it never meant anything.
    ("version", Shape::Text),
    ("description", Shape::Text),
    ("args", Shape::MapOf("map[string]api.ArgDefinition", ARG)),
    ("serviceConfig", Shape::Object("api.ServiceConfig", CONFIG)),
];
const ARG: &[Field] = &[
    ("type", Shape::Text),
    ("required", Shape::Flag),
    ("default", Shape::Any),
    ("description", Shape::Text),
];
const CONFIG: &[Field] = &[
    ("serviceType", Shape::Text),
    ("defaultName", Shape::Text),
    ("dependencies", Shape::Texts),
    ("lifecycleTools", Shape::Object("api.LifecycleTools", LIFECYCLE)),
    ("healthCheck", Shape::Object("api.HealthCheckConfig", HEALTH)),
    ("timeout", Shape::Object("api.TimeoutConfig", TIMEOUT)),
    ("outputs", Shape::AnyMap),
];
const LIFECYCLE: &[Field] = &[
    ("start", Shape::Object("api.ToolCall", TOOL)),
    ("stop", Shape::Object("api.ToolCall", TOOL)),
    ("restart", Shape::Object("api.ToolCall", TOOL)),
    ("healthCheck", Shape::Object("api.HealthCheckToolCall", HEALTH_TOOL)),
    ("status", Shape::Object("api.ToolCall", TOOL)),
];
const TOOL: &[Field] =
    &[("tool", Shape::Text), ("args", Shape::AnyMap), ("outputs", Shape::TextMap)];
const HEALTH_TOOL: &[Field] = &[
    ("tool", Shape::Text),
    ("args", Shape::AnyMap),
    ("expect", Shape::Object("api.HealthCheckExpectation", EXPECT)),
    ("expect_not", Shape::Object("api.HealthCheckExpectation", EXPECT)),
    ("expectNot", Shape::Object("api.HealthCheckExpectation", EXPECT)),
];
const EXPECT: &[Field] =
    &[("success", Shape::Flag), ("json_path", Shape::AnyMap), ("jsonPath", Shape::AnyMap)];
const HEALTH: &[Field] = &[
    ("enabled", Shape::Flag),
    ("interval", Shape::Span),
    ("failureThreshold", Shape::Whole),
    ("successThreshold", Shape::Whole),
];
const TIMEOUT: &[Field] =
    &[("create", Shape::Span), ("delete", Shape::Span), ("healthCheck", Shape::Span)];

fn definition(required: &[&str]) -> Value {
    let text = |description: &str| json!({"type": "string", "description": description});
    let tool = |description: &str| {
        json!({"type": "object", "required": ["tool"], "description": description, "properties": {
            "tool": text("Name of the tool"),
            "args": {"type": "object", "description": "Its arguments; texts may refer to `{{ .name }}`, `{{ .args.x }}`, `{{ .start.x }}`"},
            "outputs": {"type": "object", "additionalProperties": {"type": "string"}, "description": "What to keep of its JSON answer: name to dot path"},
        }})
    };
    let expect = json!({"type": "object", "properties": {
        "success": {"type": "boolean"}, "json_path": {"type": "object", "description": "Dot path to value"},
    }});
    let nanoseconds = |description: &str| json!({"type": "integer", "description": format!("{description}, in nanoseconds")});
    json!({"type": "object", "required": required, "properties": {
        "name": text("Name of the service class"),
        "description": text("One line about it"),
        "args": {"type": "object", "description": "What services are made with, by name", "additionalProperties": {
            "type": "object", "required": ["type"], "properties": {
                "type": {"type": "string", "enum": ["string", "integer", "boolean", "number", "object", "array"]},
                "required": {"type": "boolean"},
                "default": {"description": "The value when none is given"},
                "description": {"type": "string"},
            }}},
        "serviceConfig": {"type": "object", "required": ["lifecycleTools"], "description": "How services are run", "properties": {
            "serviceType": text("Accepted and ignored"),
            "defaultName": text("Name to propose for services"),
            "dependencies": {"type": "array", "items": {"type": "string"}, "description": "Services, servers or classes that must be up first"},
            "lifecycleTools": {"type": "object", "required": ["start", "stop"], "properties": {
                "start": tool("Starts a service"),
                "stop": tool("Stops it"),
                "restart": tool("Restarts it; without one it is stopped and started"),
                "status": tool("Says more about it when it is asked for"),
                "healthCheck": {"type": "object", "required": ["tool"], "description": "Says how well it is", "properties": {
                    "tool": text("Name of the tool"), "args": {"type": "object"}, "expect": expect, "expect_not": expect,
                }},
            }},
            "healthCheck": {"type": "object", "description": "How often the health tool is called", "properties": {
                "enabled": {"type": "boolean", "default": false},
                "interval": nanoseconds("Between two checks; 30 seconds unless given"),
                "failureThreshold": {"type": "integer", "description": "Bad checks in a row until it is unhealthy; 3 unless given"},
                "successThreshold": {"type": "integer", "description": "Good checks in a row until it is healthy again; 1 unless given"},
            }},
            "timeout": {"type": "object", "description": "How long tools may take; 10 seconds unless given", "properties": {
                "create": nanoseconds("Starting"), "delete": nanoseconds("Stopping"), "healthCheck": nanoseconds("A check"),
            }},
            "outputs": {"type": "object", "description": "What a service shows once it runs: name to template"},
        }},
    }})
}

fn name(args: &Args) -> Result<&str, String> {
    args.text("name").ok_or_else(|| "name argument is required".to_owned())
}

fn list(handle: &Handle) -> String {
    let (view, state) = (handle.now(), handle.state.borrow().clone());
    let classes: Vec<Value> =
        view.classes.values().map(|file| shown(&file.class, &state)).collect();
    let total = classes.len();
    let classes = if classes.is_empty() { Value::Null } else { Value::Array(classes) };
    object(&json!({"mode": "filesystem", "serviceClasses": classes, "total": total}))
}

fn get(handle: &Handle, args: &Args) -> ToolReply {
    let name = name(args)?;
    match handle.services.class(name) {
        Some(class) => Ok(object(&shown(&class, &handle.state.borrow()))),
        None => Err(format!("Failed to get ServiceClass: service class {name} not found")),
    }
}

fn available(handle: &Handle, args: &Args) -> ToolReply {
    let name = name(args)?;
    let class = handle.services.class(name);
    let available =
        class.is_some_and(|class| missing_tools(&handle.state.borrow(), &class.spec).is_empty());
    Ok(object(&json!({"available": available, "name": name})))
}

fn draft(args: Args, request: &str) -> Result<ClassDraft, String> {
    serde_json::from_value(args.strict(request, FIELDS)?).map_err(unfit)
}

fn validate(handle: &Handle, args: Args) -> ToolReply {
    let draft = draft(args, "ServiceClassValidateRequest")?;
    let name = draft.name.clone();
    let view = handle.now();
    let namespace = view.settings.namespace();
    let tell = |reason: Reason, detail: &str| handle.journal.tell(reason, &name, namespace, detail);
    match draft.create(namespace) {
        Ok(_) => {
            tell(Reason::ServiceClassValidated, "");
            Ok(format!("Validation successful for ServiceClass {name}"))
        }
        Err(invalid) => {
            tell(Reason::ServiceClassValidationFailed, &invalid.to_string());
            Err(format!("Validation failed: {invalid}"))
        }
    }
}

/// Tells what was wrong with a definition, and says it.
fn refused(handle: &Handle, name: &str, error: EditError, failed: &str) -> String {
    match error {
        EditError::Class(ClassError::Invalid(invalid)) => {
            let view = handle.now();
            let (reason, detail) = (Reason::ServiceClassValidationFailed, invalid.to_string());
            handle.journal.tell(reason, name, view.settings.namespace(), &detail);
            format!("Invalid ServiceClass definition: {invalid}")
        }
        EditError::Class(error @ ClassError::Exists(_)) => error.to_string(),
        error => format!("Failed to {failed} ServiceClass: {error}"),
    }
}

async fn create(handle: &Handle, args: Args) -> ToolReply {
    let draft = draft(args, "ServiceClassCreateRequest")?;
    let name = draft.name.clone();
    match handle.edit(Edit::Class(Box::new(ClassEdit::Create(draft)))).await {
        Ok(()) => Ok(format!("ServiceClass '{name}' created successfully")),
        Err(error) => Err(refused(handle, &name, error, "create")),
    }
}

async fn update(handle: &Handle, args: Args) -> ToolReply {
    let draft = draft(args, "ServiceClassUpdateRequest")?;
    let name = draft.name.clone();
    if name.is_empty() {
        return Err("Invalid ServiceClass definition: name is required".to_owned());
    }
    match handle.edit(Edit::Class(Box::new(ClassEdit::Update(draft)))).await {
        Ok(()) => Ok(format!("ServiceClass '{name}' updated successfully")),
        Err(error) => Err(refused(handle, &name, error, "update")),
    }
}

async fn delete(handle: &Handle, args: Args) -> ToolReply {
    let name = name(&args)?;
    match handle.edit(Edit::Class(Box::new(ClassEdit::Delete(name.to_owned())))).await {
        Ok(()) => Ok(format!("ServiceClass '{name}' deleted successfully")),
        Err(error) => Err(format!("Failed to delete ServiceClass: {error}")),
    }
}
