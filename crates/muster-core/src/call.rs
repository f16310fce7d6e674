//! One call of one tool, and what came of it.

use std::sync::Arc;

use serde_json::value::RawValue;
use thiserror::Error;

use crate::{
    arguments::ArgumentProblem,
    client::{Continuation, InputRequired},
    credentials::Principal,
    json::Raw,
    name::{BackendName, ToolName},
};

/// Who is calling, and how deep in a chain of calls they are.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The authenticated subject, or `local` on a trusted pipe.
    pub subject: Arc<str>,
    /// Number of calls above this one; bounded by the dispatcher.
    pub depth: u8,
    /// Who that is, where logins are asked for.
    pub principal: Option<Arc<Principal>>,
    /// The session of someone who has not logged in. What a request says about itself is no proof, but
    /// a session was named by us, and only its client knows the name.
    pub session: Option<Arc<str>>,
}

impl Caller {
    /// The one caller at the other end of a pipe that the user opened.
    pub fn local() -> Self {
        Self { subject: Arc::from("local"), depth: 0, principal: None, session: None }
    }

    /// Someone who has logged in.
    pub fn authenticated(principal: Arc<Principal>) -> Self {
        let subject = Arc::clone(&principal.id);
        Self { subject, depth: 0, principal: Some(principal), session: None }
    }

    /// Whom things belong to that this caller has for itself.
    pub fn owner(&self) -> Owner {
        match (&self.principal, &self.session) {
            (None, Some(session)) => Owner::Session(Arc::clone(session)),
            (Some(_), _) | (None, None) => Owner::Subject(Arc::clone(&self.subject)),
        }
    }
}

/// Whom something belongs to that is not for everybody.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Owner {
    /// Someone whose login says who they are, or the one user of a gateway that asks for none.
    Subject(Arc<str>),
    /// Whoever is at the other end of a session.
    Session(Arc<str>),
}

/// A request to run a tool. It has not been checked against anything yet.
#[derive(Debug)]
pub struct Call {
    /// The name the agent used.
    pub tool: ToolName,
    /// The arguments the agent gave: a JSON object.
    pub arguments: Raw,
    /// How the arguments are held against what the tool takes.
    pub checking: Checking,
    /// What the client sent along about the request itself: progress token, trace context.
    pub meta: Option<Raw>,
    /// Answers to earlier questions of the same call.
    pub continuation: Continuation,
}

impl Call {
    /// A first call without anything beside its arguments.
    pub fn new(tool: ToolName, arguments: Raw, checking: Checking) -> Self {
        Self { tool, arguments, checking, meta: None, continuation: Continuation::default() }
    }
}

/// How strictly arguments are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checking {
    /// Convert what converts without doubt: the text `"42"` where an integer is wanted.
    Coerce,
    /// Take the input schema at its word.
    Strict,
}

/// The tool ran. It may have failed *as a tool*; that is for the agent to read.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// Text that muster made: a program's output, or its own answer.
    Text {
        /// What the agent reads.
        text: String,
        /// Whether the tool itself failed.
        failed: bool,
        /// The same in structure, or what would not fit the text.
        details: Option<Raw>,
    },
    /// The result object of an MCP server, as it came.
    Raw(Raw),
    /// Questions to be answered first.
    InputRequired(InputRequired),
}

impl Outcome {
    /// A good answer in text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into(), failed: false, details: None }
    }

    /// A failure in text.
    pub fn failure(text: impl Into<String>) -> Self {
        Self::Text { text: text.into(), failed: true, details: None }
    }
}

/// The tool did not run, or its result was lost.
#[derive(Debug, Error)]
pub enum CallError {
    /// No such tool in this caller's view.
    #[error("no tool named `{tool}`")]
    UnknownTool {
        /// The name as asked for.
        tool: ToolName,
        /// The nearest names in the view.
        similar: Vec<ToolName>,
    },
    /// The arguments do not fit.
    #[error("the arguments do not fit `{tool}`")]
    InvalidArguments {
        /// The tool.
        tool: ToolName,
        /// Everything that is wrong, in the order to be told.
        problems: Vec<ArgumentProblem>,
        /// Names given that the tool does not take, with the nearest it does.
        unknown: Vec<(String, Option<String>)>,
        /// What it takes.
        schema: Arc<RawValue>,
    },
    /// The policy restricts an argument, and the value is outside.
    #[error("the policy refuses these arguments of `{tool}`")]
    PolicyViolation {
        /// The tool.
        tool: ToolName,
        /// One sentence for each value refused.
        violations: Vec<String>,
    },
    /// The policy itself cannot be applied.
    #[error("{reason}")]
    InvalidPolicy {
        /// What is wrong with it.
        reason: String,
    },
    /// The backend could not be reached or broke its protocol.
    #[error("backend `{backend}` is not available: {reason}")]
    Unavailable {
        /// Which one.
        backend: BackendName,
        /// Why, in words an agent may read.
        reason: String,
    },
    /// The backend answered with a protocol error of its own.
    #[error("{message}")]
    Upstream {
        /// Its code.
        code: i64,
        /// Its words.
        message: String,
        /// What it added.
        data: Option<Raw>,
    },
    /// The tool can destroy something, and this gateway was not told to let it.
    #[error(
        "tool '{local_name}' is blocked as it is destructive. Use --yolo flag to allow destructive operations"
    )]
    Destructive {
        /// What the backend calls it.
        local_name: String,
    },
    /// A call that calls a call that calls a call…
    #[error("calls are nested deeper than {limit}")]
    TooDeep {
        /// The limit that was hit.
        limit: u8,
    },
}
