//! A scenario file as typed values.

use std::{path::PathBuf, time::Duration};

use serde_json::{Map, Value};

use crate::{
    mock::MockConfig,
    oauth::config::{GuardConfig, MockProviderConfig},
};

/// A scenario, read from one file.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// Where it was read from.
    pub file: PathBuf,
    /// Its name.
    pub name: String,
    /// `behavioral` or `integration`, or any other text.
    pub category: String,
    /// The concept under test: `workflow`, `mcpserver` and so on.
    pub concept: String,
    /// Free text.
    pub description: String,
    /// Free text.
    pub tags: Vec<String>,
    /// Whether it is skipped by default.
    pub skip: bool,
    /// The timeout of the whole scenario.
    pub timeout: Option<Duration>,
    /// The setup before the first step.
    pub setup: PreConfiguration,
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// Steps that run at the end, whether or not the others passed.
    pub cleanup: Vec<Step>,
}

/// One tool call.
#[derive(Debug, Clone)]
pub struct Step {
    /// The id under which later steps refer to its result.
    pub id: String,
    /// The line it begins at.
    pub line: usize,
    /// Free text.
    pub description: String,
    /// The tool to call.
    pub tool: String,
    /// The arguments; an absent value is sent as absent.
    pub args: Option<Map<String, Value>>,
    /// The expected result.
    pub expected: Expected,
    /// The timeout of the call.
    pub timeout: Option<Duration>,
    /// Switches to this user, for this step and the following ones.
    pub as_user: Option<String>,
}

/// How an answer must be.
#[derive(Debug, Clone, Default)]
pub struct Expected {
    /// Whether the call succeeds. By default it must fail.
    pub success: bool,
    /// Texts that the error must contain.
    pub error_contains: Vec<String>,
    /// Texts that the result must contain.
    pub contains: Vec<String>,
    /// Texts that the result must not contain.
    pub not_contains: Vec<String>,
    /// Expected values by JSON path.
    pub json_path: Vec<(String, Value)>,
    /// Repeats the call for this long until the other expectations hold.
    pub wait_for_state: Option<Duration>,
    /// Limits on size and time.
    pub budget: Budget,
    /// Notifications that must or must not arrive.
    pub notifications: Vec<ExpectedNotification>,
}

/// Limits on the size and the latency of a result.
#[derive(Debug, Clone, Copy, Default)]
pub struct Budget {
    /// Of all texts together, in bytes.
    pub max_bytes: Option<usize>,
    /// Of all texts together, in tokens.
    pub max_tokens: Option<usize>,
    /// From the call to its result.
    pub max_duration: Option<Duration>,
}

/// A notification that must or must not arrive after the start of the step.
#[derive(Debug, Clone)]
pub struct ExpectedNotification {
    /// Its method.
    pub method: String,
    /// Texts that its parameters must contain.
    pub contains: Vec<String>,
    /// How long after the result to wait for it.
    pub within: Duration,
    /// Whether it must arrive or must not arrive.
    pub presence: Presence,
}

/// Whether something must be present.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// It must be present.
    Present,
    /// It must be absent.
    Absent,
}

/// The setup before the first step.
#[derive(Debug, Clone, Default)]
pub struct PreConfiguration {
    /// Upstream MCP servers.
    pub mcp_servers: Vec<ScenarioServer>,
    /// Objects written to files of their own.
    pub objects: Vec<ConfigObject>,
    /// Top-level keys of `config.yaml` to replace.
    pub main_config: Map<String, Value>,
    /// Mock identity providers.
    pub oauth_servers: Vec<MockProviderConfig>,
    /// Mock providers whose tokens muster accepts beside those of its own.
    pub trusted_issuers: Vec<TrustedMock>,
    /// Additional files below the configuration directory: path and text.
    pub files: Vec<(String, String)>,
    /// Additional environment variables of the instance.
    pub env: Vec<(String, String)>,
    /// Additional arguments of `muster serve`.
    pub serve_args: Vec<String>,
}

/// A mock provider whose tokens muster accepts.
#[derive(Debug, Clone)]
pub struct TrustedMock {
    /// The provider.
    pub provider: String,
    /// The settings of `trustedIssuers` besides the issuer and its keys.
    pub settings: Map<String, Value>,
}

/// An upstream MCP server.
#[derive(Debug, Clone)]
pub struct ScenarioServer {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: ServerKind,
}

/// The kind of an upstream server.
#[derive(Debug, Clone)]
pub enum ServerKind {
    /// A mock that muster starts as a process.
    Stdio(MockConfig),
    /// A mock in this process, served over HTTP.
    Remote {
        /// Its tools and responses.
        mock: MockConfig,
        /// Its transport.
        transport: MockTransport,
        /// Its `oauth` section, if present.
        oauth: Option<Box<GuardConfig>>,
    },
    /// Not a mock: its configuration is written as given.
    Plain(Map<String, Value>),
}

/// The transport of a remote mock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MockTransport {
    /// One endpoint for everything.
    StreamableHttp,
    /// An event stream, and an endpoint for messages.
    Sse,
}

/// An object written to a file of its own.
#[derive(Debug, Clone)]
pub struct ConfigObject {
    /// Its kind.
    pub kind: ObjectKind,
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: Map<String, Value>,
    /// Its `spec`.
    pub spec: Map<String, Value>,
}

/// The kinds of objects besides servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectKind {
    /// A workflow.
    Workflow,
    /// A service class.
    ServiceClass,
    /// A service, which the gateway does not read from files.
    Service,
}

impl MockTransport {
    /// Its name in the `type` of a server.
    pub const fn name(self) -> &'static str {
        match self {
            Self::StreamableHttp => "streamable-http",
            Self::Sse => "sse",
        }
    }

    /// The path of the mock's endpoint.
    pub const fn path(self) -> &'static str {
        match self {
            Self::StreamableHttp => "/mcp",
            Self::Sse => "/sse",
        }
    }
}

impl ScenarioServer {
    /// Its mock, if it is one.
    pub const fn mock(&self) -> Option<&MockConfig> {
        match &self.kind {
            ServerKind::Stdio(mock) | ServerKind::Remote { mock, .. } => Some(mock),
            ServerKind::Plain(_) => None,
        }
    }

    /// Whether it requires a login.
    pub fn is_protected(&self) -> bool {
        self.guard().is_some_and(|guard| guard.required)
    }

    /// Its authorization settings, if any.
    pub fn guard(&self) -> Option<&GuardConfig> {
        match &self.kind {
            ServerKind::Remote { oauth, .. } => oauth.as_deref(),
            ServerKind::Stdio(_) | ServerKind::Plain(_) => None,
        }
    }
}

impl Scenario {
    /// A scenario without setup and steps.
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
            setup: PreConfiguration::default(),
            steps: Vec::new(),
            cleanup: Vec::new(),
        }
    }

    /// Steps and cleanup steps.
    pub fn all_steps(&self) -> impl Iterator<Item = &Step> {
        self.steps.iter().chain(&self.cleanup)
    }

    /// Whether any step expects notifications, so that the client must open a stream.
    pub fn listens(&self) -> bool {
        self.all_steps().any(|step| !step.expected.notifications.is_empty())
    }
}
