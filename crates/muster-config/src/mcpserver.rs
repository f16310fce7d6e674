//! The file that describes one MCP server behind the gateway.
//!
//! The long form is that of a Kubernetes resource. The short form has the fields of `spec` at the
//! top and nothing else: three lines are enough, and such a server starts by itself.

mod auth;
mod check;
mod status;
mod write;

use std::time::Duration;

use indexmap::IndexMap;
use muster_core::{
    connect::{Endpoint, MachineIdentity},
    name::check_resource_name,
    server_auth::{Auth, AuthType, Teleport},
    suggest::similar,
    value::Value,
};
use serde::{Deserialize, Serialize};

use super::{
    LoadError, Loaded,
    reader::{Fields, Reader, Setting, load},
    resource,
};
use crate::yaml::{Node, NodeValue};

pub(super) use self::write::{pairs, put_status};
pub use self::{
    check::{Invalid, server_type},
    status::Status,
    write::{text, with_status},
};

/// How long a connection may take unless the file says otherwise.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

pub(super) const RESOURCE: &[&str] = &["apiVersion", "kind", "metadata", "spec", "status"];
pub(super) const METADATA: &[&str] = &["name", "namespace", "labels", "annotations"];
const SPEC: &[&str] = &[
    "type",
    "autoStart",
    "toolPrefix",
    "description",
    "command",
    "args",
    "env",
    "url",
    "headers",
    "timeout",
    "callTimeout",
    "auth",
];
const SHORT: &[&str] = &[
    "name",
    "type",
    "autoStart",
    "toolPrefix",
    "description",
    "command",
    "args",
    "env",
    "url",
    "headers",
    "timeout",
    "callTimeout",
    "auth",
    "status",
];

/// One MCP server as its file describes it.
#[derive(Debug, Clone, PartialEq)]
pub struct McpServer {
    /// Its name, by which tools and people know it.
    pub name: String,
    /// Where events about it belong.
    pub namespace: String,
    /// How it is reached.
    pub spec: Spec,
    /// What became of it, as last written.
    pub status: Status,
    /// What else the file says; written back as it was.
    pub extra: Extra,
}

/// What a file says that nothing here reads, so that it survives being written anew.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Extra {
    metadata: Vec<(Value, Value)>,
    spec: Vec<(Value, Value)>,
}

/// How an MCP server is reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Spec {
    /// By which transport.
    #[serde(rename = "type")]
    pub kind: ServerType,
    /// Whether it is started with the gateway.
    pub auto_start: bool,
    /// What stands in its tools' names in place of its own name; empty for none.
    #[serde(skip_serializing_if = "nothing")]
    pub tool_prefix: String,
    /// One line about it.
    #[serde(skip_serializing_if = "nothing")]
    pub description: String,
    /// The program of a local server.
    #[serde(skip_serializing_if = "nothing")]
    pub command: String,
    /// Its arguments.
    #[serde(skip_serializing_if = "nothing")]
    pub args: Vec<String>,
    /// Variables added to its environment.
    #[serde(skip_serializing_if = "nothing")]
    pub env: IndexMap<String, String>,
    /// The address of a remote server.
    #[serde(skip_serializing_if = "nothing")]
    pub url: String,
    /// Sent to it with every request.
    #[serde(skip_serializing_if = "nothing")]
    pub headers: IndexMap<String, String>,
    /// Seconds that a connection may take; zero for the usual.
    #[serde(skip_serializing_if = "nothing")]
    pub timeout: u32,
    /// Seconds that a call may take; zero for as long as it likes.
    #[serde(skip_serializing_if = "nothing")]
    pub call_timeout: u32,
    /// How it is logged in to.
    #[serde(skip_serializing_if = "nothing")]
    pub auth: Option<Auth>,
}

/// The transports of MCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServerType {
    /// A child process.
    Stdio,
    /// Streamable HTTP.
    StreamableHttp,
    /// HTTP+SSE of 2024-11-05.
    Sse,
}

