//! `core_service_*` for services created from classes.

use muster_api::service::{ServiceInfo, ServiceStatus};
use muster_config::{schema::arguments, service::fields::SPEC};
use muster_core::{
    backend::CallContext,
    call::Role,
    fields::{EMPTY, FALSE, Field, FieldTable, FieldType},
};
use serde_json::{Value, json};

use super::{find, name};
use crate::{
    core_tools::{
        Args, CoreTool, Failure, Reply, ToolAudience, ToolReply, mcpserver::named, object,
    },
    handle::Handle,
    services::{Instance, NewService, ServiceError, missing_tools},
    status::moment,
};

pub(in crate::core_tools) const TOOLS: &[CoreTool] = &[
    CoreTool {
        name: "core_service_create",
        audience: ToolAudience::Operators,
        effect: None,
        summary: "Create a service from a service class and start it. With persist it survives a restart \
                  of the gateway, and with autoStart it is started again then.",
        schema: || arguments(&[&NAME, &SPEC, &PERSIST], &["serviceClassName", "name"], true),
        run: |handle, cx, args| Box::pin(create(handle, cx, args)),
    },
    CoreTool {
        name: "core_service_delete",
        audience: ToolAudience::Operators,
        effect: None,
        summary: "Stop and delete a service that was created from a class.",
        schema: || named("Name of the service"),
        run: |handle, cx, args| Box::pin(delete(handle, cx, args)),
    },
    CoreTool {
        name: "core_service_get",
        audience: ToolAudience::Everyone,
        effect: None,
        summary: "Show one service in full.",
        schema: || named("Name of the service"),
        run: |handle, cx, args| Box::pin(async move { get(handle, cx, &args) }),
    },
    CoreTool {
        name: "core_service_validate",
        audience: ToolAudience::Everyone,
        effect: None,
        summary: "Check whether a service could be created, without creating it.",
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

/// The creation time of a service that was not created from a class.
const NEVER: &str = "0001-01-01T00:00:00Z";

fn info(instance: &Instance, class_type: &str) -> Reply {
    object(&ServiceInfo {
        name: instance.service.name.clone(),
        service_class_name: instance.service.class.clone(),
        service_class_type: class_type.to_owned(),
        args: Some(instance.service.args.clone()),
        enabled: false,
        state: instance.state.into(),
        health: instance.checks.health,
        last_error: instance.error.clone(),
        service_data: instance.data(),
        outputs: instance.outputs.clone(),
        created_at: moment(instance.created),
        updated_at: moment(instance.updated),
    })
}

/// The type of a service; unknown once its class is deleted.
fn class_type(handle: &Handle, instance: &Instance) -> &'static str {
    match handle.services.class(&instance.service.class) {
        Some(_) => "generic",
        None => "unknown",
    }
}

pub(super) fn status(handle: &Handle, instance: &Instance) -> ServiceStatus {
    ServiceStatus {
        name: instance.service.name.clone(),
        service_type: class_type(handle, instance).to_owned(),
        state: instance.state.into(),
        health: instance.checks.health,
        error: instance.error.clone(),
        metadata: instance.data(),
        outputs: instance.outputs.clone(),
    }
}

/// The error of a failed operation.
pub(super) fn unable(what: &str, name: &str, problem: &ServiceError) -> Failure {
    match problem {
        ServiceError::Unknown(_) => {
            Failure::not_found(format!("Failed to {what} service: {problem}"))
        }
        ServiceError::Refused(_) | ServiceError::Busy | ServiceError::Ending => {
            format!("Failed to {what} service {name}: {problem}").into()
        }
    }
}

async fn create(handle: &Handle, cx: CallContext<'_>, args: Args) -> ToolReply {
    let class = args.text("serviceClassName").ok_or("serviceClassName is required")?;
    let name = name(&args)?;
    if args.flag("autoStart") && handle.role_of(cx.caller) == Role::Agent {
        // Later the gateway starts it in its own name rather than the caller's.
        return Err(
            "Failed to create ServiceClass instance: autoStart is for operators of the gateway; \
                    leave it out"
                .into(),
        );
    }
    let given = args.object("args").and_then(Value::as_object).cloned().unwrap_or_default();
    let order = NewService {
        class: class.to_owned(),
        name: name.to_owned(),
        args: given,
        auto_start: args.flag("autoStart"),
        persist: args.flag("persist"),
    };
    match handle.services.create(cx, order).await {
        Ok(instance) => Ok(info(&instance, "serviceclass")),
        Err(problem) => {
            let said = format!("Failed to create ServiceClass instance: {problem}");
            let class = handle.services.class(class);
            let missing = class.map(|class| missing_tools(&handle.state.borrow(), &class.spec));
            let missing = missing.unwrap_or_default();
            let hints = handle.explainer(cx.caller).hints(&missing);
            Err([vec![said], hints].concat().join("\n").into())
        }
    }
}

async fn delete(handle: &Handle, cx: CallContext<'_>, args: Args) -> ToolReply {
    let name = name(&args)?;
    match handle.services.delete(cx, name).await {
        Ok(()) => Ok(format!("Successfully deleted ServiceClass instance '{name}'").into()),
        Err(ServiceError::Unknown(_)) => Err(Failure::not_found(format!(
            "Failed to delete ServiceClass instance: service '{name}' not found or cannot be deleted (static services cannot be deleted)"
        ))),
        Err(problem) => Err(format!("Failed to delete ServiceClass instance: {problem}").into()),
    }
}

fn get(handle: &Handle, cx: CallContext<'_>, args: &Args) -> ToolReply {
    let name = name(args)?;
    if let Some(instance) = handle.services.get(name) {
        return Ok(info(&instance, class_type(handle, &instance)));
    }
    let found = find(handle, cx.caller, name);
    let Some(ServiceStatus { state, health, service_type, mut metadata, error, .. }) = found else {
        return Err(Failure::not_found(format!(
            "Failed to get service: service '{name}' not found"
        )));
    };
    metadata.insert("service_type".to_owned(), json!(service_type));
    Ok(object(&ServiceInfo {
        name: name.to_owned(),
        state,
        health,
        last_error: error,
        service_data: metadata,
        created_at: NEVER.to_owned(),
        updated_at: NEVER.to_owned(),
        ..ServiceInfo::default()
    }))
}

fn validate(handle: &Handle, args: Args) -> ToolReply {
    let given = args.strict("ServiceValidateRequest", &[&NAME, &SPEC, &DESCRIPTION])?;
    let text = |name: &str| given.get(name).and_then(Value::as_str).unwrap_or_default();
    let (name, class_name) = (text("name"), text("serviceClassName"));
    if name.is_empty() {
        return Err("Validation failed: name is required".into());
    }
    if class_name.is_empty() {
        return Err("Validation failed: serviceClassName is required".into());
    }
    let class = handle.services.class(class_name);
    let there =
        class.is_some_and(|class| missing_tools(&handle.state.borrow(), &class.spec).is_empty());
    match there {
        true => Ok(format!("Validation successful for service {name}").into()),
        false => {
            Err(format!("Validation failed: ServiceClass '{class_name}' is not available").into())
        }
    }
}
