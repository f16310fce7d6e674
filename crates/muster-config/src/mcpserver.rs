//! MCP server files.

mod check;
pub mod fields;
mod status;

use std::time::Duration;

use indexmap::IndexMap;
use muster_core::{
    connect::{Endpoint, MachineIdentity},
    name::check_resource_name,
    server_auth::{AuthType, ServerAuth, TeleportAuth},
    suggest::similar,
    value::Value,
};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use self::fields::{SPEC, TRANSPORTS};
use super::{
    LoadError, Loaded,
    reader::{Fields, Reader, load},
    resource::{self, Form, Resource, ResourceFormat, SpecNode, resource_format},
};

pub use self::{
    check::{InvalidMcpServer, server_type},
    status::McpServerStatus,
};

/// The timeout of a connection attempt when the file sets none.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// The file format. A server in the short form starts by default: three lines are enough.
pub static FORMAT: ResourceFormat = resource_format!("MCPServer", &SPEC, &["command", "url"]);

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

/// Fields that are preserved when a file is rewritten.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PreservedFields {
    metadata: OtherFields,
    spec: OtherFields,
}

/// How an MCP server is reached. Each field has a row in [`fields::SPEC`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct McpServerSpec {
    /// Its transport.
    #[serde(rename = "type")]
    pub kind: ServerType,
    /// Whether it is connected when the gateway starts.
    pub auto_start: bool,
    /// Replaces its name in the names of its tools; empty for none.
    #[serde(skip_serializing_if = "is_default")]
    pub tool_prefix: String,
    /// One line about it.
    #[serde(skip_serializing_if = "is_default")]
    pub description: String,
    /// The program of a local server.
    #[serde(skip_serializing_if = "is_default")]
    pub command: String,
    /// Its arguments.
    #[serde(skip_serializing_if = "is_default")]
    pub args: Vec<String>,
    /// Variables added to its environment.
    #[serde(skip_serializing_if = "is_default")]
    pub env: IndexMap<String, String>,
    /// The names of variables that it inherits from the gateway.
    #[serde(skip_serializing_if = "is_default")]
    pub inherit_env: Vec<String>,
    /// The address of a remote server.
    #[serde(skip_serializing_if = "is_default")]
    pub url: String,
    /// HTTP headers sent with every request.
    #[serde(skip_serializing_if = "is_default")]
    pub headers: IndexMap<String, String>,
    /// Timeout of a connection attempt in seconds; zero for the default.
    #[serde(skip_serializing_if = "is_default")]
    pub timeout: u32,
    /// Timeout of a call in seconds; zero for none.
    #[serde(skip_serializing_if = "is_default")]
    pub call_timeout: u32,
    /// How the gateway authenticates to it.
    #[serde(skip_serializing_if = "is_default")]
    pub auth: Option<ServerAuth>,
}

/// The transports of MCP.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServerType {
    /// A child process.
    #[default]
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

    /// Whether it is a child process.
    pub const fn is_local(self) -> bool {
        matches!(self, Self::Stdio)
    }
}

impl McpServerSpec {
    /// A spec with defaults for everything but the type.
    pub fn of(kind: ServerType) -> Self {
        Self { kind, ..Self::default() }
    }

    /// The spec of a server at `endpoint`, with defaults for everything else.
    pub fn at(endpoint: Endpoint) -> Self {
        match endpoint {
            Endpoint::Stdio { command, args, env, inherit } => Self {
                command,
                args,
                env: env.into_iter().collect(),
                inherit_env: inherit,
                ..Self::of(ServerType::Stdio)
            },
            Endpoint::Http { url, headers } | Endpoint::Mtls { url, headers, .. } => {
                let headers = headers.into_iter().collect();
                Self { url, headers, ..Self::of(ServerType::StreamableHttp) }
            }
            Endpoint::Sse { url, headers } => {
                let headers = headers.into_iter().collect();
                Self { url, headers, ..Self::of(ServerType::Sse) }
            }
        }
    }

    /// The endpoint to connect to.
    pub fn endpoint(&self) -> Endpoint {
        let pairs = |map: &IndexMap<String, String>| {
            map.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
        };
        match self.kind {
            ServerType::Stdio => Endpoint::Stdio {
                command: self.command.clone(),
                args: self.args.clone(),
                env: pairs(&self.env),
                inherit: self.inherit_env.clone(),
            },
            ServerType::StreamableHttp => {
                let (url, headers) = (self.url.clone(), pairs(&self.headers));
                match self.teleport() {
                    None => Endpoint::Http { url, headers },
                    Some(teleport) => Endpoint::Mtls {
                        url,
                        headers,
                        identity: match teleport.identity_dir.as_str() {
                            "" => MachineIdentity::Secret(teleport.identity_secret_name.clone()),
                            folder => MachineIdentity::Directory(folder.to_owned()),
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

    /// The Teleport identity, if it is reached through Teleport.
    pub fn teleport(&self) -> Option<&TeleportAuth> {
        let auth = self.auth.as_ref().filter(|auth| auth.kind == AuthType::Teleport)?;
        auth.teleport.as_ref()
    }

    /// The timeout of a connection attempt.
    pub fn limit(&self) -> Duration {
        match self.timeout {
            0 => DEFAULT_TIMEOUT,
            seconds => Duration::from_secs(seconds.into()),
        }
    }

    /// The timeout of a call, if there is one.
    pub fn call_limit(&self) -> Option<Duration> {
        (self.call_timeout > 0).then(|| Duration::from_secs(self.call_timeout.into()))
    }

    /// Whether a server that runs with `self` must be restarted to run with `next`.
    pub fn needs_restart(&self, next: &Self) -> bool {
        let essential =
            |spec: &Self| Self { description: String::new(), auto_start: false, ..spec.clone() };
        essential(self) != essential(next)
    }
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
    load(text, |reader, node| {
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
    let mut values = reader.values(&fields, &SPEC)?;
    let text = |name: &str| values.get(name).and_then(Json::as_str).unwrap_or_default();
    let kind = match (text("type"), text("command"), text("url")) {
        // The transport is clear where only one address is given.
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
            let known: Vec<&str> = SPEC.names().collect();
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

/// Whether a value is the default, which files leave out.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[cfg(test)]
mod tests;