impl ServerType {
    /// Its name in files.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stdio => "stdio",
            Self::StreamableHttp => "streamable-http",
            Self::Sse => "sse",
        }
    }

    /// Whether it is a process of ours.
    pub const fn is_local(self) -> bool {
        matches!(self, Self::Stdio)
    }
}

impl Spec {
    /// A spec of which only the type is known.
    pub fn of(kind: ServerType) -> Self {
        Self {
            kind,
            auto_start: false,
            tool_prefix: String::new(),
            description: String::new(),
            command: String::new(),
            args: Vec::new(),
            env: IndexMap::new(),
            url: String::new(),
            headers: IndexMap::new(),
            timeout: 0,
            call_timeout: 0,
            auth: None,
        }
    }

    /// Where it is.
    pub fn endpoint(&self) -> Endpoint {
        let pairs = |map: &IndexMap<String, String>| {
            map.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
        };
        match self.kind {
            ServerType::Stdio => Endpoint::Stdio {
                command: self.command.clone(),
                args: self.args.clone(),
                env: pairs(&self.env),
            },
            ServerType::StreamableHttp => {
                let (url, headers) = (self.url.clone(), pairs(&self.headers));
                match self.teleport() {
                    None => Endpoint::Http { url, headers },
                    Some(teleport) => Endpoint::Mutual {
                        url,
                        headers,
                        identity: match teleport.identity_dir.as_str() {
                            "" => MachineIdentity::Secret(teleport.identity_secret_name.clone()),
                            folder => MachineIdentity::Folder(folder.to_owned()),
                        },
                        app: teleport.app_name.clone(),
                    },
                }
            }
            ServerType::Sse => {
                Endpoint::Sse { url: self.url.clone(), headers: pairs(&self.headers) }
            }
        }
    }

    /// The way through Teleport, if that is how it is reached.
    pub fn teleport(&self) -> Option<&Teleport> {
        let auth = self.auth.as_ref().filter(|auth| auth.kind == AuthType::Teleport)?;
        auth.teleport.as_ref()
    }

    /// How long a connection may take.
    pub fn limit(&self) -> Duration {
        match self.timeout {
            0 => DEFAULT_TIMEOUT,
            seconds => Duration::from_secs(seconds.into()),
        }
    }

    /// How long a call may take, if there is a limit.
    pub fn call_limit(&self) -> Option<Duration> {
        (self.call_timeout > 0).then(|| Duration::from_secs(self.call_timeout.into()))
    }

    /// Whether a server that runs by `self` has to be started anew to run by `next`.
    pub fn needs_restart(&self, next: &Self) -> bool {
        let of_words =
            |spec: &Self| Self { description: String::new(), auto_start: false, ..spec.clone() };
        of_words(self) != of_words(next)
    }
}

impl McpServer {
    /// A server that no file describes yet.
    pub fn new(name: impl Into<String>, namespace: impl Into<String>, spec: Spec) -> Self {
        let (name, namespace) = (name.into(), namespace.into());
        Self { name, namespace, spec, status: Status::default(), extra: Extra::default() }
    }

    /// What stands in the names of its tools.
    pub fn prefix(&self) -> &str {
        match self.spec.tool_prefix.as_str() {
            "" => &self.name,
            prefix => prefix,
        }
    }
}

/// Reads one file. A server without a name has that of its file, without the ending.
pub fn parse(text: &str, file_name: &str) -> Result<Loaded<McpServer>, LoadError> {
    load(text, |reader, node| {
        let server = match resource::is_short(node, &["command", "url"]) {
            true => short(reader, node, file_name),
            false => long(reader, node, file_name),
        }?;
        match check_resource_name(&server.name) {
            Ok(()) => Some(server),
            Err(invalid) => reader.refuse(node, invalid.to_string(), None),
        }
    })
}

