//! What the files of all kinds have in common: a name, a spec, and a status that muster writes.

use muster_core::{schema, value::Value};
use serde_json::Value as Json;

use super::{
    mcpserver::{DEFAULT_NAMESPACE, METADATA, RESOURCE, name_or, rest, text_or_empty},
    reader::Reader,
    writer,
};
use crate::yaml::{Node, NodeValue};

/// A file in the long form.
pub(super) struct Resource<T> {
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) spec: T,
    pub(super) status: Json,
}

/// Whether a file is in the short form, which has the fields of `spec` at the top: it has one of those that
/// tell it, or nothing that only the long form has.
pub(super) fn is_short(node: &Node, telling: &[&str]) -> bool {
    let NodeValue::Map(pairs) = &node.value else { return false };
    let has = |name: &str| pairs.iter().any(|(key, _)| key.as_text() == Some(name));
    let is_long = ["apiVersion", "kind", "metadata"].into_iter().any(has);
    !has("spec") && (!is_long || telling.iter().copied().any(has))
}

/// Reads the long form. What has no name has that of its file.
pub(super) fn read<T>(
    reader: &mut Reader,
    node: &Node,
    kind: &'static str,
    file_name: &str,
    spec: impl FnOnce(&mut Reader, &Node) -> Option<T>,
) -> Option<Resource<T>> {
    let fields = reader.fields(node, kind, RESOURCE)?;
    let fits = reader.optional(&fields, "kind", (), |reader, node| match node.as_text() {
        Some(found) if found == kind => Some(()),
        _ => {
            let fix = format!("write `kind: {kind}`");
            reader.refuse(node, format!("Input should be '{kind}'"), fix)
        }
    });
    let nowhere = (String::new(), String::new());
    let metadata = reader.optional(&fields, "metadata", nowhere, |reader, node| {
        let fields = reader.fields(node, "ObjectMeta", METADATA)?;
        let name = text_or_empty(reader, &fields, "name");
        let namespace = text_or_empty(reader, &fields, "namespace");
        Some((name?, namespace?))
    });
    let spec = reader.required(&fields, "spec", spec);
    // A status is no reason to refuse a file.
    let status = reader.optional(&fields, "status", Json::Null, |_, node| Some(json(node)));
    let (name, namespace) = metadata?;
    fits?;
    Some(Resource {
        name: name_or(name, file_name),
        namespace: name_or(namespace, DEFAULT_NAMESPACE),
        spec: spec?,
        status: status?,
    })
}

/// A value of a file as JSON.
pub(super) fn json(node: &Node) -> Json {
    serde_json::from_str(schema::to_json(&node.to_value()).get()).unwrap_or_default()
}

/// The whole file. What `before` says besides its name stays as it was.
pub(super) fn text(
    kind: &str,
    (name, namespace): (&str, &str),
    spec: Vec<(Value, Value)>,
    status: Vec<(Value, Value)>,
    before: Option<&str>,
) -> String {
    let text = |text: &str| Value::Text(text.to_owned());
    let mut metadata = vec![(text("name"), text(name)), (text("namespace"), text(namespace))];
    metadata.extend(before.map(other_metadata).unwrap_or_default());
    let mut document = vec![
        (text("apiVersion"), text("muster.giantswarm.io/v1alpha1")),
        (text("kind"), text(kind)),
        (text("metadata"), Value::Map(metadata)),
        (text("spec"), Value::Map(spec)),
    ];
    if !status.is_empty() {
        document.push((text("status"), Value::Map(status)));
    }
    writer::document(&document)
}

fn other_metadata(file: &str) -> Vec<(Value, Value)> {
    let Ok(root) = crate::yaml::parse(file) else { return Vec::new() };
    let NodeValue::Map(pairs) = &root.value else { return Vec::new() };
    let metadata = pairs.iter().find(|(key, _)| key.as_text() == Some("metadata"));
    metadata.map(|(_, metadata)| rest(metadata, &["name", "namespace"])).unwrap_or_default()
}
