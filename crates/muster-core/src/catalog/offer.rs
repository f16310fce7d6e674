//! Conversion of a server's lists to catalog entries.

use std::sync::Arc;

use serde_json::value::RawValue;

use crate::{
    catalog::{CatalogItem, Offer, ToolAudience, ToolEntry},
    connect::ServerListing,
    json::{RawObject, raw},
    name::{BackendName, ToolName},
    text::{neutralized, printable},
};

/// Converts the lists of a server. `rename` maps the server's own names to those that clients see.
/// URIs are not renamed, unless they have no scheme.
pub fn offer(
    listing: &ServerListing,
    backend: &BackendName,
    rename: impl Fn(&str) -> String,
) -> Offer {
    let address = |uri: &str| address(uri, &rename);
    let listed = |items: &[Box<RawValue>], key: &str, exposed: &dyn Fn(&str) -> String| {
        let items = items.iter().filter_map(|item| {
            let local = RawObject::parse(item)?.get_text(key).filter(|name| is_usable(name))?;
            Some(CatalogItem {
                name: exposed(&local).into(),
                backend: backend.clone(),
                local_name: local.into(),
                definition: Arc::from(item.clone()),
            })
        });
        items.collect()
    };
    Offer {
        tools: listing.tools.iter().filter_map(|tool| entry(tool, backend, &rename)).collect(),
        resources: listed(&listing.resources, "uri", &address),
        templates: listed(&listing.templates, "uriTemplate", &address),
        prompts: listed(&listing.prompts, "name", &rename),
    }
}

/// Returns the name under which clients see a resource. URIs with a scheme are unique and stay unchanged.
pub fn address(uri: &str, rename: impl Fn(&str) -> String) -> String {
    if uri.contains("://") { uri.to_owned() } else { rename(uri) }
}

/// Returns the names of a server's items that are unusable and therefore not listed, formatted for a message.
pub fn unusable_names(listing: &ServerListing) -> Vec<String> {
    let ServerListing { tools, resources, templates, prompts, .. } = listing;
    let kinds =
        [(tools, "name"), (resources, "uri"), (templates, "uriTemplate"), (prompts, "name")];
    let names = kinds.into_iter().flat_map(|(items, key)| {
        items.iter().filter_map(move |item| RawObject::parse(item)?.get_text(key))
    });
    names.filter(|name| !is_usable(name)).take(MAX_REPORTED).map(|name| printable(&name)).collect()
}

/// Whether a name can be shown and told apart from others.
fn is_usable(name: &str) -> bool {
    !name.is_empty() && name.len() <= MAX_NAME && name.chars().all(|c| neutralized(c) == c)
}

/// The longest name, in bytes. URIs may be long.
const MAX_NAME: usize = 4_096;
/// The number of names reported.
const MAX_REPORTED: usize = 10;

fn entry(
    tool: &RawValue,
    backend: &BackendName,
    rename: impl Fn(&str) -> String,
) -> Option<ToolEntry> {
    let object = RawObject::parse(tool)?;
    let local = object.get_text("name").filter(|name| is_usable(name))?;
    let schema = object.get("inputSchema").filter(|schema| schema.get().starts_with('{'));
    let schema = schema.map_or_else(any_object, ToOwned::to_owned);
    Some(ToolEntry {
        name: ToolName::new(rename(&local)),
        backend: backend.clone(),
        local_name: local.into(),
        description: object.get_text("description").unwrap_or_default().into(),
        input_schema: schema.into(),
        params: None,
        definition: Some(Arc::from(tool.to_owned())),
        effect: None,
        validator: Arc::default(),
        audience: ToolAudience::default(),
    })
}

/// The schema of a tool that declares none.
fn any_object() -> Box<RawValue> {
    let mut schema = RawObject::new();
    schema.set_value("type", "object");
    raw(&schema)
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::offer;
    use crate::{catalog::CatalogItem, connect::ServerListing, name::BackendName};

    fn items(items: &[&str]) -> Vec<Box<RawValue>> {
        items.iter().map(|item| RawValue::from_string((*item).to_owned()).unwrap()).collect()
    }

    fn names(listed: &[CatalogItem]) -> Vec<(&str, &str)> {
        listed.iter().map(|listed| (&*listed.name, &*listed.local_name)).collect()
    }

    #[test]
    fn names_change_and_definitions_stay() {
        let tool = r#"{"name":"a","inputSchema":{ "type":"object","x":1.0 },"vendor":[1e9]}"#;
        let listing = ServerListing {
            tools: items(&[tool, r#"{"name":"b","description":"d"}"#, r#"{"title":"no name"}"#]),
            resources: items(&[r#"{"uri":"file:///x"}"#, r#"{"uri":"notes"}"#]),
            templates: items(&[r#"{"uriTemplate":"t://{id}"}"#]),
            prompts: items(&[r#"{"name":"p"}"#]),
            ..ServerListing::default()
        };
        let offer = offer(&listing, &BackendName::new("s"), |name| format!("x_s_{name}"));
        let [a, b] = &*offer.tools else { panic!("{:?}", offer.tools) };
        assert_eq!((a.name.as_str(), &*a.local_name, &*a.description), ("x_s_a", "a", ""));
        assert_eq!(a.definition.as_deref().unwrap().get(), tool);
        assert_eq!(a.input_schema.get(), r#"{ "type":"object","x":1.0 }"#);
        assert_eq!((b.input_schema.get(), &*b.description), (r#"{"type":"object"}"#, "d"));
        assert_eq!(names(&offer.resources), [("file:///x", "file:///x"), ("x_s_notes", "notes")]);
        assert_eq!(names(&offer.templates), [("t://{id}", "t://{id}")]);
        assert_eq!(names(&offer.prompts), [("x_s_p", "p")]);
    }
}
