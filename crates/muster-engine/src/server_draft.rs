//! An MCP server as described by the arguments of a core tool.

use muster_config::mcpserver::{InvalidMcpServer, McpServer, McpServerSpec, server_type};
use muster_core::{name::check_resource_name, secret_text::REDACTED};
use serde_json::{Map, Value};

use crate::redact;

/// The arguments that create or update a server. They fit the fields of its format.
#[derive(Debug, Clone)]
pub(crate) struct ServerDraft {
    pub(crate) name: String,
    kind: String,
    given: Map<String, Value>,
}

impl ServerDraft {
    /// Reads arguments that were checked against the field table.
    pub(crate) fn new(arguments: Value) -> Result<Self, serde_json::Error> {
        let mut given: Map<String, Value> = serde_json::from_value(arguments)?;
        let mut text = |name: &str| match given.remove(name) {
            Some(Value::String(text)) => text,
            _ => String::new(),
        };
        let (name, kind) = (text("name"), text("type"));
        // An empty text and zero select the default, which leaving the field out does as well.
        given.retain(|_, value| value != "" && value != 0);
        serde_json::from_value::<McpServerSpec>(Value::Object(given.clone()))?;
        Ok(Self { name, kind, given })
    }

    /// A new server in a namespace.
    pub(crate) fn create(self, namespace: &str) -> Result<McpServer, InvalidMcpServer> {
        check_resource_name(&self.name)?;
        let spec = McpServerSpec::of(server_type(&self.kind)?);
        let server = McpServer::new(self.name.clone(), namespace, spec);
        self.apply(server)
    }

    /// The server with the fields that are given; others keep their values.
    pub(crate) fn update(self, server: &McpServer) -> Result<McpServer, InvalidMcpServer> {
        let mut server = server.clone();
        if !self.kind.is_empty() {
            server.spec.kind = server_type(&self.kind)?;
        }
        self.apply(server)
    }

    fn apply(self, mut server: McpServer) -> Result<McpServer, InvalidMcpServer> {
        let mut fields = match serde_json::to_value(&server.spec) {
            Ok(Value::Object(fields)) => fields,
            Ok(_) | Err(_) => Map::new(),
        };
        for (name, mut value) in self.given {
            if let Some(before) = fields.get(&name) {
                restore_redacted(&mut value, before);
            }
            fields.insert(name, value);
        }
        // It reads: the arguments were read as a spec before.
        server.spec = serde_json::from_value(Value::Object(fields)).unwrap_or(server.spec);
        server.spec.check()?;
        Ok(server)
    }
}

/// Values that were shown redacted and are sent back redacted keep their value.
fn restore_redacted(value: &mut Value, before: &Value) {
    let (Value::Object(pairs), Value::Object(before)) = (value, before) else { return };
    for (name, value) in pairs {
        let (Some(sent), Some(known)) = (value.as_str(), before.get(name)) else { continue };
        let shown = known.as_str().map(|known| redact::setting(name, known));
        if sent.contains(REDACTED) && (sent == REDACTED || shown.is_some_and(|shown| shown == sent))
        {
            *value = known.clone();
        }
    }
}
