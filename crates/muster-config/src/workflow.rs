//! Workflow files.

use muster_core::name::check_resource_name;
use muster_workflow::{Workflow, definition, fields::SPEC};
use serde_json::Value as Json;

use super::{
    LoadError, Loaded,
    reader::{Reader, load_unique, values::json},
    resource::{self, Form, Resource, ResourceFormat, SpecNode, resource_format},
    writer,
};
use crate::yaml::{self, Node, NodeValue};

/// The file format.
pub static FORMAT: ResourceFormat = resource_format!("Workflow", &SPEC, &["steps"]);

/// Reads a file. A workflow without a name gets that of its file, without the extension.
pub fn parse(text: &str, file_name: &str) -> Result<Loaded<Workflow>, LoadError> {
    load_unique(text, |reader, node| {
        let Resource { name, namespace, extra, spec, .. } =
            resource::read(reader, node, &FORMAT, file_name, read_spec)?;
        match check_resource_name(&name) {
            Ok(()) => Some(Workflow { extra, ..Workflow::new(name, namespace, spec) }),
            Err(invalid) => reader.refuse(node, invalid.to_string(), None),
        }
    })
}

/// Reads the spec as JSON, the way the core tools read it, and reports problems at their lines.
fn read_spec(reader: &mut Reader, source: SpecNode<'_>) -> Option<muster_workflow::WorkflowSpec> {
    let SpecNode { node, form, .. } = source;
    let mut spec = json(node);
    if let (Form::Short, Json::Object(spec)) = (form, &mut spec) {
        if !spec.contains_key("steps") {
            let fields = source.fields(reader)?;
            return reader.required(&fields, "steps", |_, _| None);
        }
        spec.remove("name");
        spec.remove("status");
    }
    match definition::read(&spec) {
        Ok(read) => {
            for (path, similar) in read.unknown {
                reader.warn_unknown(node_at(node, &path), path, similar);
            }
            Some(read.spec)
        }
        Err(issues) => {
            for issue in issues {
                reader.refuse_below(
                    node_at(node, &issue.path),
                    issue.path,
                    issue.message,
                    issue.fix,
                );
            }
            None
        }
    }
}

/// The key or item at a path, or the last part of the path that exists.
fn node_at<'n>(root: &'n Node, path: &[String]) -> &'n Node {
    let (mut value, mut found) = (root, root);
    for part in path {
        let next = match &value.value {
            NodeValue::Map(pairs) => {
                let pair = pairs.iter().find(|(key, _)| key.written() == Some(part));
                pair.map(|(key, value)| (value, key))
            }
            NodeValue::List(items) => {
                let index = part.parse::<usize>().ok();
                index.and_then(|index| items.get(index)).map(|item| (item, item))
            }
            NodeValue::Scalar(_) => None,
        };
        match next {
            Some(next) => (value, found) = next,
            None => break,
        }
    }
    found
}

fn child<'n>(node: &'n Node, name: &str) -> Option<&'n Node> {
    let NodeValue::Map(pairs) = &node.value else { return None };
    let (_, value) = pairs.iter().find(|(key, _)| key.written() == Some(name))?;
    Some(value)
}

/// Line numbers in a workflow file.
#[derive(Debug)]
pub struct WorkflowLines(Option<Node>);

impl WorkflowLines {
    /// The lines of the file `text`.
    pub fn of(text: &str) -> Self {
        Self(yaml::parse(text).ok())
    }

    /// The line of the value at a path below `spec`, or of its nearest parent.
    pub fn line(&self, path: &[String]) -> Option<usize> {
        let root = self.0.as_ref()?;
        let spec = child(root, "spec").unwrap_or(root);
        Some(node_at(spec, path).line)
    }
}

/// Writes a file in the long form.
pub fn text(workflow: &Workflow) -> String {
    let name = (workflow.name.as_str(), workflow.namespace.as_str());
    let spec = resource::pairs(&workflow.spec.to_file());
    resource::text(FORMAT.kind, name, workflow.extra.clone(), spec, Vec::new())
}

/// The definition that `core_workflow_get` shows, as YAML.
pub fn shown_yaml(workflow: &Workflow) -> String {
    writer::object(&workflow.shown(false))
}

#[cfg(test)]
mod tests;
