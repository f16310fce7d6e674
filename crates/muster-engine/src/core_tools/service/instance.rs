//! `core_service_*` for services made from classes.

use muster_config::{schema::arguments, service::fields::SPEC};
use muster_core::{
    backend::CallContext,
    fields::{EMPTY, FALSE, Field, FieldTable, FieldType},
};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{Status, find, name};
use crate::{
    core_tools::{Args, CoreTool, ToolReply, mcpserver::named, object},
    handle::Handle,
    services::{Instance, NewService, ServiceError, missing_tools},
    status::moment,
};

pub(in crate::core_tools) const TOOLS: &[CoreTool] = &[
    CoreTool {
        name: "core_service_create",
        summary: "Make a service from a service class and start it. With persist it is there again \
                  after a restart of the gateway, and with autoStart it is started again then.",
        schema: || arguments(&[&NAME, &SPEC, &PERSIST], &["serviceClassName", "name"], true),
        run: |handle, cx, args| Box::pin(create(handle, cx, args)),
    },
    CoreTool {
        name: "core_service_delete",
        summary: "Stop a service made from a class, and take it away.",
        schema: || named("Name of the service"),
        run: |handle, cx, args| Box::pin(delete(handle, cx, args)),
    },
    CoreTool {
        name: "core_service_get",
        summary: "Show one service with all that is known about it.",
        schema: || named("Name of the service"),
        run: |handle, _, args| Box::pin(async move { get(handle, &args) }),
    },
    CoreTool {
        name: "core_service_validate",
        summary: "Check whether a service could be made, without making it.",
        schema: || arguments(&[&NAME, &SPEC, &DESCRIPTION], &["name", "serviceClassName"], true),
        run: |handle, _, args| Box::pin(async move { validate(handle, args) }),
    },
];

static NAME: FieldTable = FieldTable::new(
    "Service",
    "service",
    &[Field::required("name", FieldType::String, "Name of the service")],
);
static PERSIST: FieldTable = FieldTable::new(
    "Service",
    "service",
    &[Field::optional(
        "persist",
        FieldType::Boolean,
        FALSE,
        "Whether it is stored in a file, and exists again after a restart of the gateway",
    )],
);
static DESCRIPTION: FieldTable = FieldTable::new(
    "Service",
    "service",
    &[Field::optional("description", FieldType::String, EMPTY, "One line about it")],
);

/// When something that was never made was made.
const NEVER: &str = "0001-01-01T00:00:00Z";

/// A service as it is shown.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown<'a> {
    name: &'a str,
    service_class_name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    service_class_type: &'a str,
    args: Option<&'a Map<String, Value>>,
    enabled: bool,
    state: &'a str,
    health: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error: Option<&'a str>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    service_data: Map<String, Value>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    outputs: Map<String, Value>,
    created_at: String,
    updated_at: String,
}

fn shown(instance: &Instance, class_type: &str) -> String {
    object(&Shown {
        name: &instance.service.name,
        service_class_name: &instance.service.class,
        service_class_type: class_type,
        args: Some(&instance.service.args),
        enabled: false,
        state: instance.state.as_str(),
        health: instance.checks.health.as_str(),
        last_error: instance.error.as_deref(),
        service_data: instance.data(),
        outputs: instance.outputs.clone(),
        created_at: moment(instance.created),
        updated_at: moment(instance.updated),
    })
}

/// What kind of service it is: nothing is known once its class is gone.
fn class_type(handle: &Handle, instance: &Instance) -> &'static str {
    match handle.services.class(&instance.service.class) {
        Some(_) => "generic",
        None => "unknown",
    }
}

pub(super) fn status(handle: &Handle, instance: &Instance) -> Status {
    Status {
        name: instance.service.name.clone(),
        service_type: class_type(handle, instance),
        state: instance.state.as_str(),
        health: instance.checks.health.as_str(),
        error: instance.error.clone(),
        metadata: instance.data(),
        outputs: instance.outputs.clone(),
    }
}

/// Why something was not done, as it is said.
pub(super) fn unable(what: &str, name: &str, problem: &ServiceError) -> String {
    match problem {
        ServiceError::Unknown(_) => format!("Failed to {what} service: {problem}"),
        ServiceError::Refused(_) | ServiceError::Busy | ServiceError::Ending => {
            format!("Failed to {what} service: failed to {what} service {name}: {problem}")
        }
    }
}

async fn create(handle: &Handle, cx: CallContext<'_>, args: Args) -> ToolReply {
    let class = args.text("serviceClassName").ok_or("serviceClassName is required")?;
    let name = name(&args)?;
    let given = args.object("args").and_then(Value::as_object).cloned().unwrap_or_default();
    let order = NewService {
        class: class.to_owned(),
        name: name.to_owned(),
        args: given,
        auto_start: args.flag("autoStart"),
        persist: args.flag("persist"),
    };
    match handle.services.create(cx, order).await {
        Ok(instance) => Ok(shown(&instance, "serviceclass")),
        Err(problem) => Err(format!("Failed to create ServiceClass instance: {problem}")),
    }
}

async fn delete(handle: &Handle, cx: CallContext<'_>, args: Args) -> ToolReply {
    let name = name(&args)?;
    match handle.services.delete(cx, name).await {
        Ok(()) => Ok(format!("Successfully deleted ServiceClass instance '{name}'")),
        Err(ServiceError::Unknown(_)) => Err(format!(
            "Failed to delete ServiceClass instance: service '{name}' not found or cannot be deleted (static services cannot be deleted)"
        )),
        Err(problem) => Err(format!("Failed to delete ServiceClass instance: {problem}")),
    }
}

fn get(handle: &Handle, args: &Args) -> ToolReply {
    let name = name(args)?;
    if let Some(instance) = handle.services.get(name) {
        return Ok(shown(&instance, class_type(handle, &instance)));
    }
    let found = find(handle, name);
    let Some(Status { state, health, service_type, mut metadata, error, .. }) = found else {
        return Err(format!("Failed to get service: service '{name}' not found"));
    };
    metadata.insert("service_type".to_owned(), json!(service_type));
    Ok(object(&Shown {
        name,
        service_class_name: "",
        service_class_type: "",
        args: None,
        enabled: false,
        state,
        health,
        last_error: error.as_deref(),
        service_data: metadata,
        outputs: Map::new(),
        created_at: NEVER.to_owned(),
        updated_at: NEVER.to_owned(),
    }))
}

fn validate(handle: &Handle, args: Args) -> ToolReply {
    let given = args.strict("ServiceValidateRequest", &[&NAME, &SPEC, &DESCRIPTION])?;
    let text = |name: &str| given.get(name).and_then(Value::as_str).unwrap_or_default();
    let (name, class_name) = (text("name"), text("serviceClassName"));
    if name.is_empty() {
        return Err("Validation failed: name is required".to_owned());
    }
    if class_name.is_empty() {
        return Err("Validation failed: serviceClassName is required".to_owned());
    }
    let class = handle.services.class(class_name);
    let there =
        class.is_some_and(|class| missing_tools(&handle.state.borrow(), &class.spec).is_empty());
    match there {
        true => Ok(format!("Validation successful for service {name}")),
        false => Err(format!("Validation failed: ServiceClass '{class_name}' is not available")),
    }
}
