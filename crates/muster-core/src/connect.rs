//! The port to upstream MCP servers.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use thiserror::Error;

use crate::{
    backend::{Backend, BoxFuture},
    json::Raw,
    logins::AccessTokenSource,
    secret::Secret,
};

/// How an MCP server is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// A child process that speaks MCP on its standard streams.
    Stdio {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Variables added to its environment.
        env: Vec<(String, String)>,
        /// The names of variables that it inherits from the gateway, besides those that describe the
        /// user and the machine; `*` for all.
        inherit: Vec<String>,
    },
    /// Streamable HTTP.
    Http {
        /// The URL.
        url: String,
        /// Headers sent with every request.
        headers: Vec<(String, String)>,
    },
    /// Streamable HTTP behind a proxy that requires client certificates, such as Teleport.
    Mtls {
        /// The URL.
        url: String,
        /// Headers sent with every request.
        headers: Vec<(String, String)>,
        /// The client certificate.
        identity: MachineIdentity,
        /// The application name at the proxy; empty for the host of the URL.
        app: String,
    },
    /// The HTTP+SSE transport of 2024-11-05.
    Sse {
        /// The URL of the event stream.
        url: String,
        /// Headers sent with every request.
        headers: Vec<(String, String)>,
    },
}

impl Endpoint {
    /// The variables of a process, or the headers of requests.
    pub fn pairs(&self) -> &[(String, String)] {
        match self {
            Self::Stdio { env, .. } => env,
            Self::Http { headers, .. } | Self::Mtls { headers, .. } | Self::Sse { headers, .. } => {
                headers
            }
        }
    }
}

/// The location of a client certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MachineIdentity {
    /// In a directory: `tlscert`, `key` and `teleport-application-ca.pem`.
    Directory(String),
    /// In a Kubernetes secret, with keys like these files. An empty namespace is that of the definitions.
    Secret {
        /// The namespace.
        namespace: String,
        /// The name.
        name: String,
    },
    /// Here, in PEM form.
    Pem {
        /// The certificate.
        certificate: Secret,
        /// Its key.
        key: Secret,
        /// The authority of the proxy's certificate.
        authority: Secret,
    },
}

impl MachineIdentity {
    /// The file, or the key of a secret, that holds the certificate.
    pub const CERTIFICATE: &str = "tlscert";
    /// The file or key that holds its private key.
    pub const KEY: &str = "key";
    /// The file or key that holds the authority of the proxy's certificate.
    pub const AUTHORITY: &str = "teleport-application-ca.pem";
}

impl Endpoint {
    /// Whether the server is a child process.
    pub const fn is_local(&self) -> bool {
        matches!(self, Self::Stdio { .. })
    }

    /// Identifies the server, without its variables and headers.
    pub fn key(&self) -> String {
        match self {
            Self::Stdio { command, args, .. } => format!("{command} {args:?}"),
            Self::Http { url, .. } | Self::Sse { url, .. } => url.clone(),
            // One proxy stands in front of many servers.
            Self::Mtls { url, app, .. } => format!("{app} {url}"),
        }
    }

    /// The texts that may refer to secrets: arguments or the URL, and the values of variables or headers.
    pub fn texts_mut(&mut self) -> impl Iterator<Item = &mut String> {
        let (texts, pairs) = match self {
            Self::Stdio { args, env, .. } => (args.as_mut_slice(), env),
            Self::Http { url, headers }
            | Self::Mtls { url, headers, .. }
            | Self::Sse { url, headers } => (std::slice::from_mut(url), headers),
        };
        texts.iter_mut().chain(pairs.iter_mut().map(|(_, value)| value))
    }
}

/// A request for a connection.
#[derive(Debug)]
pub struct ConnectRequest<'a> {
    /// The name of the server, for messages and logs.
    pub name: &'a str,
    /// How it is reached.
    pub endpoint: &'a Endpoint,
    /// The tokens of the user on whose behalf requests are made; `None` for the gateway itself.
    pub access: Option<Arc<dyn AccessTokenSource>>,
    /// The timeout of connecting and of the handshake.
    pub limit: Duration,
    /// The protocol era to speak; `None` for the newest that the server supports.
    pub era: Option<ProtocolEra>,
    /// Notified of the server's messages and of the end of the connection.
    pub events: Arc<dyn ConnectionObserver>,
}