fn short(reader: &mut Reader, node: &Node, file_name: &str) -> Option<McpServer> {
    let fields = reader.fields(node, "MCPServer", SHORT)?;
    let name = text_or_empty(reader, &fields, "name");
    let spec = spec(reader, &fields, node, Form::Short);
    let status = reader.optional(&fields, "status", Status::default(), status::read);
    Some(McpServer {
        name: name_or(name?, file_name),
        namespace: DEFAULT_NAMESPACE.to_owned(),
        spec: spec?,
        status: status?,
        extra: Extra::default(),
    })
}

/// Where things are that say nothing about it.
pub(super) const DEFAULT_NAMESPACE: &str = "default";

fn long(reader: &mut Reader, node: &Node, file_name: &str) -> Option<McpServer> {
    let fields = reader.fields(node, "MCPServer", RESOURCE)?;
    let kind = reader.optional(&fields, "kind", (), |reader, node| match node.as_text() {
        Some("MCPServer") => Some(()),
        _ => reader.refuse(node, "Input should be 'MCPServer'", "write `kind: MCPServer`"),
    });
    let metadata = reader.optional(&fields, "metadata", Metadata::default(), |reader, node| {
        let fields = reader.fields(node, "ObjectMeta", METADATA)?;
        let name = text_or_empty(reader, &fields, "name");
        let namespace = text_or_empty(reader, &fields, "namespace");
        let rest = rest(node, &["name", "namespace"]);
        Some(Metadata { name: name?, namespace: namespace?, rest })
    });
    let spec = reader.required(&fields, "spec", |reader, node| {
        let fields = reader.fields(node, "MCPServerSpec", SPEC)?;
        Some((spec(reader, &fields, node, Form::Long)?, rest(node, SPEC)))
    });
    let status = reader.optional(&fields, "status", Status::default(), status::read);
    let (metadata, (spec, spec_rest)) = (metadata?, spec?);
    kind?;
    Some(McpServer {
        name: name_or(metadata.name, file_name),
        namespace: name_or(metadata.namespace, DEFAULT_NAMESPACE),
        spec,
        status: status?,
        extra: Extra { metadata: metadata.rest, spec: spec_rest },
    })
}

#[derive(Default)]
struct Metadata {
    name: String,
    namespace: String,
    rest: Vec<(Value, Value)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Short,
    Long,
}

fn spec(reader: &mut Reader, fields: &Fields<'_>, node: &Node, form: Form) -> Option<Spec> {
    let kind = text_or_empty(reader, fields, "type");
    let auto_start = flag(reader, fields, "autoStart");
    let tool_prefix = text_or_empty(reader, fields, "toolPrefix");
    let description = text_or_empty(reader, fields, "description");
    let command = text_or_empty(reader, fields, "command");
    let args = reader.nullable(fields, "args", |reader, node| reader.list(node, written));
    let env = reader.nullable(fields, "env", |reader, node| reader.map(node, written));
    let url = text_or_empty(reader, fields, "url");
    let headers = reader.nullable(fields, "headers", |reader, node| reader.map(node, written));
    let timeout = reader.nullable(fields, "timeout", seconds);
    let call_timeout = reader.nullable(fields, "callTimeout", seconds);
    let auth = reader.nullable(fields, "auth", auth::read);
    let (kind, command, url) = (kind?, command?, url?);
    let kind = match (kind.as_str(), command.as_str(), url.as_str()) {
        // Which transport is meant is clear where only one address is given.
        ("", _, "") if !command.is_empty() => Ok(ServerType::Stdio),
        ("", "", _) if !url.is_empty() => Ok(ServerType::StreamableHttp),
        (kind, ..) => server_type(kind),
    };
    let kind = match kind {
        Ok(kind) => kind,
        Err(invalid) => return reader.refuse(node, invalid.to_string(), fix(fields, &invalid)),
    };
    let spec = Spec {
        kind,
        auto_start: auto_start?.unwrap_or(form == Form::Short),
        tool_prefix: tool_prefix?,
        description: description?,
        command,
        args: args?.0.unwrap_or_default(),
        env: env?.0.unwrap_or_default().into_iter().collect(),
        url,
        headers: headers?.0.unwrap_or_default().into_iter().collect(),
        timeout: timeout?.0.unwrap_or_default(),
        call_timeout: call_timeout?.0.unwrap_or_default(),
        auth: auth?.0,
    };
    match spec.check() {
        Ok(()) => Some(spec),
        Err(invalid) => reader.refuse(node, invalid.to_string(), fix(fields, &invalid)),
    }
}

