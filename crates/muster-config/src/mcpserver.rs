//! MCP server files.

pub mod auth_fields;
mod check;
mod spec;
mod status;

use muster_core::{name::check_resource_name, suggest::similar, value::Value};
use serde_json::Value as Json;

use self::spec::{FILE, TRANSPORTS, is_default};
use super::{
    LoadError, Loaded,
    reader::{Fields, Reader, load_unique},
    resource::{self, Form, Resource, ResourceFormat, SpecNode, resource_format},
};

pub use self::{
    check::{InvalidMcpServer, server_type},
    spec::{Approval, EraChoice, FamilySpec, McpServerSpec, RunOn, SPEC, ServerType},
    status::McpServerStatus,
};

/// The file format. A server in the short form starts by default: three lines are enough.
pub static FORMAT: ResourceFormat = resource_format!("MCPServer", &FILE, &["command", "url"]);

/// An MCP server.
#[derive(Debug, Clone, PartialEq)]
pub struct McpServer {
    /// Its name.
    pub name: String,
    /// The namespace of its events.
    pub namespace: String,
    /// How it is reached.
    pub spec: McpServerSpec,
    /// Its last known state.
    pub status: McpServerStatus,
    /// Fields of its file that are preserved, but not used.
    pub extra: PreservedFields,
}

/// The annotation with the subject of the caller that created a server.
const REGISTERED_BY: &str = "ui.giantswarm.io/registered-by";

impl McpServer {
    /// The subject of the caller that created it.
    pub fn registered_by(&self) -> Option<&str> {
        let annotations = self.extra.metadata.iter().find_map(|(key, value)| match (key, value) {
            (Value::Text(key), Value::Map(pairs)) if key == "annotations" => Some(pairs),
            _ => None,
        });
        annotations?.iter().find_map(|(key, value)| match (key, value) {
            (Value::Text(key), Value::Text(subject)) if key == REGISTERED_BY => {
                Some(subject.as_str())
            }
            _ => None,
        })
    }

    /// Records the subject of the caller that creates it.
    pub fn register(&mut self, subject: &str) {
        let stamp = (Value::Text(REGISTERED_BY.to_owned()), Value::Text(subject.to_owned()));
        let annotations = (Value::Text("annotations".to_owned()), Value::Map(vec![stamp]));
        self.extra.metadata.push(annotations);
    }
}

/// Fields that are preserved when a file is rewritten.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PreservedFields {
    metadata: OtherFields,
    spec: OtherFields,
}

impl McpServer {
    /// A new server, without a file.
    pub fn new(name: impl Into<String>, namespace: impl Into<String>, spec: McpServerSpec) -> Self {
        let (name, namespace) = (name.into(), namespace.into());
        Self {
            name,
            namespace,
            spec,
            status: McpServerStatus::default(),
            extra: PreservedFields::default(),
        }
    }

    /// Its prefix in the names of its tools.
    pub fn prefix(&self) -> &str {
        match self.spec.tool_prefix.as_str() {
            "" => &self.name,
            prefix => prefix,
        }
    }
}

/// Reads a file. A server without a name gets that of its file, without the extension.
pub fn parse(text: &str, file_name: &str) -> Result<Loaded<McpServer>, LoadError> {
    load_unique(text, |reader, node| {
        let Resource { name, namespace, extra: metadata, spec: (spec, other), status } =
            resource::read(reader, node, &FORMAT, file_name, read_spec)?;
        let status = status.map(status::read).unwrap_or_default();
        let extra = PreservedFields { metadata, spec: other };
        match check_resource_name(&name) {
            Ok(()) => Some(McpServer { name, namespace, spec, status, extra }),
            Err(invalid) => reader.refuse(node, invalid.to_string(), None),
        }
    })
}

/// Fields that the table does not have.
type OtherFields = Vec<(Value, Value)>;

