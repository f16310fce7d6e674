//! The scenario file as values.

use std::{path::PathBuf, time::Duration};

use serde_json::{Map, Value};

use crate::{
    mock::MockConfig,
    oauth::config::{GuardConfig, ProviderConfig},
};

/// One file.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// Where it was read from.
    pub file: PathBuf,
    /// What it is called.
    pub name: String,
    /// `behavioral` or `integration`, or any other text.
    pub category: String,
    /// What it is about: `workflow`, `mcpserver` and so on.
    pub concept: String,
    /// For people.
    pub description: String,
    /// For people.
    pub tags: Vec<String>,
    /// Whether it is to be left out.
    pub skip: bool,
    /// How long all of it may take.
    pub timeout: Option<Duration>,
    /// What there is before the first step.
    pub before: PreConfiguration,
    /// What is done.
    pub steps: Vec<Step>,
    /// What is done at the end, whatever happened.
    pub cleanup: Vec<Step>,
}

/// One call of a tool.
#[derive(Debug, Clone)]
pub struct Step {
    /// Its name, under which later steps find its result.
    pub id: String,
    /// The line it begins at.
    pub line: usize,
    /// For people.
    pub description: String,
    /// Which tool.
    pub tool: String,
    /// With what; absent is sent as absent.
    pub args: Option<Map<String, Value>>,
    /// How the answer must be.
    pub expected: Expected,
    /// How long the call may take.
    pub timeout: Option<Duration>,
    /// Who calls, from here on.
    pub as_user: Option<String>,
}

/// How an answer must be.
#[derive(Debug, Clone, Default)]
pub struct Expected {
    /// Whether the call succeeds. Where nothing is said it must fail.
    pub success: bool,
    /// All of these are in the error.
    pub error_contains: Vec<String>,
    /// All of these are in the answer.
    pub contains: Vec<String>,
    /// None of these is in the answer.
    pub not_contains: Vec<String>,
    /// Values at places of the answer.
    pub json_path: Vec<(String, Value)>,
    /// The tool is called again until the rest holds, this long.
    pub wait_for_state: Option<Duration>,
    /// How large the answer may be.
    pub budget: Budget,
    /// What else arrives, or does not.
    pub notifications: Vec<ExpectedNotification>,
}

/// How large and how late an answer may be.
#[derive(Debug, Clone, Copy, Default)]
pub struct Budget {
    /// The texts of the answer, in bytes.
    pub max_bytes: Option<usize>,
    /// The texts of the answer, in tokens.
    pub max_tokens: Option<usize>,
    /// From the call to its answer.
    pub max_duration: Option<Duration>,
}

/// A notification that the server sends, or must not send, from the beginning of the step on.
#[derive(Debug, Clone)]
pub struct ExpectedNotification {
    /// Its method.
    pub method: String,
    /// All of these are in its parameters.
    pub contains: Vec<String>,
    /// How long after the answer it may still arrive.
    pub within: Duration,
    /// Whether it must arrive or must not.
    pub presence: Presence,
}

/// Whether something has to be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// It has to be.
    Present,
    /// It must not be.
    Absent,
}

/// What there is before the first step.
#[derive(Debug, Clone, Default)]
pub struct PreConfiguration {
    /// Servers behind muster.
    pub mcp_servers: Vec<Server>,
    /// Objects that are written to files.
    pub objects: Vec<Object>,
    /// Keys of `config.yaml` that are replaced.
    pub main_config: Map<String, Value>,
    /// Identity providers.
    pub oauth_servers: Vec<ProviderConfig>,
    /// More files below the configuration directory: path and text.
    pub files: Vec<(String, String)>,
    /// More environment variables of the instance.
    pub env: Vec<(String, String)>,
    /// More arguments of `muster serve`.
    pub serve_args: Vec<String>,
}

/// A server behind muster.
#[derive(Debug, Clone)]
pub struct Server {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: ServerKind,
}

/// What a server behind muster is.
#[derive(Debug, Clone)]
pub enum ServerKind {
    /// A mock that muster starts as a process.
    Stdio(MockConfig),
    /// A mock in this process, reached over HTTP.
    Remote {
        /// What it answers.
        mock: MockConfig,
        /// How it is spoken to.
        transport: Transport,
        /// What `oauth` says, if it is there.
        oauth: Option<Box<GuardConfig>>,
    },
    /// No mock: written as it is.
    Plain(Map<String, Value>),
}

/// How a remote mock is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// One address for everything.
    StreamableHttp,
    /// A stream, and an address for messages.
    Sse,
}

/// Something that is written to a file of its own.
#[derive(Debug, Clone)]
pub struct Object {
    /// What it is.
    pub kind: ObjectKind,
    /// Its name.
    pub name: String,
    /// Its `spec`.
    pub spec: Map<String, Value>,
}

/// The kinds of objects beside servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectKind {
    /// A workflow.
    Workflow,
    /// A service class.
    ServiceClass,
    /// A service, which nothing reads.
    Service,
}

impl Transport {
    /// As the `type` of a server says it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::StreamableHttp => "streamable-http",
            Self::Sse => "sse",
        }
    }

    /// Where the mock listens.
    pub const fn path(self) -> &'static str {
        match self {
            Self::StreamableHttp => "/mcp",
            Self::Sse => "/sse",
        }
    }
}

impl Server {
    /// The mock behind it, if it is one.
    pub const fn mock(&self) -> Option<&MockConfig> {
        match &self.kind {
            ServerKind::Stdio(mock) | ServerKind::Remote { mock, .. } => Some(mock),
            ServerKind::Plain(_) => None,
        }
    }

    /// Whether it wants a login.
    pub fn is_protected(&self) -> bool {
        self.guard().is_some_and(|guard| guard.required)
    }

    /// What it says about logins, if it says anything.
    pub fn guard(&self) -> Option<&GuardConfig> {
        match &self.kind {
            ServerKind::Remote { oauth, .. } => oauth.as_deref(),
            ServerKind::Stdio(_) | ServerKind::Plain(_) => None,
        }
    }
}

impl Scenario {
    /// One that prepares nothing and does nothing.
    pub fn empty(name: &str) -> Self {
        Self {
            file: PathBuf::new(),
            name: name.to_owned(),
            category: String::new(),
            concept: String::new(),
            description: String::new(),
            tags: Vec::new(),
            skip: false,
            timeout: None,
            before: PreConfiguration::default(),
            steps: Vec::new(),
            cleanup: Vec::new(),
        }
    }

    /// Steps and cleanup steps.
    pub fn all_steps(&self) -> impl Iterator<Item = &Step> {
        self.steps.iter().chain(&self.cleanup)
    }

    /// Whether any step looks at notifications, so that somebody has to listen.
    pub fn listens(&self) -> bool {
        self.all_steps().any(|step| !step.expected.notifications.is_empty())
    }
}