/// A generation of the MCP protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProtocolEra {
    /// With `initialize` and sessions.
    Legacy,
    /// Stateless.
    Modern,
}

/// A connection, or why there is none.
pub type ConnectResult = Result<Arc<dyn Connection>, ConnectError>;

/// Connects to MCP servers.
pub trait Connector: Send + Sync {
    /// Connects and completes the handshake.
    fn connect<'a>(&'a self, request: ConnectRequest<'a>) -> BoxFuture<'a, ConnectResult>;
}

crate::opaque_debug!(Connector);

/// A connected MCP server. Dropping the last handle closes the connection and ends its process.
pub trait Connection: Backend {
    /// Lists everything that the server offers, all pages.
    fn list(&self) -> BoxFuture<'_, Result<ServerListing, ConnectError>>;

    /// Closes the connection and waits for its end.
    fn close(&self) -> BoxFuture<'_, ()>;
}

crate::opaque_debug!(Connection);

/// The lists of a server, each item as sent.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a capability of its own in the protocol"
)]
pub struct ServerListing {
    /// Its tools.
    pub tools: Vec<Raw>,
    /// The members of its `tools/list` result besides the tools, such as `_meta`: a JSON object; `None` if there are
    /// none.
    pub tools_members: Option<Raw>,
    /// Its resources.
    pub resources: Vec<Raw>,
    /// Its resource templates.
    pub templates: Vec<Raw>,
    /// Its prompts.
    pub prompts: Vec<Raw>,
    /// Its instructions for agents.
    pub instructions: Option<String>,
    /// The negotiated protocol version.
    pub protocol: String,
    /// Whether it supports resource subscriptions.
    pub subscriptions: bool,
    /// Whether it completes arguments.
    pub completions: bool,
    /// Whether it sends log messages.
    pub logging: bool,
}

/// Receives the notifications of a connected server. Called from the connection's own task: it must
/// not block.
pub trait ConnectionObserver: Send + Sync {
    /// An event occurred.
    fn on_event(&self, event: ConnectionEvent);

    /// A notification arrived: its method and parameters as sent, before they are decoded.
    fn on_message(&self, _method: &str, _params: &RawValue) {}

    /// A local server wrote a line that is not a message. The line is cut at a fixed length.
    fn on_output(&self, _stream: OutputStream, _line: &str) {}
}

crate::opaque_debug!(ConnectionObserver);

/// The stream on which a local server wrote a line outside the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OutputStream {
    /// Standard output, where only messages belong.
    Stdout,
    /// Standard error: its log.
    Stderr,
}

/// An event of a connected server.
#[derive(Debug, Clone)]
pub enum ConnectionEvent {
    /// Its lists have changed and must be read again.
    ListChanged,
    /// A subscribed resource has changed.
    ResourceUpdated {
        /// The URI of the resource.
        uri: String,
    },
    /// A log message that belongs to no request.
    Log {
        /// The parameters as sent.
        params: Raw,
    },
    /// The server must be reached in another way from now on, because another replica runs it, or this one does. The
    /// client reconnects at once: nothing failed.
    Moved,
    /// The connection is closed.
    Closed {
        /// The reason, for people.
        reason: String,
    },
}

/// Why a server's certificate is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CertificateProblem {
    /// It has expired.
    Expired,
    /// It is for another host.
    WrongName,
    /// No trusted authority signed it, or it is not a valid server certificate.
    Untrusted,
}

/// Why a server could not be connected or listed. Messages never contain a secret.
#[derive(Debug, Clone, Error)]
pub enum ConnectError {
    /// The server requires a login.
    #[error("authentication required")]
    Unauthorized {
        /// Its `WWW-Authenticate` challenge.
        challenge: Option<String>,
    },
    /// A failure that a retry may overcome: the network, a restart, an overload.
    #[error("{0}")]
    Transient(String),
    /// TLS cannot be set up, or the server's certificate is not trusted. A retry does not help.
    #[error("{reason}")]
    Insecure {
        /// The reason, for people.
        reason: String,
        /// What is wrong with the certificate; `None` if TLS failed for another reason.
        certificate: Option<CertificateProblem>,
    },
    /// Another failure that a retry cannot overcome: a wrong command, an invalid response.
    #[error("{0}")]
    Permanent(String),
}
