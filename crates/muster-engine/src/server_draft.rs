//! A draft of an MCP server, from the arguments of a core tool.

use muster_config::mcpserver::{Approval, InvalidMcpServer, McpServer, McpServerSpec, server_type};
use muster_core::{
    call::{Caller, Role},
    name::check_resource_name,
    secret_text::REDACTED,
};
use serde_json::{Map, Value, json};

use crate::redact;

/// The beginning of a reference to the secret store.
const SECRET_REFERENCE: &str = "secret://";

/// The arguments that create or update a server. They fit the fields of its format.
#[derive(Debug, Clone)]
pub(crate) struct ServerDraft {
    pub(crate) name: String,
    kind: String,
    given: Map<String, Value>,
    /// The fields that get their default: those of `reset`, and those with an empty text or zero.
    cleared: Vec<String>,
    /// Whether an operator must approve the result before it is connected.
    needs_approval: bool,
    /// The subject of the caller that creates it.
    creator: Option<String>,
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
        let reset = given.remove("reset").map(serde_json::from_value::<Vec<String>>).transpose()?;
        let never = |name: &String| ["type", "approval"].contains(&name.as_str());
        let reset = reset.unwrap_or_default().into_iter().filter(|name| !never(name));
        let is_cleared = |value: &Value| value == "" || value == 0;
        let cleared = given.iter().filter(|(_, value)| is_cleared(value));
        let cleared: Vec<String> = cleared.map(|(name, _)| name.clone()).chain(reset).collect();
        given.retain(|_, value| !is_cleared(value));
        serde_json::from_value::<McpServerSpec>(Value::Object(given.clone()))?;
        Ok(Self { name, kind, given, cleared, needs_approval: false, creator: None })
    }

    /// The draft of a caller with this role. A program that an agent wants to run, or a URL that it wants requests and
    /// tokens sent to, is stored and waits for an operator.
    pub(crate) fn by(self, role: Role) -> Self {
        Self { needs_approval: role == Role::Agent, ..self }
    }

    /// The draft of a server that this caller creates. Without logins all callers are one user.
    pub(crate) fn registered_by(self, caller: &Caller) -> Self {
        let subject = caller.principal.as_ref().map_or("default-user", |who| &who.subject);
        Self { creator: Some(subject.to_owned()), ..self }
    }

    /// A new server in a namespace.
    pub(crate) fn create(self, namespace: &str) -> Result<McpServer, InvalidMcpServer> {
        check_resource_name(&self.name)?;
        let mut spec = McpServerSpec::of(server_type(&self.kind)?);
        if self.needs_approval {
            spec.approval = Approval::Pending;
        }
        let mut server = McpServer::new(self.name.clone(), namespace, spec);
        if let Some(creator) = &self.creator {
            server.register(creator);
        }
        self.apply(server)
    }

    /// The server with the given fields replaced.
    pub(crate) fn update(self, server: &McpServer) -> Result<McpServer, InvalidMcpServer> {
        let before = &server.spec;
        let needs_approval = self.needs_approval;
        let mut server = server.clone();
        self.drop_secrets(&mut server.spec);
        if !self.kind.is_empty() {
            server.spec.kind = server_type(&self.kind)?;
        }
        let mut server = self.apply(server)?;
        if needs_approval && before.needs_restart(&server.spec) {
            server.spec.approval = Approval::Pending;
        }
        Ok(server)
    }

    fn is_cleared(&self, name: &str) -> bool {
        self.cleared.iter().any(|cleared| cleared == name)
    }

    /// The secrets that an update drops, by field and name: those of another address or program that are not
    /// given again.
    pub(crate) fn dropped_secrets(&self, server: &McpServer) -> Vec<String> {
        self.drop_secrets(&mut server.spec.clone())
    }

    /// Drops the secrets of a spec that gets another address or program, so that they do not leak to a new recipient.
    fn drop_secrets(&self, spec: &mut McpServerSpec) -> Vec<String> {
        let differs = |name: &str, now: Value| {
            let cleared = self.is_cleared(name) && now != "" && now != json!([]);
            self.given.get(name).map_or(cleared, |new| *new != now)
        };
        let program = differs("command", json!(spec.command));
        let moves = program
            || differs("url", json!(spec.url))
            || differs("args", json!(spec.args))
            || (!self.kind.is_empty() && self.kind != spec.kind.as_str());
        if !moves {
            return Vec::new();
        }
        let mut dropped = Vec::new();
        let mut keep = |field: &str, name: &str, value: &str| {
            let is_secret = value.contains(SECRET_REFERENCE)
                || redact::setting(name, value) != value
                || redact::address(value) != value;
            let given =
                self.given.get(field).and_then(|given| given.get(name)).and_then(Value::as_str);
            if is_secret && given.is_none_or(|given| given.contains(REDACTED)) {
                dropped.push(format!("{field} `{name}`"));
            }
            !is_secret
        };
        spec.headers.retain(|name, value| keep("headers", name, value));
        spec.env.retain(|name, value| keep("env", name, value));
        let has_secret_args = redact::arguments(&spec.args) != spec.args
            || spec.args.iter().any(|word| word.contains(SECRET_REFERENCE));
        if program && !self.given.contains_key("args") && has_secret_args {
            spec.args.clear();
            dropped.push("args".to_owned());
        }
        if spec.auth.take().is_some() && !self.given.contains_key("auth") {
            dropped.push("auth".to_owned());
        }
        dropped
    }

    fn apply(self, mut server: McpServer) -> Result<McpServer, InvalidMcpServer> {
        let mut fields = match serde_json::to_value(&server.spec) {
            Ok(Value::Object(fields)) => fields,
            Ok(_) | Err(_) => Map::new(),
        };
        fields.retain(|name, _| !self.cleared.contains(name));
        for (name, mut value) in self.given {
            restore_redacted(&mut value, fields.get(&name));
            fields.insert(name, value);
        }
        // This cannot fail: the arguments were read as a spec before.
        server.spec = serde_json::from_value(Value::Object(fields)).unwrap_or(server.spec);
        server.spec.check()?;
        Ok(server)
    }
}

/// Restores the values that were shown redacted and are sent back redacted.
fn restore_redacted(value: &mut Value, before: Option<&Value>) {
    let Value::Object(pairs) = value else { return };
    let known = |name: &str| before.and_then(|before| before.get(name));
    // A redacted value that was dropped cannot be restored.
    let redacted = |value: &Value| value.as_str().is_some_and(|text| text.contains(REDACTED));
    pairs.retain(|name, value| !redacted(value) || known(name).is_some());
    for (name, value) in pairs {
        let (Some(sent), Some(known)) = (value.as_str(), known(name)) else { continue };
        let shown = known.as_str().map(|known| redact::setting(name, known));
        if sent.contains(REDACTED) && (sent == REDACTED || shown.is_some_and(|shown| shown == sent))
        {
            *value = known.clone();
        }
    }
}
