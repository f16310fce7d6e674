//! The protocol's own methods for resources and prompts.

use std::borrow::Cow;

use muster_core::{
    backend::{ResourceOperation, ResourceRequest},
    call::CallError,
    catalog::{CatalogItem, CatalogSnapshot},
    client::Continuation,
    json::{Raw, RawObject, raw},
    name::BackendName,
    request::{CacheControl, RequestError, Response},
    text::shortened,
};

use super::reply;
use crate::{
    dispatch::GatewaySnapshot,
    surface::{
        SurfaceContext,
        resource_owner::{ResourceOwnerError, resource_owner},
    },
};

pub(super) fn resources(catalog: &CatalogSnapshot) -> Vec<Raw> {
    catalog.resources().map(|resource| definition(resource, "uri")).collect()
}

pub(super) fn templates(catalog: &CatalogSnapshot) -> Vec<Raw> {
    catalog.templates().map(|template| definition(template, "uriTemplate")).collect()
}

pub(super) fn prompts(catalog: &CatalogSnapshot) -> Vec<Raw> {
    catalog.prompts().map(|prompt| definition(prompt, "name")).collect()
}

/// A definition as its backend wrote it, except for the name that clients use.
fn definition(listed: &CatalogItem, key: &'static str) -> Raw {
    if listed.name == listed.local_name {
        return listed.definition.as_ref().to_owned();
    }
    let Some(mut object) = RawObject::parse(&listed.definition) else {
        return listed.definition.as_ref().to_owned();
    };
    object.set_value(key, &*listed.name);
    object.to_raw()
}

/// The cache control of reads, which are never cached: a backend does not say when a resource changes.
const READ_KEEP: CacheControl = CacheControl { ttl_ms: 0, shared: false };

/// Passes a request on to the backend that has the resource or prompt.
pub(super) async fn ask(
    cx: SurfaceContext<'_>,
    operation: ResourceOperation,
    meta: Option<Raw>,
    continuation: Continuation,
) -> Result<Response, RequestError> {
    let is_read = matches!(operation, ResourceOperation::Read { .. });
    let (backend, operation) = addressed(cx.snapshot, operation)?;
    let ask = ResourceRequest { operation, meta, continuation };
    let outcome = cx.ask(&backend, ask).await.map_err(fault)?;
    Ok(match reply(outcome) {
        Response::Done { result, .. } => {
            Response::Done { result, cache: is_read.then_some(READ_KEEP) }
        }
        needs @ Response::InputRequired(_) => needs,
    })
}

fn fault(error: CallError) -> RequestError {
    match error {
        CallError::Upstream { code, message, data } => {
            RequestError::Upstream { code, message, data }
        }
        error => RequestError::Internal(error.to_string()),
    }
}

/// The backend of a request, and the request in that backend's own names.
fn addressed(
    state: &GatewaySnapshot,
    operation: ResourceOperation,
) -> Result<(BackendName, ResourceOperation), RequestError> {
    let catalog = &state.catalog;
    match operation {
        ResourceOperation::Read { uri } => {
            resource(state, &uri, |uri| ResourceOperation::Read { uri })
        }
        ResourceOperation::Subscribe { uri } => {
            resource(state, &uri, |uri| ResourceOperation::Subscribe { uri })
        }
        ResourceOperation::Unsubscribe { uri } => {
            resource(state, &uri, |uri| ResourceOperation::Unsubscribe { uri })
        }
        ResourceOperation::Prompt { name, arguments } => {
            let prompt = prompt(catalog, &name)?;
            let name = prompt.local_name.to_string();
            Ok((prompt.backend.clone(), ResourceOperation::Prompt { name, arguments }))
        }
        ResourceOperation::Complete { params } => complete(catalog, &params),
    }
}

fn resource(
    state: &GatewaySnapshot,
    uri: &str,
    ask: impl Fn(String) -> ResourceOperation,
) -> Result<(BackendName, ResourceOperation), RequestError> {
    match resource_owner(state, uri) {
        Ok((backend, local)) => Ok((backend.clone(), ask(local))),
        Err(ResourceOwnerError::Unknown) => Err(not_found(uri)),
        Err(ambiguous @ ResourceOwnerError::Ambiguous(_)) => {
            Err(RequestError::InvalidParams(ambiguous.to_string()))
        }
    }
}

fn not_found(uri: &str) -> RequestError {
    RequestError::ResourceNotFound { uri: shortened(uri).into_owned() }
}

fn prompt<'a>(catalog: &'a CatalogSnapshot, name: &str) -> Result<&'a CatalogItem, RequestError> {
    catalog.prompts().find(|prompt| *prompt.name == *name).ok_or_else(|| {
        RequestError::InvalidParams(format!("Prompt not found: {}", shortened(name)))
    })
}

/// A completion refers to a prompt by name or to a template by URI.
fn complete(
    catalog: &CatalogSnapshot,
    params: &Raw,
) -> Result<(BackendName, ResourceOperation), RequestError> {
    let invalid =
        || RequestError::InvalidParams("`ref` must name a prompt or a resource".to_owned());
    let mut members = RawObject::parse(params).ok_or_else(invalid)?;
    let reference = members.get("ref").ok_or_else(invalid)?.to_owned();
    let mut object = RawObject::parse(&reference).ok_or_else(invalid)?;
    let backend = if let Some(name) = object.get_text("name") {
        let prompt = prompt(catalog, &name)?;
        object.set("name", Cow::Owned(raw(&*prompt.local_name)));
        prompt.backend.clone()
    } else {
        let uri = object.get_text("uri").ok_or_else(invalid)?;
        let template = catalog.templates().find(|template| *template.name == *uri);
        let owner = template.map(|template| &template.backend);
        owner.or_else(|| catalog.resource_backend(&uri)).ok_or_else(|| not_found(&uri))?.clone()
    };
    let reference = object.to_raw();
    members.set("ref", Cow::Owned(reference));
    Ok((backend, ResourceOperation::Complete { params: members.to_raw() }))
}
