//! How HTTP is served.

use std::{fmt, sync::Arc, time::Duration};

use http::StatusCode;
use muster_core::{
    credentials::{Authenticator, WebPages},
    json::{Raw, raw},
};
use serde::Serialize;

/// Tells how the gateway is, whenever `/health` is asked for.
pub type HealthCheck = Arc<dyn Fn() -> Health + Send + Sync>;

/// How the gateway is.
#[derive(Debug, Clone)]
pub struct Health {
    /// What a load balancer looks at.
    pub status: StatusCode,
    /// What a person looks at: a JSON object.
    pub body: Raw,
}

impl Health {
    /// All is well.
    pub fn ok() -> Self {
        #[derive(Serialize)]
        struct Status {
            status: &'static str,
        }
        Self { status: StatusCode::OK, body: raw(&Status { status: "ok" }) }
    }
}

/// How HTTP is served.
#[derive(Clone)]
pub struct HttpOptions {
    /// Where streamable HTTP is, the published path first.
    pub paths: Vec<String>,
    /// Names by which this server may be addressed, beside the loopback names and the address that a
    /// client connected to. `*` is any name.
    pub hosts: Vec<String>,
    /// Web pages that may talk to us from a browser, by their origin. `*` is any.
    pub origins: Vec<String>,
    /// What `/health` answers.
    pub health: HealthCheck,
    /// Finds out who is calling; without it everyone is the one local caller.
    pub guard: Option<Arc<dyn Authenticator>>,
    /// Pages beside the protocol, which are for everybody.
    pub pages: Vec<Arc<dyn WebPages>>,
    /// How long requests may take to finish when the server stops.
    pub grace: Duration,
    /// After how much silence an open event stream says that it is still there.
    pub keep_alive: Duration,
    /// After how long without a request a legacy session ends.
    pub session_idle: Duration,
    /// How many legacy sessions there may be; beyond it, the one longest unused ends.
    pub max_sessions: usize,
    /// The largest request body taken, in bytes.
    pub max_body: usize,
    /// How long a request body may take to arrive.
    pub body_limit: Duration,
    /// How many connections may be open; further ones wait. There are never more than half as many as
    /// this process may have files open: the rest is for what is behind the server.
    pub max_connections: usize,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            paths: vec!["/mcp".to_owned(), "/".to_owned()],
            hosts: Vec::new(),
            origins: Vec::new(),
            health: Arc::new(Health::ok),
            guard: None,
            pages: Vec::new(),
            grace: Duration::from_secs(10),
            keep_alive: Duration::from_secs(15),
            session_idle: Duration::from_secs(30 * 60),
            max_sessions: 10_000,
            max_body: 64 * 1024 * 1024,
            body_limit: Duration::from_secs(120),
            max_connections: 16_384,
        }
    }
}

impl fmt::Debug for HttpOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpOptions")
            .field("paths", &self.paths)
            .field("hosts", &self.hosts)
            .field("origins", &self.origins)
            .field("guard", &self.guard)
            .field("pages", &self.pages)
            .field("grace", &self.grace)
            .field("keep_alive", &self.keep_alive)
            .field("session_idle", &self.session_idle)
            .field("max_sessions", &self.max_sessions)
            .field("max_body", &self.max_body)
            .field("body_limit", &self.body_limit)
            .field("max_connections", &self.max_connections)
            .finish_non_exhaustive()
    }
}