/// What to do about a definition that cannot be used.
fn fix(fields: &Fields<'_>, invalid: &Invalid) -> Option<String> {
    let missing = |names: &[&str]| {
        let added = || format!("add `{}: …`", names.join(": …` or `"));
        let misspelled = names.iter().find_map(|name| fields.misspelled(name));
        Some(misspelled.unwrap_or_else(added))
    };
    match invalid {
        Invalid::NoType => fields.misspelled("type").or_else(|| missing(&["command", "url"])),
        Invalid::NoCommand => missing(&["command"]),
        Invalid::NoUrl => missing(&["url"]),
        Invalid::UnsupportedType(word) => {
            let meant = match word.to_lowercase().as_str() {
                "http" | "https" | "streamable" => Some("streamable-http"),
                word => similar(word, ["stdio", "streamable-http", "sse"]).first().copied(),
            };
            meant.map(|meant| format!("write `type: {meant}`"))
        }
        _ => None,
    }
}

/// Text, also where YAML sees a number or a truth value: `args: [--port, 8080]` is clear.
pub(super) fn written(reader: &mut Reader, node: &Node) -> Option<String> {
    match node.written() {
        Some(text) => Some(text.to_owned()),
        None => match &node.value {
            NodeValue::Scalar(scalar) => match &scalar.value {
                Value::Int(digits) => Some(digits.clone()),
                Value::Bool(truth) => Some(truth.to_string()),
                _ => reader.text(node),
            },
            NodeValue::List(_) | NodeValue::Map(_) => reader.text(node),
        },
    }
}

fn seconds(reader: &mut Reader, node: &Node) -> Option<u32> {
    let number = reader.number(node)?;
    if number.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&number) {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is whole and within the range"
        )]
        return Some(number as u32);
    }
    reader.refuse(node, "Input should be a whole number of seconds", "write a whole number")
}

pub(super) fn text_or_empty(
    reader: &mut Reader,
    fields: &Fields<'_>,
    name: &str,
) -> Option<String> {
    let Setting(text) = reader.nullable(fields, name, Reader::text)?;
    Some(text.unwrap_or_default())
}

pub(super) fn texts_or_none(
    reader: &mut Reader,
    fields: &Fields<'_>,
    name: &str,
) -> Option<Vec<String>> {
    let Setting(texts) =
        reader.nullable(fields, name, |reader, node| reader.list(node, Reader::text))?;
    Some(texts.unwrap_or_default())
}

/// A truth value that may be left out; the outer option says whether it could be read.
#[expect(clippy::option_option, reason = "left out is not unreadable")]
pub(super) fn flag(reader: &mut Reader, fields: &Fields<'_>, name: &str) -> Option<Option<bool>> {
    reader.nullable(fields, name, Reader::truth).map(|Setting(truth)| truth)
}

pub(super) fn name_or(name: String, fallback: &str) -> String {
    if name.is_empty() { fallback.to_owned() } else { name }
}

/// The pairs of a mapping that `known` does not name.
pub(super) fn rest(node: &Node, known: &[&str]) -> Vec<(Value, Value)> {
    let NodeValue::Map(pairs) = &node.value else { return Vec::new() };
    let unknown =
        pairs.iter().filter(|(key, _)| key.as_text().is_none_or(|key| !known.contains(&key)));
    unknown.map(|(key, value)| (key.to_value(), value.to_value())).collect()
}

/// Whether a value is the one that is not written.
fn nothing<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[cfg(test)]
mod tests;
