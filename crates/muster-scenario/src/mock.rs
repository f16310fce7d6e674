//! Mock MCP servers: tools that answer what a scenario says, and misbehave when it says so.

pub mod config;
pub mod control;
pub mod engine;
pub mod fault;
pub mod remote;
mod shelf;
pub mod stdio;

use std::time::Duration;

use serde_json::{Map, Value};

use fault::Fault;

/// What a mock server answers.
#[derive(Debug, Clone, Default)]
pub struct MockConfig {
    /// Its tools.
    pub tools: Vec<MockTool>,
    /// What every call suffers.
    pub fault: Option<Fault>,
    /// The prefix muster is told to use, if not the server's name.
    pub prefix: Option<String>,
    /// How the errors of its tools are told.
    pub failing: Failing,
    /// What else than tools it has.
    pub shelf: Shelf,
    /// What it has, as it was written, for the file of a mock that is a process.
    pub written: Map<String, Value>,
}

/// Resources and prompts of a mock server, in the form of the protocol.
#[derive(Debug, Clone, Default)]
pub struct Shelf {
    /// With their `text` or `blob`.
    pub resources: Vec<Value>,
    /// Addresses with parts that are left open.
    pub templates: Vec<Value>,
    /// With their `messages`, which may refer to arguments.
    pub prompts: Vec<Value>,
}

/// How the errors of a mock's tools are told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Failing {
    /// As errors of the protocol.
    #[default]
    AsError,
    /// As results that say that they are errors, as protected servers do.
    AsResult,
}

/// One tool of a mock server.
#[derive(Debug, Clone)]
pub struct MockTool {
    /// Its name.
    pub name: String,
    /// Its description.
    pub description: String,
    /// What is put below the arguments of a call.
    pub defaults: Map<String, Value>,
    /// What clients are shown. The original showed no properties.
    pub shown_schema: Value,
    /// What it may answer; the first that fits counts.
    pub responses: Vec<MockResponse>,
    /// How it was written.
    pub written: Value,
}

/// What an answer may carry beside its text.
#[derive(Debug, Clone, Default)]
pub struct Extra {
    /// Contents of any kind, in the place of the text.
    pub content: Option<Value>,
    /// Structured content.
    pub structured: Option<Value>,
    /// Whether the tool says that it failed.
    pub is_error: bool,
}

/// One possible answer.
#[derive(Debug, Clone, Default)]
pub struct MockResponse {
    /// It fits if all of these are among the arguments; without any it always does.
    pub condition: Option<Map<String, Value>>,
    /// What is answered.
    pub response: Value,
    /// What is answered beside it, or instead of it.
    pub extra: Extra,
    /// What the error says, if it is one.
    pub error: Option<String>,
    /// How long it takes.
    pub delay: Duration,
    /// How the answer goes wrong.
    pub fault: Option<Fault>,
}
