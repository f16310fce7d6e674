//! `list_resources`: the resources and templates of all servers.

use muster_core::{
    call::Outcome,
    catalog::CatalogItem,
    json::{Raw, RawObject, raw},
};
use serde::Serialize;

use super::{
    MetaContext, MetaTool, Run,
    arguments::MetaArguments,
    listing::{self, by_name, described},
};
use crate::dispatch::CORE_BACKEND;

pub(super) const TOOL: MetaTool = MetaTool {
    name: "list_resources",
    description: "List resources; fill in the {…} of a `uriTemplate`.",
    input_schema: r#"{"type":"object","properties":{"offset":{"type":"integer"}}}"#,
    budget: 8_000,
    run: Run::List(answer),
};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Item<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    uri: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uri_template: Option<&'a str>,
    name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    description: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    mime_type: Option<String>,
}

/// Whether an item is a resource or a template.
#[derive(Clone, Copy)]
enum Kind {
    Resource,
    Template,
}

fn answer(cx: &MetaContext<'_>, given: &MetaArguments<'_>) -> Outcome {
    let catalog = &cx.request.snapshot.catalog;
    // The gateway's own resources are listed by the protocol's own method only.
    let others = catalog.resources().filter(|one| one.backend.as_str() != CORE_BACKEND);
    let resources = by_name(others).into_iter().map(|one| (Kind::Resource, one));
    let templates = by_name(catalog.templates()).into_iter().map(|one| (Kind::Template, one));
    let all: Vec<(Kind, &CatalogItem)> = resources.chain(templates).collect();
    listing::answer((given, cx.budget), &all, ("resources", "No resources available"), item)
}

fn item((kind, listed): &(Kind, &CatalogItem)) -> Raw {
    let definition = RawObject::parse(&listed.definition).unwrap_or_default();
    let (uri, uri_template) = match kind {
        Kind::Resource => (Some(&*listed.name), None),
        Kind::Template => (None, Some(&*listed.name)),
    };
    raw(&Item {
        uri,
        uri_template,
        name: definition.get_text("name").unwrap_or_default(),
        description: described(&definition),
        mime_type: definition.get_text("mimeType").filter(|kind| !kind.is_empty()),
    })
}
