//! The inbound port: the requests of clients, independent of the transport.
//!
//! Transports decode bytes into a [`Request`] and encode a [`Response`]. The protocol era of the
//! client is known to them only.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use thiserror::Error;

use crate::{
    backend::{BoxFuture, ResourceOperation},
    call::{Caller, Owner},
    client::{ClientHandle, Continuation, InputRequired},
    json::Raw,
};

/// A request with its metadata.
#[derive(Debug, Clone)]
pub struct ClientRequest {
    /// The request.
    pub request: Request,
    /// The `_meta` object: progress token, trace context. Keys of the protocol era are removed.
    pub meta: Option<Raw>,
    /// Responses to input requests of an earlier attempt.
    pub continuation: Continuation,
}

/// A request of a client.
#[derive(Debug, Clone)]
pub enum Request {
    /// Lists the tools shown to this client.
    ListTools {
        /// The cursor of the previous page.
        cursor: Option<String>,
    },
    /// Calls a tool.
    CallTool {
        /// The name of the tool.
        name: String,
        /// The arguments: a JSON object.
        arguments: Option<Raw>,
    },
    /// Lists the resources shown to this client.
    ListResources {
        /// The cursor of the previous page.
        cursor: Option<String>,
    },
    /// Lists the resource templates shown to this client.
    ListTemplates {
        /// The cursor of the previous page.
        cursor: Option<String>,
    },
    /// Lists the prompts shown to this client.
    ListPrompts {
        /// The cursor of the previous page.
        cursor: Option<String>,
    },
    /// A resource, prompt or completion request, in the names that clients see.
    Resource(ResourceOperation),
    /// Sets the minimum level of log notifications; legacy clients only.
    SetLogLevel {
        /// The minimum level.
        level: String,
    },
}

impl Request {
    /// Whether a backend may request input before it responds.
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

/// A successful response. Replicas pass it on to each other.
#[derive(Debug, Serialize, Deserialize)]
pub enum Response {
    /// A result without anything that belongs to a protocol era.
    Done {
        /// The result object.
        result: Raw,
        /// How long a client may cache the result; `None` if it must not.
        cache: Option<CacheControl>,
    },
    /// Input requests; only for clients in
    /// [`InputMode::InResult`](crate::client::InputMode::InResult).
    InputRequired(InputRequired),
}

/// How long a result may be cached, and whether the cache may be shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheControl {
    /// The TTL in milliseconds.
    pub ttl_ms: u64,
    /// Whether the same result may be given to other callers.
    pub shared: bool,
}

/// A request that could not be served. A failure reported by a *tool* is a [`Response`].
#[derive(Debug, Error, Serialize, Deserialize)]
pub enum RequestError {
    /// The parameters are invalid for the method.
    #[error("{0}")]
    InvalidParams(String),
    /// An internal error.
    #[error("{0}")]
    Internal(String),
    /// The method is not supported here.
    #[error("{0}")]
    Unsupported(String),
    /// There is no such resource.
    #[error("Resource not found: {uri}")]
    ResourceNotFound {
        /// The requested URI.
        uri: String,
    },
    /// The request needs a capability that the client did not declare.
    #[error("the client did not declare the capability `{capability}`")]
    MissingCapability {
        /// The missing capability.
        capability: String,
    },
    /// An error of a backend, passed on unchanged.
    #[error("{message}")]
    Upstream {
        /// The error code.
        code: i64,
        /// The error message.
        message: String,
        /// The error data.
        data: Option<Raw>,
    },
}

/// The capabilities that a server declares to clients.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a capability of its own in the protocol"
)]
pub struct ServerCapabilities {
    /// The list of tools may change.
    pub tools_change: bool,
    /// There are resources, and subscriptions to them.
    pub resources: bool,
    /// There are prompts.
    pub prompts: bool,
    /// Arguments can be completed.
    pub completions: bool,
    /// Log notifications are supported.
    pub logging: bool,
}

/// A change that clients may be notified of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The list of tools changed.
    Tools,
    /// The list of resources changed.
    Resources,
    /// The list of prompts changed.
    Prompts,
    /// The contents of a resource changed.
    Resource {
        /// The URI of the resource.
        uri: String,
    },
    /// A change that is visible to one owner only.
    ForOwner {
        /// The owner.
        owner: Owner,
        /// The change.
        change: Box<Self>,
    },
}

impl Change {
    /// Restricts the change to `owner`.
    #[must_use]
    pub fn for_owner(self, owner: Owner) -> Self {
        Self::ForOwner { owner, change: Box::new(self) }
    }

    /// The change as `owner` sees it, if it is visible.
    pub fn visible_to(&self, owner: &Owner) -> Option<&Self> {
        match self {
            Self::ForOwner { owner: whose, change } => (whose == owner).then_some(&**change),
            other => Some(other),
        }
    }
}

/// A subscription to changes, ended by dropping it.
pub trait ChangeStream: Send {
    /// The next change; `None` after the last.
    fn next(&mut self) -> BoxFuture<'_, Option<Change>>;
}

/// How the server introduces itself.
#[derive(Debug, Clone)]
pub struct ServerInfo {
    /// The name.
    pub name: String,
    /// The version.
    pub version: String,
    /// Instructions for agents.
    pub instructions: Option<String>,
}

/// The server behind the transports.
pub trait RequestHandler: Send + Sync {
    /// How the server introduces itself.
    fn server_info(&self) -> &ServerInfo;

    /// The capabilities that the server declares.
    fn capabilities(&self) -> ServerCapabilities;

    /// Subscribes to changes.
    fn changes(&self) -> Box<dyn ChangeStream>;

    /// The input schema of a tool that is shown under its own definition.
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

crate::opaque_debug!(RequestHandler);
