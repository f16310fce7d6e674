//! The inbound port: what a client may ask, whatever wire it came over.
//!
//! Transports turn bytes into a [`Request`] and a [`Response`] into bytes. Which protocol era the client
//! speaks ends with them: nothing behind this port knows.

use std::{fmt, sync::Arc};

use serde_json::value::RawValue;
use thiserror::Error;

use crate::{
    backend::{BoxFuture, ResourceOperation},
    call::{Caller, Owner},
    client::{ClientHandle, Continuation, InputRequired},
    json::Raw,
};

/// A request with what came along.
#[derive(Debug, Clone)]
pub struct ClientRequest {
    /// What is asked.
    pub request: Request,
    /// What the client sent about the request itself: progress token, trace context. Keys that belong
    /// to the protocol era are gone.
    pub meta: Option<Raw>,
    /// Answers to earlier questions of the same request.
    pub continuation: Continuation,
}

/// Something a client asks for.
#[derive(Debug, Clone)]
pub enum Request {
    /// The tools shown to this client.
    ListTools {
        /// Where an earlier page ended.
        cursor: Option<String>,
    },
    /// One tool to be run.
    CallTool {
        /// Its name.
        name: String,
        /// Its arguments: a JSON object, or nothing.
        arguments: Option<Raw>,
    },
    /// The resources shown to this client.
    ListResources {
        /// Where an earlier page ended.
        cursor: Option<String>,
    },
    /// The templates of resources shown to this client.
    ListTemplates {
        /// Where an earlier page ended.
        cursor: Option<String>,
    },
    /// The prompts shown to this client.
    ListPrompts {
        /// Where an earlier page ended.
        cursor: Option<String>,
    },
    /// Something else of a backend, in the names that clients are shown.
    Resource(ResourceOperation),
    /// How much a client wants to be told of what happens; legacy clients only.
    SetLogLevel {
        /// The least severe level.
        level: String,
    },
}

impl Request {
    /// Whether a backend may ask the client something before it answers.
    pub fn may_require_input(&self) -> bool {
        match self {
            Self::CallTool { .. }
            | Self::Resource(ResourceOperation::Read { .. } | ResourceOperation::Prompt { .. }) => {
                true
            }
            Self::ListTools { .. }
            | Self::ListResources { .. }
            | Self::ListTemplates { .. }
            | Self::ListPrompts { .. }
            | Self::Resource(_)
            | Self::SetLogLevel { .. } => false,
        }
    }
}

/// An answer.
#[derive(Debug)]
pub enum Response {
    /// The result object, without anything that belongs to a protocol era.
    Done {
        /// The object.
        result: Raw,
        /// How long a client may keep it; none for answers that are made anew each time.
        cache: Option<CacheControl>,
    },
    /// Questions first; only for clients that are asked by reply.
    InputRequired(InputRequired),
}

/// How long and for whom an answer may be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheControl {
    /// Milliseconds.
    pub ttl_ms: u64,
    /// Whether others may be given the same answer.
    pub shared: bool,
}

/// The request could not be served. What a *tool* reports is not a fault but a reply.
#[derive(Debug, Error)]
pub enum RequestError {
    /// The parameters do not fit the method.
    #[error("{0}")]
    InvalidParams(String),
    /// Something went wrong on our side.
    #[error("{0}")]
    Internal(String),
    /// The method is known, but not here.
    #[error("{0}")]
    Unsupported(String),
    /// No such resource.
    #[error("Resource not found: {uri}")]
    ResourceNotFound {
        /// The address asked for.
        uri: String,
    },
    /// The client would have to declare a capability first.
    #[error("the client did not declare the capability `{capability}`")]
    MissingCapability {
        /// What it would have to declare.
        capability: String,
    },
    /// A backend's own error, to be passed on as it is.
    #[error("{message}")]
    Upstream {
        /// Its code.
        code: i64,
        /// Its words.
        message: String,
        /// What it added.
        data: Option<Raw>,
    },
}

/// What a server offers besides tools, so that clients may be told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a capability of its own in the protocol"
)]
pub struct ServerCapabilities {
    /// The list of tools may change.
    pub tools_change: bool,
    /// There are resources, and word when they change.
    pub resources: bool,
    /// There are prompts.
    pub prompts: bool,
    /// Arguments can be completed.
    pub completions: bool,
    /// Log lines can be had.
    pub logging: bool,
}

/// Something that changed behind the server, for whoever wants to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The list of tools.
    Tools,
    /// The list of resources.
    Resources,
    /// The list of prompts.
    Prompts,
    /// The contents of one resource.
    Resource {
        /// Its address.
        uri: String,
    },
    /// One of these for one owner alone: nobody else is told.
    ForOwner {
        /// Whose it is.
        owner: Owner,
        /// What has changed.
        change: Box<Self>,
    },
}

impl Change {
    /// The same for `owner` alone.
    #[must_use]
    pub fn for_owner(self, owner: Owner) -> Self {
        Self::ForOwner { owner, change: Box::new(self) }
    }

    /// What `owner` is told of it.
    pub fn visible_to(&self, owner: &Owner) -> Option<&Self> {
        match self {
            Self::ForOwner { owner: whose, change } => (whose == owner).then_some(&**change),
            other => Some(other),
        }
    }
}

/// Hears of changes until it is dropped.
pub trait ChangeStream: Send {
    /// The next change; `None` when there will be no more.
    fn next(&mut self) -> BoxFuture<'_, Option<Change>>;
}

/// Who we say we are.
#[derive(Debug, Clone)]
pub struct ServerInfo {
    /// The server's name.
    pub name: String,
    /// The server's version.
    pub version: String,
    /// What an agent should know before its first call.
    pub instructions: Option<String>,
}

/// The server behind the transports.
pub trait RequestHandler: fmt::Debug + Send + Sync {
    /// Who we say we are.
    fn server_info(&self) -> &ServerInfo;

    /// What is on offer.
    fn capabilities(&self) -> ServerCapabilities;

    /// Word of changes from now on.
    fn changes(&self) -> Box<dyn ChangeStream>;

    /// The schema of the arguments of a tool that is shown as its server describes it.
    fn schema(&self, _caller: &Caller, _tool: &str) -> Option<Arc<RawValue>> {
        None
    }

    /// Serves one request. Dropping the future cancels it.
    fn handle<'a>(
        &'a self,
        caller: &'a Caller,
        client: &'a Arc<dyn ClientHandle>,
        asked: ClientRequest,
    ) -> BoxFuture<'a, Result<Response, RequestError>>;
}
