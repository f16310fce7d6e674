//! The file that describes one workflow.
//!
//! The long form is that of a Kubernetes resource. The short form has the fields of `spec` at the top.

use muster_core::{json::raw, name::check_resource_name, schema, value::Value};
use muster_workflow::{Workflow, definition};
use serde_json::Value as Json;

use super::{
    LoadError, Loaded, Problem, UNKNOWN_FIELD, Warning,
    reader::{Reader, Setting, load},
    resource::is_short,
    writer,
};
use crate::yaml::{self, Node, NodeValue};

const RESOURCE: &[&str] = &["apiVersion", "kind", "metadata", "spec", "status"];
/// What a file in the short form must have, and what is most often beside it.
const SHORT: &[&str] = &["name", "description", "args", "steps"];
const METADATA: &[&str] = &["name", "namespace", "labels", "annotations", "creationTimestamp"];
const DEFAULT_NAMESPACE: &str = "default";

/// Reads one file. A workflow without a name has that of its file, without the ending.
pub fn parse(text: &str, file_name: &str) -> Result<Loaded<Workflow>, LoadError> {
    // What is wrong inside `spec` is found by path, and told with the line of that path.
    let mut inside: Result<Vec<Warning>, Vec<Problem>> = Ok(Vec::new());
    let loaded = load(text, |reader, node| {
        let Head { name, namespace, extra, prefix } = match is_short(node, &["steps"]) {
            true => short(reader, node)?,
            false => head(reader, node)?,
        };
        let spec = match prefix.is_empty() {
            true => without_name(node),
            false => json(child(node, "spec")?),
        };
        let root = if prefix.is_empty() { node } else { child(node, "spec")? };
        let read = match definition::read(&spec) {
            Ok(read) => read,
            Err(issues) => {
                let problems = issues.into_iter().map(|issue| problem(root, &prefix, issue));
                inside = Err(problems.collect());
                return None;
            }
        };
        let unknown = read.unknown.into_iter().map(|(path, similar)| {
            let (line, column) = place(root, &path);
            let path = prefix.iter().cloned().chain(path).collect();
            Warning { path, line, column, message: UNKNOWN_FIELD.to_owned(), similar }
        });
        inside = Ok(unknown.collect());
        let name = if name.is_empty() { file_name.to_owned() } else { name };
        match check_resource_name(&name) {
            Ok(()) => Some(Workflow { extra, ..Workflow::new(name, namespace, read.spec) }),
            Err(invalid) => reader.refuse(node, invalid.to_string(), None),
        }
    });
    match (loaded, inside) {
        (Ok(Loaded { value, mut warnings }), Ok(unknown)) => {
            warnings.extend(unknown);
            Ok(Loaded { value, warnings })
        }
        (Err(LoadError::Fields(mut problems)), Err(inside)) => {
            problems.extend(inside);
            Err(LoadError::Fields(problems))
        }
        (Ok(_), Err(inside)) => Err(LoadError::Fields(inside)),
        (Err(error), _) => Err(error),
    }
}

struct Head {
    name: String,
    namespace: String,
    extra: Vec<(Value, Value)>,
    /// Where the spec is.
    prefix: Vec<String>,
}

fn short(reader: &mut Reader, node: &Node) -> Option<Head> {
    if child(node, "steps").is_none() {
        let fields = reader.fields(node, "Workflow", SHORT)?;
        return reader.required(&fields, "steps", |_, _| None);
    }
    let name = child(node, "name").and_then(Node::as_text).unwrap_or_default();
    Some(Head {
        name: name.to_owned(),
        namespace: DEFAULT_NAMESPACE.to_owned(),
        extra: Vec::new(),
        prefix: Vec::new(),
    })
}

