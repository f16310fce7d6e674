//! `core_mcpserver_list` and `core_mcpserver_get`.

use indexmap::IndexMap;
use muster_core::connect::OutputStream;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{auth::LoginState, is_false, is_zero, keyword::known, state::ServerState};

/// The reply of `core_mcpserver_list`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct McpServerList {
    /// The number of failed servers that are not listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hidden_failed: Option<usize>,
    /// How to list them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The servers, by name.
    pub mcp_servers: Vec<McpServerInfo>,
    /// Where definitions are stored; always `filesystem`.
    pub mode: String,
    /// The number of servers listed.
    pub total: usize,
}

/// The definition and the state of one server. Secrets are redacted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct McpServerInfo {
    /// Its name.
    pub name: String,
    /// `stdio`, `streamable-http` or `sse`.
    pub r#type: String,
    /// One line about it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Whether it is connected when the gateway starts.
    #[serde(skip_serializing_if = "is_false")]
    pub auto_start: bool,
    /// The program of a stdio server.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub command: String,
    /// The program's arguments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// The URL of a remote server.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub url: String,
    /// Variables added to the program's environment.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub env: IndexMap<String, String>,
    /// The names of variables that the program inherits from the gateway; `*` for all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub inherit_env: Vec<String>,
    /// HTTP headers sent with every request.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub headers: IndexMap<String, String>,
    /// How callers log in to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth: Option<Value>,
    /// The connect timeout in seconds; 0 for the default.
    #[serde(skip_serializing_if = "is_zero")]
    pub timeout: u64,
    /// The call timeout in seconds; 0 for none.
    #[serde(skip_serializing_if = "is_zero")]
    pub call_timeout: u64,
    /// The protocol that the gateway must speak to it: `legacy` or `modern`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub protocol_era: String,
    /// Which replicas run it, unless all do: `one`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub run_on: String,
    /// Replaces the name in the names of its tools.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub tool_prefix: String,
    /// The family that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub family: Option<McpServerFamily>,
    /// The subject of the caller that created it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub registered_by: String,
    /// The last error.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub error: String,
    /// Its state.
    pub state: ServerState,
    /// When it came into this state, in RFC 3339. Attempts to connect that fail in a row are one state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// What to do about its state.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub status_message: String,
    /// The number of failed attempts to connect in a row.
    #[serde(skip_serializing_if = "is_zero")]
    pub consecutive_failures: u64,
    /// The number of consecutive calls that it did not answer, while its circuit breaker is open.
    #[serde(skip_serializing_if = "is_zero")]
    pub call_failures: u64,
    /// The last attempt to connect, in RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_attempt: Option<String>,
    /// The next attempt to connect, in RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_retry_after: Option<String>,
    /// The caller's own connection to it.
    #[serde(flatten)]
    pub session: Option<McpServerSession>,
}

/// The family of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct McpServerFamily {
    /// Its name, in the names of its tools.
    pub name: String,
    /// The argument that selects a server.
    pub instance_arg: String,
}

/// A caller's own connection to a server that requires a login.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpServerSession {
    /// The state of the server in `auth://status`.
    pub session_status: LoginState,
    /// When it was connected, in RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connected_at: Option<String>,
    /// The number of its tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools_count: Option<usize>,
}

/// The reply of `core_mcpserver_logs`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServerLog {
    /// The name of the server.
    pub name: String,
    /// The lines, the oldest first.
    pub lines: Vec<ServerLogLine>,
}

/// A line that a local server wrote outside the protocol.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServerLogLine {
    /// Its sequence number since the gateway started.
    pub number: u64,
    /// When it was written, in RFC 3339.
    pub time: String,
    /// Where it was written; standard output for a line that is not a message.
    #[serde(deserialize_with = "known")]
    pub stream: Option<OutputStream>,
    /// The line.
    pub text: String,
}
