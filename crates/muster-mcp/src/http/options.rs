//! Options of the HTTP transports.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use http::StatusCode;
use muster_core::{
    credentials::{Authenticator, WebPages},
    json::{Raw, raw},
    shared::ReplicaLink,
};
use serde::Serialize;
use tokio::sync::Notify;

use super::{ConnectionCounter, ThreadPool};

/// Computes the response of `/health` or `/ready`.
pub type HealthCheck = Arc<dyn Fn() -> HealthResponse + Send + Sync>;

/// The time since 1970.
pub type WallClock = Arc<dyn Fn() -> Duration + Send + Sync>;

/// The health of the gateway.
#[derive(Debug, Clone)]
pub struct HealthResponse {
    /// For load balancers.
    pub status: StatusCode,
    /// For people: a JSON object.
    pub body: Raw,
}

impl HealthResponse {
    /// A healthy gateway.
    pub fn ok() -> Self {
        #[derive(Serialize)]
        struct Status {
            status: &'static str,
        }
        Self { status: StatusCode::OK, body: raw(&Status { status: "ok" }) }
    }
}

/// Options of the HTTP transports.
#[derive(Clone)]
pub struct HttpOptions {
    /// The paths of streamable HTTP, the published one first.
    pub paths: Vec<String>,
    /// Host names of this server, in addition to the loopback names and the address that a client
    /// connected to. `*` allows any.
    pub hosts: Vec<String>,
    /// Origins of web pages that may send requests. `*` allows any.
    pub origins: Vec<String>,
    /// The response of `/health`.
    pub health: HealthCheck,
    /// The response of `/ready`: whether load balancers should send requests yet.
    pub ready: HealthCheck,
    /// Authenticates callers; without it, all requests are those of the local caller.
    pub guard: Option<Arc<dyn Authenticator>>,
    /// Web pages outside of the protocol, without authentication.
    pub pages: Vec<Arc<dyn WebPages>>,
    /// This replica among others that serve the same clients; `None` if it is the only one.
    pub replica: Option<Arc<dyn ReplicaLink>>,
    /// The clock whose seconds are the windows of the rate limit that all replicas share.
    pub wall_clock: WallClock,
    /// Counts connections.
    pub connections: Arc<ConnectionCounter>,
    /// The threads that serve connections.
    pub threads: ThreadPool,
    /// How long pending requests may take at shutdown.
    pub drain_timeout: Duration,
    /// Notified to cut off pending requests without waiting for the drain timeout.
    pub skip_drain: Arc<Notify>,
    /// Called before requests are cut off.
    pub before_cut_off: Arc<dyn Fn() + Send + Sync>,
    /// The interval of keep-alive comments on event streams.
    pub keep_alive: Duration,
    /// How long a legacy session may be idle.
    pub session_idle: Duration,
    /// The maximum number of legacy sessions; beyond it, the least recently used one of the user or
    /// address with the most sessions is evicted.
    pub max_sessions: usize,
    /// The largest request body, in bytes.
    pub max_body: usize,
    /// How long a request body may take to arrive.
    pub body_limit: Duration,
    /// The maximum number of open connections; beyond it, idle ones are closed. Never more than half of
    /// the file descriptor limit: the rest is for upstreams.
    pub max_connections: usize,
    /// The calls of one caller at a time; 0 for any number.
    pub concurrent_calls: usize,
    /// The calls of one caller per second; 0 for any number.
    pub calls_per_second: u32,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            paths: vec!["/mcp".to_owned(), "/".to_owned()],
            hosts: Vec::new(),
            origins: Vec::new(),
            health: Arc::new(HealthResponse::ok),
            ready: Arc::new(HealthResponse::ok),
            guard: None,
            pages: Vec::new(),
            replica: None,
            wall_clock: Arc::new(|| {
                SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
            }),
            connections: Arc::default(),
            threads: ThreadPool::default(),
            drain_timeout: Duration::from_secs(10),
            skip_drain: Arc::default(),
            before_cut_off: Arc::new(|| ()),
            keep_alive: Duration::from_secs(15),
            session_idle: Duration::from_secs(30 * 60),
            max_sessions: 10_000,
            max_body: 64 * 1024 * 1024,
            body_limit: Duration::from_secs(120),
            max_connections: 16_384,
            concurrent_calls: 1_000,
            calls_per_second: 0,
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
            .field("replica", &self.replica)
            .field("pages", &self.pages)
            .field("drain_timeout", &self.drain_timeout)
            .field("keep_alive", &self.keep_alive)
            .field("session_idle", &self.session_idle)
            .field("max_sessions", &self.max_sessions)
            .field("max_body", &self.max_body)
            .field("body_limit", &self.body_limit)
            .field("max_connections", &self.max_connections)
            .finish_non_exhaustive()
    }
}