fn head(reader: &mut Reader, node: &Node) -> Option<Head> {
    let fields = reader.fields(node, "Workflow", RESOURCE)?;
    let kind = reader.optional(&fields, "kind", (), |reader, node| match node.as_text() {
        Some("Workflow") => Some(()),
        _ => reader.refuse(node, "Input should be 'Workflow'", "write `kind: Workflow`"),
    });
    let metadata = reader.optional(&fields, "metadata", None, |reader, node| {
        let fields = reader.fields(node, "ObjectMeta", METADATA)?;
        let name = reader.nullable(&fields, "name", Reader::text);
        let namespace = reader.nullable(&fields, "namespace", Reader::text);
        let (Setting(name), Setting(namespace)) = (name?, namespace?);
        let NodeValue::Map(pairs) = &node.value else { return None };
        let extra = pairs
            .iter()
            .filter(|(key, _)| !matches!(key.as_text(), Some("name" | "namespace")))
            .map(|(key, value)| (key.to_value(), value.to_value()));
        Some(Some((name, namespace, extra.collect())))
    });
    let spec = reader.required(&fields, "spec", |_, _| Some(()));
    let (name, namespace, extra) = metadata?.unwrap_or_default();
    kind?;
    spec?;
    Some(Head {
        name: name.unwrap_or_default(),
        namespace: namespace.unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned()),
        extra,
        prefix: vec!["spec".to_owned()],
    })
}

fn without_name(node: &Node) -> Json {
    let mut spec = json(node);
    if let Json::Object(spec) = &mut spec {
        spec.remove("name");
        spec.remove("status");
    }
    spec
}

fn json(node: &Node) -> Json {
    serde_json::from_str(schema::to_json(&node.to_value()).get()).unwrap_or_default()
}

fn child<'n>(node: &'n Node, name: &str) -> Option<&'n Node> {
    let NodeValue::Map(pairs) = &node.value else { return None };
    let (_, value) = pairs.iter().find(|(key, _)| key.written() == Some(name))?;
    Some(value)
}

fn problem(root: &Node, prefix: &[String], issue: definition::Issue) -> Problem {
    let (line, column) = place(root, &issue.path);
    Problem {
        path: prefix.iter().cloned().chain(issue.path).collect(),
        message: issue.message,
        fix: Some(issue.fix),
        line,
        column,
    }
}

/// The line and column of what stands at a path, or of the last part of the way that is there.
fn place(root: &Node, path: &[String]) -> (usize, usize) {
    let (mut node, mut place) = (root, (root.line, root.column));
    for part in path {
        let next = match &node.value {
            NodeValue::Map(pairs) => {
                let found = pairs.iter().find(|(key, _)| key.written() == Some(part));
                found.map(|(key, value)| (value, (key.line, key.column)))
            }
            NodeValue::List(items) => part
                .parse::<usize>()
                .ok()
                .and_then(|index| items.get(index))
                .map(|item| (item, (item.line, item.column))),
            NodeValue::Scalar(_) => None,
        };
        match next {
            Some((next, at)) => (node, place) = (next, at),
            None => break,
        }
    }
    place
}

/// Where things stand in a file.
#[derive(Debug)]
pub struct Lines(Option<Node>);

impl Lines {
    /// The lines of a file.
    pub fn of(text: &str) -> Self {
        Self(yaml::parse(text).ok())
    }

    /// The line of what stands at a path below `spec`.
    pub fn line(&self, path: &[String]) -> Option<usize> {
        let root = self.0.as_ref()?;
        let spec = child(root, "spec").unwrap_or(root);
        Some(place(spec, path).0)
    }
}

/// The whole file, in the long form.
pub fn text(workflow: &Workflow) -> String {
    let text = |text: &str| Value::Text(text.to_owned());
    let mut metadata =
        vec![(text("name"), text(&workflow.name)), (text("namespace"), text(&workflow.namespace))];
    metadata.extend(workflow.extra.iter().cloned());
    writer::document(&[
        (text("apiVersion"), text("muster.giantswarm.io/v1alpha1")),
        (text("kind"), text("Workflow")),
        (text("metadata"), Value::Map(metadata)),
        (text("spec"), Value::from_json(&raw(&workflow.spec.to_file()))),
    ])
}

/// The definition as `core_workflow_get` shows it, as YAML.
pub fn shown_yaml(workflow: &Workflow) -> String {
    match Value::from_json(&raw(&workflow.shown(false))) {
        Value::Map(pairs) => writer::document(&pairs),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests;
