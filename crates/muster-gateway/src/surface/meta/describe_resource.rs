//! `describe_resource`: everything about one resource but its contents.

use muster_core::{call::Outcome, catalog::CatalogItem, json::RawObject, text::shortened};

use super::{MetaContext, MetaTool, Run, arguments::MetaArguments, error_text};

pub(super) const TOOL: MetaTool = MetaTool {
    name: "describe_resource",
    description: "Describe a resource.",
    input_schema: r#"{"type":"object","properties":{"uri":{"type":"string"}},"required":["uri"]}"#,
    budget: 4_000,
    run: Run::Now(answer),
};

fn answer(cx: &MetaContext<'_>, given: &MetaArguments<'_>) -> Outcome {
    let uri = match given.required("uri") {
        Ok(uri) => uri,
        Err(problem) => return Outcome::failure(problem),
    };
    let catalog = &cx.request.snapshot.catalog;
    let is_meant = |listed: &&CatalogItem| *listed.name == *uri;
    if let Some(resource) = catalog.resources().find(is_meant) {
        return description("uri", &uri, resource);
    }
    if let Some(template) = catalog.templates().find(is_meant) {
        return description("uriTemplate", &uri, template);
    }
    not_found(cx, &uri)
}

/// The server's definition, with every key that clients rely on.
fn description(key: &'static str, uri: &str, listed: &CatalogItem) -> Outcome {
    let mut definition = RawObject::parse(&listed.definition).unwrap_or_default();
    definition.set_value(key, uri);
    for key in ["name", "description", "mimeType"] {
        if definition.get(key).is_none() {
            definition.set_value(key, "");
        }
    }
    Outcome::text(definition.to_raw().get())
}

/// The error for an unknown resource.
pub(super) fn not_found(cx: &MetaContext<'_>, uri: &str) -> Outcome {
    let near =
        error_text::nearest_of(uri, cx.request.snapshot.catalog.resources().map(|one| &*one.name));
    Outcome::failure(error_text::lines(&[format!("Resource not found: {}", shortened(uri)), near]))
}
