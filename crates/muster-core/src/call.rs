//! Tool calls, their callers, outcomes and errors.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use thiserror::Error;

use crate::{
    arguments::ArgumentProblem,
    client::{Continuation, InputRequired},
    credentials::Principal,
    effect::{Effect, ExcessiveEffect},
    json::Raw,
    name::{BackendName, ToolName},
    trace_context::SpanContext,
};

/// The log target of lines that contain argument values. A gateway writes them only for debugging.
pub const ARGUMENT_VALUES: &str = "argument_values";

/// The log target of the audit log: one line per call.
pub const AUDIT: &str = "audit";

/// The caller of a tool, and the nesting depth of the call.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The authenticated subject, or `local` on a trusted pipe.
    pub subject: Arc<str>,
    /// The number of enclosing calls; limited by the dispatcher.
    pub depth: u8,
    /// The principal, if logins are required.
    pub principal: Option<Arc<Principal>>,
    /// The session of the client, if it has one. We generate session IDs and only the client knows its own, so unlike a
    /// claim in the request it identifies a caller without a login.
    pub session: Option<Arc<str>>,
    /// Whether the caller may change the gateway.
    pub role: Role,
    /// The name of the static token that the caller presented.
    pub token: Option<Arc<str>>,
    /// The toolset that the caller is limited to.
    pub toolset: Option<Arc<str>>,
    /// The span of the enclosing call, if it is traced.
    pub span: Option<SpanContext>,
    /// The worst effect that a tool may have, if the request sets a ceiling. Nested calls inherit it.
    pub most_effect: Option<Effect>,
}

/// Whether a caller may change the gateway, or only use it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// A user of the gateway: calls tools within the policy.
    #[default]
    Agent,
    /// An administrator: may also call the core tools that change the gateway.
    Operator,
}

impl Role {
    /// Its name in replies.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Operator => "operator",
        }
    }
}

impl Caller {
    /// The caller on a pipe that the user opened.
    pub fn local() -> Self {
        Self {
            subject: Arc::from("local"),
            depth: 0,
            principal: None,
            session: None,
            role: Role::Agent,
            token: None,
            toolset: None,
            span: None,
            most_effect: None,
        }
    }

    /// A caller with a login.
    pub fn authenticated(principal: Arc<Principal>) -> Self {
        let subject = Arc::clone(&principal.id);
        Self { subject, principal: Some(principal), ..Self::local() }
    }

    /// Returns this caller, limited to tools with at most this effect.
    #[must_use]
    pub fn within(&self, most: Effect) -> Self {
        let most = self.most_effect.map_or(most, |before| before.min(most));
        Self { most_effect: Some(most), ..self.clone() }
    }

    /// The owner of everything that is private to this caller.
    pub fn owner(&self) -> Owner {
        match (&self.principal, &self.session) {
            (None, Some(session)) => Owner::Session(Arc::clone(session)),
            (Some(_), _) | (None, None) => Owner::Subject(Arc::clone(&self.subject)),
        }
    }
}

/// The owner of private state.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Owner {
    /// A logged-in subject, or the single user of a gateway without logins.
    Subject(Arc<str>),
    /// The client of a session.
    Session(Arc<str>),
}

/// An unchecked request to run a tool.
#[derive(Debug)]
pub struct Call {
    /// The name that the agent used.
    pub tool: ToolName,
    /// The arguments: a JSON object.
    pub arguments: Raw,
    /// How the arguments are checked.
    pub checking: Checking,
    /// The `_meta` object of the request: progress token, trace context.
    pub meta: Option<Raw>,
    /// Responses to input requests of an earlier attempt.
    pub continuation: Continuation,
}

impl Call {
    /// A first attempt without metadata.
    pub fn new(tool: ToolName, arguments: Raw, checking: Checking) -> Self {
        Self { tool, arguments, checking, meta: None, continuation: Continuation::default() }
    }
}

/// How strictly arguments are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checking {
    /// Convert unambiguous values, such as the text `"42"` to an integer.
    Coerce,
    /// Validate against the input schema without conversion.
    Strict,
}

/// The result of a tool that ran. If the tool failed, the result describes the failure for the agent.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Outcome {
    /// Text produced by muster or a program.
    Text {
        /// The text for the agent.
        text: String,
        /// Whether the tool failed.
        failed: bool,
        /// Structured content in addition to the text.
        details: Option<Raw>,
    },
    /// The result object of an MCP server, unchanged.
    Raw(Raw),
    /// The tool requests input first.
    InputRequired(InputRequired),
}

impl Outcome {
    /// A success.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into(), failed: false, details: None }
    }

    /// A failure.
    pub fn failure(text: impl Into<String>) -> Self {
        Self::Text { text: text.into(), failed: true, details: None }
    }
}

/// A call that did not run, or whose result was lost.
#[derive(Debug, Error)]
pub enum CallError {
    /// There is no such tool for this caller.
    #[error("no tool named `{tool}`")]
    UnknownTool {
        /// The requested name.
        tool: ToolName,
        /// The nearest visible names.
        similar: Vec<ToolName>,
    },
    /// The arguments are invalid.
    #[error("the arguments do not fit `{tool}`")]
    InvalidArguments {
        /// The tool.
        tool: ToolName,
        /// The problems, in the order to report.
        problems: Vec<ArgumentProblem>,
        /// Unknown argument names, each with the nearest known one.
        unknown: Vec<(String, Option<String>)>,
        /// The input schema.
        schema: Arc<RawValue>,
    },
    /// An argument's value violates a restriction of the policy.
    #[error("the policy refuses these arguments of `{tool}`")]
    PolicyViolation {
        /// The tool.
        tool: ToolName,
        /// One sentence per violation.
        violations: Vec<String>,
    },
    /// The policy cannot be applied.
    #[error("{reason}")]
    InvalidPolicy {
        /// What is wrong with the policy.
        reason: String,
    },
    /// The backend could not be reached or violated its protocol.
    #[error("backend `{backend}` is not available: {reason}")]
    Unavailable {
        /// The backend.
        backend: BackendName,
        /// The reason, for the agent.
        reason: String,
        /// Whether sending was attempted but no response came: the backend cannot be reached, the connection was lost,
        /// or the call timed out.
        no_answer: bool,
    },
    /// The arguments do not select a server of the family that has the tool.
    #[error("{0}")]
    Instance(String),
    /// The backend responded with a protocol error.
    #[error("{message}")]
    Upstream {
        /// The error code.
        code: i64,
        /// The error message.
        message: String,
        /// The error data.
        data: Option<Raw>,
    },
    /// The tool is destructive, and destructive tools are not enabled.
    #[error(
        "tool '{local_name}' is blocked as it is destructive. Use --yolo flag to allow destructive operations"
    )]
    Destructive {
        /// The backend's own name of the tool.
        local_name: String,
    },
    /// The effect of the tool is worse than the request allows.
    #[error(transparent)]
    ExcessiveEffect(#[from] ExcessiveEffect),
    /// Calls are nested too deep.
    #[error("calls are nested deeper than {limit}")]
    TooDeep {
        /// The limit.
        limit: u8,
    },
}