fn read_spec(reader: &mut Reader, source: SpecNode<'_>) -> Option<(McpServerSpec, OtherFields)> {
    let SpecNode { node, form, .. } = source;
    let fields = source.fields(reader)?;
    let mut values = reader.values(&fields, &FILE)?;
    let text = |name: &str| values.get(name).and_then(Json::as_str).unwrap_or_default();
    let kind = match (text("type"), text("command"), text("url")) {
        // If only one of command and URL is given, it determines the transport.
        ("", command, "") if !command.is_empty() => Ok(ServerType::Stdio),
        ("", "", url) if !url.is_empty() => Ok(ServerType::StreamableHttp),
        (kind, ..) => server_type(kind),
    };
    let checked = kind.and_then(|kind| {
        values.insert("type".to_owned(), Json::from(kind.as_str()));
        values.entry("autoStart").or_insert(Json::Bool(form == Form::Short));
        let spec: McpServerSpec = serde_json::from_value(Json::Object(values)).unwrap_or_default();
        spec.check().map(|()| spec)
    });
    match checked {
        Ok(spec) if form == Form::Short => Some((spec, Vec::new())),
        Ok(spec) => {
            let known: Vec<&str> = FILE.names().collect();
            Some((spec, resource::other_pairs(node, &known)))
        }
        Err(invalid) => reader.refuse(node, invalid.to_string(), fix(&fields, &invalid)),
    }
}

/// The fix for a definition that cannot be used.
fn fix(fields: &Fields<'_>, invalid: &InvalidMcpServer) -> Option<String> {
    let missing = |names: &[&str]| {
        let added = || format!("add `{}: …`", names.join(": …` or `"));
        let misspelled = names.iter().find_map(|name| fields.misspelled(name));
        Some(misspelled.unwrap_or_else(added))
    };
    match invalid {
        InvalidMcpServer::NoType => {
            fields.misspelled("type").or_else(|| missing(&["command", "url"]))
        }
        InvalidMcpServer::NoCommand => missing(&["command"]),
        InvalidMcpServer::NoUrl => missing(&["url"]),
        InvalidMcpServer::UnsupportedType(word) => {
            let meant = match word.to_lowercase().as_str() {
                "http" | "https" | "streamable" => Some("streamable-http"),
                word => similar(word, TRANSPORTS.iter().copied()).first().copied(),
            };
            meant.map(|meant| format!("write `type: {meant}`"))
        }
        _ => None,
    }
}

/// Writes a file in the long form.
pub fn text(server: &McpServer) -> String {
    let McpServer { name, namespace, spec, status, extra } = server;
    let mut fields = resource::pairs(spec);
    fields.extend(extra.spec.iter().cloned());
    let status = if is_default(status) { Vec::new() } else { resource::pairs(status) };
    resource::text(FORMAT.kind, (name, namespace), extra.metadata.clone(), fields, status)
}

/// Replaces the status in the text of a file, and preserves everything else, comments included. `None`
/// where that is impossible, as in a flow mapping.
pub fn with_status(file: &str, status: &McpServerStatus) -> Option<String> {
    let next = resource::put_status(file, status)?;
    // Whatever the file looks like, nothing but the status may have changed.
    let before = parse(file, "x").ok()?.value;
    let after = parse(&next, "x").ok()?.value;
    (after == McpServer { status: status.clone(), ..before }).then_some(next)
}

/// The text of a file with the changed fields of a server, and everything else as it was, comments included. `None`
/// where that is impossible, as in a flow mapping.
pub fn with_spec(file: &str, server: &McpServer) -> Option<String> {
    let before = parse(file, &server.name).ok()?.value;
    let (old, new) = (resource::pairs(&before.spec), resource::pairs(&server.spec));
    let section = resource::section(file)?;
    let find = |pairs: &OtherFields, name: &Value| {
        pairs.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
    };
    let mut text = file.to_owned();
    let names: Vec<&Value> = new.iter().chain(&old).map(|(name, _)| name).collect();
    for name in names {
        let value = find(&new, name);
        if let Value::Text(field) = name
            && find(&old, name) != value
        {
            text = resource::put_member(&text, section, field, value)?;
        }
    }
    let after = parse(&text, &server.name).ok()?.value;
    (after == McpServer { spec: server.spec.clone(), ..before }).then_some(text)
}

#[cfg(test)]
mod tests;
