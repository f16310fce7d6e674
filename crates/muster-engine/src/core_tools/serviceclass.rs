//! `core_serviceclass_*`: the definitions of service classes.

mod info;

use muster_api::{
    Availability,
    service_class::{ServiceClassInfo, ServiceClassList},
};
use muster_config::{schema::arguments, serviceclass::fields::SPEC};
use muster_core::{
    backend::CallContext,
    fields::{Field, FieldTable, FieldType, NONE},
};
use serde_json::json;

use self::info::info;
use super::{
    Args, CoreTool, Failure, Reply, ToolAudience, ToolReply, args::unfit, mcpserver::named, object,
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
        audience: ToolAudience::Everyone,
        effect: None,
        summary: "List the service classes with their definitions, and whether their tools can be called.",
        schema: || json!({"type": "object"}),
        run: |handle, _, _| Box::pin(async { Ok(list(handle)) }),
    },
    CoreTool {
        name: "core_serviceclass_get",
        audience: ToolAudience::Everyone,
        effect: None,
        summary: "Show one service class, and whether its tools can be called.",
        schema: || named("Name of the service class"),
        run: |handle, cx, args| Box::pin(async move { get(handle, cx, &args) }),
    },
    CoreTool {
        name: "core_serviceclass_available",
        audience: ToolAudience::Everyone,
        effect: None,
        summary: "Check whether all tools of a service class can be called, so that services can be created from it.",
        schema: || named("Name of the service class"),
        run: |handle, cx, args| Box::pin(async move { available(handle, cx, &args) }),
    },
    CoreTool {
        name: "core_serviceclass_validate",
        audience: ToolAudience::Everyone,
        effect: None,
        summary: "Check the definition of a service class without storing it.",
        schema: || arguments(FIELDS, &["name", "serviceConfig"], true),
        run: |handle, _, args| Box::pin(async move { validate(handle, args) }),
    },
    CoreTool {
        name: "core_serviceclass_create",
        audience: ToolAudience::Operators,
        effect: None,
        summary: "Add a service class: which tools start, stop and check its services. Create services \
                  from it with core_service_create.",
        schema: || arguments(FIELDS, &["name", "serviceConfig"], true),
        run: |handle, _, args| Box::pin(create(handle, args)),
    },
    CoreTool {
        name: "core_serviceclass_update",
        audience: ToolAudience::Operators,
        effect: None,
        summary: "Change a service class. Fields that are not given keep their values; `args` and \
                  `serviceConfig` are replaced as a whole. Running services are not affected.",
        schema: || arguments(FIELDS, &["name"], false),
        run: |handle, _, args| Box::pin(update(handle, args)),
    },
    CoreTool {
        name: "core_serviceclass_delete",
        audience: ToolAudience::Operators,
        effect: None,
        summary: "Delete a service class. Services created from it keep running.",
        schema: || named("Name of the service class"),
        run: |handle, _, args| Box::pin(delete(handle, args)),
    },
];

static NAME: FieldTable = FieldTable::new(
    "ServiceClass",
    "service class",
    &[
        Field::required("name", FieldType::String, "Name of the service class"),
        Field::optional("version", FieldType::String, NONE, "Accepted and ignored").legacy(),
    ],
);

const FIELDS: &[&FieldTable] = &[&NAME, &SPEC];

fn name(args: &Args) -> Result<&str, String> {
    args.text("name").ok_or_else(|| "name argument is required".to_owned())
}

fn list(handle: &Handle) -> Reply {
    let (view, state) = (handle.now(), handle.state.borrow().clone());
    let classes: Vec<ServiceClassInfo> =
        view.classes.values().map(|file| info(&file.class, &state)).collect();
    let total = classes.len();
    let service_classes = Some(classes).filter(|classes| !classes.is_empty());
    object(&ServiceClassList { mode: "filesystem".to_owned(), service_classes, total })
}

fn get(handle: &Handle, cx: CallContext<'_>, args: &Args) -> ToolReply {
    let name = name(args)?;
    match handle.services.class(name) {
        Some(class) => {
            let info = info(&class, &handle.state.borrow());
            // Only name servers that the caller may use; the existence of others is a secret.
            let explainer = handle.explainer(cx.caller);
            let unavailable = explainer.servers(&info.missing_tools);
            let reasons = explainer.reasons(&info.missing_tools);
            Ok(object(&ServiceClassInfo { unavailable, reasons, ..info }))
        }
        None => Err(Failure::not_found(format!(
            "Failed to get ServiceClass: service class {name} not found"
        ))),
    }
}

fn available(handle: &Handle, cx: CallContext<'_>, args: &Args) -> ToolReply {
    let name = name(args)?;
    let class = handle.services.class(name);
    let missing = class.map(|class| missing_tools(&handle.state.borrow(), &class.spec));
    let available = missing.as_ref().is_some_and(Vec::is_empty);
    let missing_tools = missing.unwrap_or_default();
    let explainer = handle.explainer(cx.caller);
    let (unavailable, reasons) =
        (explainer.servers(&missing_tools), explainer.reasons(&missing_tools));
    let name = name.to_owned();
    Ok(object(&Availability { available, name, missing_tools, unavailable, reasons }))
}

fn draft(args: Args, request: &str) -> Result<ClassDraft, Failure> {
    Ok(serde_json::from_value(args.strict(request, FIELDS)?).map_err(unfit)?)
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
            Ok(format!("Validation successful for ServiceClass {name}").into())
        }
        Err(invalid) => {
            tell(Reason::ServiceClassValidationFailed, &invalid.to_string());
            Err(format!("Validation failed: {invalid}").into())
        }
    }
}

/// The message for a failed edit. An invalid definition is also recorded as an event.
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
        Ok(()) => Ok(format!("ServiceClass '{name}' created successfully").into()),
        Err(error) => Err(refused(handle, &name, error, "create").into()),
    }
}

async fn update(handle: &Handle, args: Args) -> ToolReply {
    let draft = draft(args, "ServiceClassUpdateRequest")?;
    let name = draft.name.clone();
    if name.is_empty() {
        return Err("Invalid ServiceClass definition: name is required".into());
    }
    match handle.edit(Edit::Class(Box::new(ClassEdit::Update(draft)))).await {
        Ok(()) => Ok(format!("ServiceClass '{name}' updated successfully").into()),
        Err(error) => Err(refused(handle, &name, error, "update").into()),
    }
}

async fn delete(handle: &Handle, args: Args) -> ToolReply {
    let name = name(&args)?;
    match handle.edit(Edit::Class(Box::new(ClassEdit::Delete(name.to_owned())))).await {
        Ok(()) => Ok(format!("ServiceClass '{name}' deleted successfully").into()),
        Err(error) => Err(format!("Failed to delete ServiceClass: {error}").into()),
    }
}
