//! Resources and prompts of backends, under the protocol's own methods.

use std::borrow::Cow;

use muster_core::{
    backend::{Ask, What},
    call::CallError,
    catalog::{Listed, Snapshot},
    client::Continuation,
    json::{Object, Raw, raw},
    name::BackendName,
    request::{Fault, Keep, Reply},
};

use super::reply;
use crate::surface::SurfaceContext;

pub(super) fn resources(catalog: &Snapshot) -> Vec<Raw> {
    catalog.resources().map(|resource| definition(resource, "uri")).collect()
}

pub(super) fn templates(catalog: &Snapshot) -> Vec<Raw> {
    catalog.templates().map(|template| definition(template, "uriTemplate")).collect()
}

pub(super) fn prompts(catalog: &Snapshot) -> Vec<Raw> {
    catalog.prompts().map(|prompt| definition(prompt, "name")).collect()
}

/// A definition as its backend wrote it, except for the name that clients use.
fn definition(listed: &Listed, key: &'static str) -> Raw {
    if listed.name == listed.local_name {
        return listed.definition.as_ref().to_owned();
    }
    let Some(mut object) = Object::parse(&listed.definition) else {
        return listed.definition.as_ref().to_owned();
    };
    object.set_value(key, &*listed.name);
    object.to_raw()
}

/// What a read may be kept for: nobody knows when a resource changes.
const READ_KEEP: Keep = Keep { ttl_ms: 0, shared: false };

/// Takes a question to the backend it is for.
pub(super) async fn ask(
    cx: SurfaceContext<'_>,
    what: What,
    meta: Option<Raw>,
    continuation: Continuation,
) -> Result<Reply, Fault> {
    let is_read = matches!(what, What::Read { .. });
    let (backend, what) = addressed(&cx.snapshot.catalog, what)?;
    let ask = Ask { what, meta, continuation };
    let outcome = cx.ask(&backend, ask).await.map_err(fault)?;
    Ok(match reply(outcome) {
        Reply::Done { result, .. } => Reply::Done { result, keep: is_read.then_some(READ_KEEP) },
        needs @ Reply::NeedsInput(_) => needs,
    })
}

fn fault(error: CallError) -> Fault {
    match error {
        CallError::Refused { code, message, data } => Fault::Passed { code, message, data },
        error => Fault::Internal(error.to_string()),
    }
}

/// Whom a question is for, and the same question in that backend's own names.
fn addressed(catalog: &Snapshot, what: What) -> Result<(BackendName, What), Fault> {
    match what {
        What::Read { uri } => resource(catalog, uri, |uri| What::Read { uri }),
        What::Subscribe { uri } => resource(catalog, uri, |uri| What::Subscribe { uri }),
        What::Unsubscribe { uri } => resource(catalog, uri, |uri| What::Unsubscribe { uri }),
        What::Prompt { name, arguments } => {
            let prompt = prompt(catalog, &name)?;
            let name = prompt.local_name.to_string();
            Ok((prompt.backend.clone(), What::Prompt { name, arguments }))
        }
        What::Complete { params } => complete(catalog, &params),
    }
}

fn resource(
    catalog: &Snapshot,
    uri: String,
    ask: impl Fn(String) -> What,
) -> Result<(BackendName, What), Fault> {
    let listed = catalog.resources().find(|resource| *resource.name == *uri);
    match (listed, catalog.resource_owner(&uri)) {
        (Some(listed), _) => Ok((listed.backend.clone(), ask(listed.local_name.to_string()))),
        (None, Some(owner)) => Ok((owner.clone(), ask(uri))),
        (None, None) => Err(Fault::NoResource { uri }),
    }
}

fn prompt<'a>(catalog: &'a Snapshot, name: &str) -> Result<&'a Listed, Fault> {
    catalog
        .prompts()
        .find(|prompt| *prompt.name == *name)
        .ok_or_else(|| Fault::InvalidParams(format!("Prompt not found: {name}")))
}

/// A completion refers to a prompt by name or to a template by address.
fn complete(catalog: &Snapshot, params: &Raw) -> Result<(BackendName, What), Fault> {
    let invalid = || Fault::InvalidParams("`ref` must name a prompt or a resource".to_owned());
    let mut members = Object::parse(params).ok_or_else(invalid)?;
    let reference = members.get("ref").ok_or_else(invalid)?.to_owned();
    let mut object = Object::parse(&reference).ok_or_else(invalid)?;
    let backend = if let Some(name) = object.get_text("name") {
        let prompt = prompt(catalog, &name)?;
        object.set("name", Cow::Owned(raw(&*prompt.local_name)));
        prompt.backend.clone()
    } else {
        let uri = object.get_text("uri").ok_or_else(invalid)?;
        let template = catalog.templates().find(|template| *template.name == *uri);
        let owner = template.map(|template| &template.backend);
        owner.or_else(|| catalog.resource_owner(&uri)).ok_or(Fault::NoResource { uri })?.clone()
    };
    let reference = object.to_raw();
    members.set("ref", Cow::Owned(reference));
    Ok((backend, What::Complete { params: members.to_raw() }))
}
