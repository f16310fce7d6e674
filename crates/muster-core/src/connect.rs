//! The port to MCP servers outside: how one is reached, and what comes of it.

use std::{fmt, sync::Arc, time::Duration};

use serde_json::value::RawValue;
use thiserror::Error;

use crate::{
    backend::{Backend, BoxFuture},
    json::Raw,
    logins::AccessTokenSource,
};

/// How an MCP server is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// A child process that speaks on its standard streams.
    Stdio {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Variables added to its environment.
        env: Vec<(String, String)>,
    },
    /// Streamable HTTP.
    Http {
        /// Its address.
        url: String,
        /// Sent with every request.
        headers: Vec<(String, String)>,
    },
    /// Streamable HTTP behind a proxy that knows machines by their certificates, as Teleport does.
    Mtls {
        /// Its address.
        url: String,
        /// Sent with every request.
        headers: Vec<(String, String)>,
        /// Where the certificates are.
        identity: MachineIdentity,
        /// What the proxy knows the server by, in place of the host of the address; empty for that.
        app: String,
    },
    /// The HTTP+SSE transport of 2024-11-05.
    Sse {
        /// The address of its event stream.
        url: String,
        /// Sent with every request.
        headers: Vec<(String, String)>,
    },
}

/// Where the certificates of a machine are that a proxy knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MachineIdentity {
    /// In a folder: `tlscert`, `key` and `teleport-application-ca.pem`.
    Directory(String),
    /// In a secret of a cluster.
    Secret(String),
}

impl Endpoint {
    /// Whether it is a process of ours.
    pub const fn is_local(&self) -> bool {
        matches!(self, Self::Stdio { .. })
    }
}

/// Makes connections.
pub trait Connector: fmt::Debug + Send + Sync {
    /// Connects and introduces itself, within `limit`. `name` is for messages and logs.
    fn connect<'a>(
        &'a self,
        name: &'a str,
        endpoint: &'a Endpoint,
        limit: Duration,
        events: Arc<dyn ConnectionObserver>,
    ) -> BoxFuture<'a, Result<Arc<dyn Connection>, ConnectError>>;

    /// The same for one person alone: every request carries the token that `access` gives.
    fn connect_as<'a>(
        &'a self,
        name: &'a str,
        endpoint: &'a Endpoint,
        access: Arc<dyn AccessTokenSource>,
        limit: Duration,
        events: Arc<dyn ConnectionObserver>,
    ) -> BoxFuture<'a, Result<Arc<dyn Connection>, ConnectError>>;
}

/// A connected server. Dropping the last handle ends the connection, and the process behind it.
pub trait Connection: Backend {
    /// Everything it offers, all pages of it.
    fn list(&self) -> BoxFuture<'_, Result<ServerListing, ConnectError>>;

    /// Says goodbye and waits until it is gone.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// What a server lists, each item as it wrote it.
#[derive(Debug, Clone, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a capability of its own in the protocol"
)]
pub struct ServerListing {
    /// Its tools.
    pub tools: Vec<Raw>,
    /// Its resources.
    pub resources: Vec<Raw>,
    /// Its templates of resources.
    pub templates: Vec<Raw>,
    /// Its prompts.
    pub prompts: Vec<Raw>,
    /// What it says about itself for agents.
    pub instructions: Option<String>,
    /// The version of the protocol it speaks.
    pub protocol: String,
    /// Whether it gives word when a resource changes.
    pub subscriptions: bool,
    /// Whether it completes arguments.
    pub completions: bool,
    /// Whether it sends log lines.
    pub logging: bool,
}

/// Hears what a connected server says unasked. Called from the connection's own task: it must not
/// wait.
pub trait ConnectionObserver: fmt::Debug + Send + Sync {
    /// Something happened.
    fn on_event(&self, event: ConnectionEvent);

    /// It said something, before that is understood: the method and its parameters as sent.
    fn on_message(&self, _method: &str, _params: &RawValue) {}
}

/// What a connected server may say unasked.
#[derive(Debug, Clone)]
pub enum ConnectionEvent {
    /// What it offers has changed; it has to be listed anew.
    ListChanged,
    /// A resource that someone subscribed to has changed.
    ResourceUpdated {
        /// Its address.
        uri: String,
    },
    /// A log line that belongs to no request: the parameters as sent.
    Log {
        /// The parameters.
        params: Raw,
    },
    /// It is gone.
    Closed {
        /// Why, in words for people.
        reason: String,
    },
}

/// Why a server could not be connected or listed. Texts never hold a secret.
#[derive(Debug, Clone, Error)]
pub enum ConnectError {
    /// It wants a login first.
    #[error("authentication required")]
    Unauthorized {
        /// Its challenge, if it sent one.
        challenge: Option<String>,
    },
    /// It may work later: the network, a restart, an overload.
    #[error("{0}")]
    Transient(String),
    /// It will not work like this: a wrong command, a broken answer, a certificate.
    #[error("{0}")]
    Permanent(String),
}
