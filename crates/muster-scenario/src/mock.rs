//! Mock MCP servers: tools with scripted responses and injected faults.

pub mod config;
mod content;
pub mod control;
pub mod engine;
pub mod fault;
pub mod remote;
pub mod stdio;

use std::time::Duration;

use serde_json::{Map, Value};

use fault::Fault;

/// The definition of a mock server.
#[derive(Debug, Clone, Default)]
pub struct MockConfig {
    /// Its tools.
    pub tools: Vec<MockTool>,
    /// A fault for every call.
    pub fault: Option<Fault>,
    /// The `toolPrefix` configured in muster, if not the server's name.
    pub prefix: Option<String>,
    /// The family configured in muster.
    pub family: Option<Map<String, Value>>,
    /// How tool errors are returned.
    pub error_style: ErrorStyle,
    /// Its resources and prompts.
    pub content: MockContent,
    /// The definition as written, for the file of a mock process.
    pub written: Map<String, Value>,
}

/// Resources and prompts of a mock server, in protocol form.
#[derive(Debug, Clone, Default)]
pub struct MockContent {
    /// With their `text` or `blob`.
    pub resources: Vec<Value>,
    /// Resource templates.
    pub templates: Vec<Value>,
    /// With their `messages`, which may contain templates.
    pub prompts: Vec<Value>,
}

/// How a mock returns tool errors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ErrorStyle {
    /// As JSON-RPC errors.
    #[default]
    ProtocolError,
    /// As results with `isError`, as protected servers do.
    ToolResult,
}

/// One tool of a mock server.
#[derive(Debug, Clone)]
pub struct MockTool {
    /// Its name.
    pub name: String,
    /// Its description.
    pub description: String,
    /// Default arguments.
    pub defaults: Map<String, Value>,
    /// The schema shown to clients. The original showed no properties.
    pub shown_schema: Value,
    /// Its responses; the first that matches is used.
    pub responses: Vec<MockResponse>,
    /// Whether its result shows the token that it was called with.
    pub echo_token: bool,
    /// The definition as written.
    pub written: Value,
}

/// The parts of a response besides its text.
#[derive(Debug, Clone, Default)]
pub struct ResponseExtras {
    /// Content of any kind, replacing the text.
    pub content: Option<Value>,
    /// Structured content.
    pub structured: Option<Value>,
    /// Whether the result has `isError`.
    pub is_error: bool,
}

/// A scripted response.
#[derive(Debug, Clone, Default)]
pub struct MockResponse {
    /// Matches if the arguments contain all of these; without a condition it always matches.
    pub condition: Option<Map<String, Value>>,
    /// The response text or value.
    pub response: Value,
    /// Other parts of the response.
    pub extra: ResponseExtras,
    /// The error message, if it is an error.
    pub error: Option<String>,
    /// The delay before it is sent.
    pub delay: Duration,
    /// The fault injected into it.
    pub fault: Option<Fault>,
}
