//! A server as a tool's arguments describe it.

use indexmap::IndexMap;
use muster_config::{
    mcpserver::{Invalid, McpServer, Spec, server_type},
    settings::REDACTED,
};
use muster_core::{name::check_resource_name, server_auth::ServerAuth};
use serde::Deserialize;

/// What a call says about a server. What it leaves out is empty.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ServerDraft {
    pub(crate) name: String,
    #[serde(rename = "type")]
    kind: String,
    tool_prefix: String,
    description: String,
    auto_start: Option<bool>,
    command: String,
    args: Option<Vec<String>>,
    url: String,
    env: Option<IndexMap<String, String>>,
    headers: Option<IndexMap<String, String>>,
    timeout: i64,
    call_timeout: i64,
    auth: Option<ServerAuth>,
}

impl ServerDraft {
    /// A new server in a namespace.
    pub(crate) fn create(self, namespace: &str) -> Result<McpServer, Invalid> {
        check_resource_name(&self.name)?;
        let mut server =
            McpServer::new(self.name.clone(), namespace, Spec::of(server_type(&self.kind)?));
        self.apply(&mut server.spec)?;
        Ok(server)
    }

    /// What is said in place of what was, and the rest as it was.
    pub(crate) fn update(self, server: &McpServer) -> Result<McpServer, Invalid> {
        let mut server = server.clone();
        if !self.kind.is_empty() {
            server.spec.kind = server_type(&self.kind)?;
        }
        self.apply(&mut server.spec)?;
        Ok(server)
    }

    fn apply(self, spec: &mut Spec) -> Result<(), Invalid> {
        let text = |field: &mut String, given: String| {
            if !given.is_empty() {
                *field = given;
            }
        };
        text(&mut spec.tool_prefix, self.tool_prefix);
        text(&mut spec.description, self.description);
        text(&mut spec.command, self.command);
        text(&mut spec.url, self.url);
        spec.auto_start = self.auto_start.unwrap_or(spec.auto_start);
        if let Some(args) = self.args {
            spec.args = args;
        }
        keep_hidden(&mut spec.env, self.env);
        keep_hidden(&mut spec.headers, self.headers);
        if self.timeout > 0 {
            spec.timeout = u32::try_from(self.timeout).unwrap_or(u32::MAX);
        }
        if self.call_timeout > 0 {
            spec.call_timeout = u32::try_from(self.call_timeout).unwrap_or(u32::MAX);
        }
        if self.auth.is_some() {
            spec.auth = self.auth;
        }
        spec.check()
    }
}

/// Values that were shown hidden and come back hidden stay what they were.
fn keep_hidden(field: &mut IndexMap<String, String>, given: Option<IndexMap<String, String>>) {
    let Some(given) = given else { return };
    let before = std::mem::take(field);
    *field = given
        .into_iter()
        .map(|(name, value)| match before.get(&name) {
            Some(known) if value == REDACTED => (name, known.clone()),
            Some(_) | None => (name, value),
        })
        .collect();
}
