//! A client of MCP servers: processes of ours, streamable HTTP, and HTTP+SSE; of both eras.
//!
//! What a server says passes through as it was written: results, listed items, parameters of
//! notifications and questions are never taken apart further than muster's own keys lie.
//!
//! ```text
//! Connector ── connect ──▶ handshake ──▶ Conn (the port) ──▶ Peer (a request) ──▶ Link (a wire)
//!                                                                                  │ pipe, http, http_sse
//!                              client, events ◀── Inbox (everything that comes in) ◀┘
//! ```

mod address;
pub mod bridge;
mod calls;
mod connection;
mod dial;
mod disk;
mod failure;
mod handshake;
mod http;
mod http_sse;
mod inbox;
mod lines;
mod link;
mod listen;
mod listing;
mod message;
mod mouth;
mod mutual;
mod peer;
mod pipe;
mod pool;
mod response;
mod sse;
mod stored;
pub mod talk;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use muster_core::{
    backend::BoxFuture,
    connect::{ConnectError, Connection, ConnectionObserver, Connector, Endpoint},
    lock,
    logins::AccessTokenSource,
    request::ServerInfo,
};
use muster_exec::{
    command::{Command, Stdin},
    launcher::Launcher,
};
use muster_mcp::{version::Era, wire::code};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;
use tracing::debug;

use self::{
    address::Address,
    connection::Conn,
    dial::Dialer,
    disk::Disk,
    failure::Failure,
    handshake::Verdict,
    http::Http,
    http_sse::HttpSse,
    inbox::Inbox,
    link::Link,
    peer::{About, Me, Peer},
    pipe::Pipe,
    pool::Pool,
};
use crate::lock::Lock;

/// How long a server may take to answer the first question, if that leaves as long for the next: some
/// take seconds to start.
const PROBE_LIMIT: Duration = Duration::from_secs(10);

/// Connects to MCP servers. Everything that runs for its connections is waited for by
/// [`Connector::shut_down`].
#[derive(Debug)]
pub struct McpConnector {
    launcher: Launcher,
    dialer: Arc<Dialer>,
    tasks: TaskTracker,
    me: Arc<Me>,
    /// Which era servers turned out to be of, by where they are.
    eras: Lock<BTreeMap<String, Era>>,
    /// Where long messages are put.
    disk: Arc<Disk>,
}

impl McpConnector {
    /// A connector that starts processes by `launcher` and introduces itself as `identity`.
    pub fn new(launcher: Launcher, identity: &ServerInfo) -> Self {
        let tasks = TaskTracker::new();
        let dialer = Arc::new(Dialer::new(tasks.clone()));
        let me = Arc::new(Me::new(identity));
        Self { launcher, dialer, tasks, me, eras: Lock::default(), disk: Arc::default() }
    }

    /// A connector for a program that only asks: it has nothing to offer to a server, and says so.
    pub fn plain(launcher: Launcher, identity: &ServerInfo) -> Self {
        let me = Arc::new(Me::plain(identity));
        Self { me, ..Self::new(launcher, identity) }
    }

    /// Trusts the certificates of a PEM file beside the system's; why not, if there are none in it.
    #[must_use = "this is the connector that trusts them"]
    pub fn trusting(self, pem: &[u8]) -> Result<Self, String> {
        let dialer = Arc::new(Dialer::trusting(self.tasks.clone(), pem)?);
        Ok(Self { dialer, ..self })
    }

    /// Waits until everything that ran for closed connections has ended, but not for servers that keep
    /// their end open: those connections go with the process.
    pub async fn shut_down(&self) {
        const PATIENCE: Duration = Duration::from_secs(1);
        self.tasks.close();
        if timeout(PATIENCE, self.tasks.wait()).await.is_err() {
            debug!("{} connections were left open by the other side", self.tasks.len());
        }
    }

    async fn open(
        &self,
        name: &str,
        endpoint: &Endpoint,
        access: Option<Arc<dyn AccessTokenSource>>,
        limit: Duration,
        events: &Arc<dyn ConnectionObserver>,
    ) -> Result<Peer, Failure> {
        let disk = &self.disk;
        let inbox = || Inbox::new(name, self.tasks.clone(), Arc::clone(disk), Arc::clone(events));
        match endpoint {
            Endpoint::Stdio { command, args, env } => {
                let command = Command {
                    argv: std::iter::once(command).chain(args).cloned().collect(),
                    env: env.clone(),
                    stdin: Stdin::Piped,
                    ..Command::default()
                };
                Box::pin(self.open_pipe(&command, endpoint, limit, inbox)).await
            }
            Endpoint::Http { url, headers } => {
                let (address, headers) = (Address::parse(url)?, pool::headers(headers)?);
                let pool = Pool::new(Arc::clone(&self.dialer), address, headers, access);
                self.open_http(pool, endpoint, limit, inbox()).await
            }
            Endpoint::Mtls { url, headers, identity, app } => {
                let (address, headers) = (Address::parse(url)?, pool::headers(headers)?);
                let address = mutual::address(address, app)?;
                let identity = mutual::Identity::read(identity)?;
                let dialer = Arc::new(self.dialer.as_machine(identity));
                let pool = Pool::new(dialer, address, headers, access);
                self.open_http(pool, endpoint, limit, inbox()).await
            }
            Endpoint::Sse { url, headers } => {
                let (address, headers) = (Address::parse(url)?, pool::headers(headers)?);
                let (dialer, inbox) = (Arc::clone(&self.dialer), inbox());
                let pool = Pool::new(dialer, address, headers, access);
                let sse = HttpSse::connect(pool, &inbox).await?;
                let link = Link::Sse(Arc::new(sse));
                self.introduced(Verdict::Legacy, link, inbox, endpoint).await
            }
        }
    }

    async fn open_http(
        &self,
        pool: Pool,
        endpoint: &Endpoint,
        limit: Duration,
        inbox: Arc<Inbox>,
    ) -> Result<Peer, Failure> {
        let http = Http::new(pool, Arc::clone(&inbox), Arc::clone(&self.me));
        let link = Link::Http(Arc::new(http));
        let verdict = match self.known(endpoint) {
            Some(Era::Legacy) => Verdict::Legacy,
            Some(Era::Modern) | None => self.probe_within(limit, &link, &inbox).await?,
        };
        self.introduced(verdict, link, inbox, endpoint).await
    }

    async fn open_pipe(
        &self,
        command: &Command,
        endpoint: &Endpoint,
        limit: Duration,
        inbox: impl Fn() -> Arc<Inbox>,
    ) -> Result<Peer, Failure> {
        let start = async || {
            let inbox = inbox();
            let pipe = Pipe::start(&self.launcher, &inbox, command.clone()).await?;
            Ok((Link::Pipe(Arc::new(pipe)), inbox))
        };
        let (mut link, mut inbox) = start().await?;
        let mut verdict = Verdict::Legacy;
        if self.known(endpoint) != Some(Era::Legacy) {
            match self.probe_within(limit, &link, &inbox).await {
                Ok(found) => verdict = found,
                Err(failure) => {
                    // Some servers do not survive a question before the introduction.
                    debug!(server = &*inbox.name, "started again: {failure}");
                    (link, inbox) = start().await?;
                }
            }
        }
        self.introduced(verdict, link, inbox, endpoint).await
    }

    async fn probe(&self, link: &Link, inbox: &Arc<Inbox>) -> Result<Verdict, Failure> {
        Box::pin(handshake::probe(link, inbox, &self.me)).await
    }

    /// Some servers never answer what they do not know.
    async fn probe_within(
        &self,
        limit: Duration,
        link: &Link,
        inbox: &Arc<Inbox>,
    ) -> Result<Verdict, Failure> {
        match timeout(PROBE_LIMIT.min(limit / 2), self.probe(link, inbox)).await {
            Ok(verdict) => verdict,
            Err(_) => {
                debug!(server = &*inbox.name, "no answer to a modern question");
                Ok(Verdict::Legacy)
            }
        }
    }

    /// A server that is known, after an introduction if it wants one.
    async fn introduced(
        &self,
        verdict: Verdict,
        link: Link,
        inbox: Arc<Inbox>,
        endpoint: &Endpoint,
    ) -> Result<Peer, Failure> {
        let about = match verdict {
            Verdict::Modern(about) => about,
            Verdict::Legacy => self.introduce(&link, &inbox, endpoint).await?,
        };
        self.eras.lock().insert(key(endpoint), about.era);
        debug!(server = &*inbox.name, "connected, protocol {}", about.version);
        Ok(Peer::new(inbox, link, about, Arc::clone(&self.me)))
    }

    async fn introduce(
        &self,
        link: &Link,
        inbox: &Arc<Inbox>,
        endpoint: &Endpoint,
    ) -> Result<About, Failure> {
        let failure = match Box::pin(handshake::introduce(link, inbox, &self.me)).await {
            Ok(about) => return Ok(about),
            Err(failure) => failure,
        };
        // What was true of it may be so no longer.
        self.eras.lock().remove(&key(endpoint));
        if failure.code() != Some(code::UNSUPPORTED_VERSION) {
            return Err(failure);
        }
        // It is modern after all: the first question was answered too late.
        match self.probe(link, inbox).await? {
            Verdict::Modern(about) => Ok(about),
            Verdict::Legacy => Err(failure),
        }
    }

    fn known(&self, endpoint: &Endpoint) -> Option<Era> {
        self.eras.lock().get(&key(endpoint)).copied()
    }
}

impl McpConnector {
    async fn reach(
        &self,
        name: &str,
        endpoint: &Endpoint,
        access: Option<Arc<dyn AccessTokenSource>>,
        limit: Duration,
        events: Arc<dyn ConnectionObserver>,
    ) -> Result<Arc<dyn Connection>, ConnectError> {
        let connecting = async {
            let peer = self.open(name, endpoint, access, limit, &events).await?;
            Ok(Conn::new(name, peer, limit).await)
        };
        match timeout(limit, connecting).await {
            Ok(Ok(conn)) => {
                let conn: Arc<dyn Connection> = Arc::new(conn);
                Ok(conn)
            }
            Ok(Err(failure)) => Err(not_connected(failure, endpoint)),
            Err(_) => {
                let seconds = limit.as_secs_f64();
                Err(ConnectError::Transient(format!(
                    "no answer within {seconds} s; `timeout` in its file gives it longer"
                )))
            }
        }
    }
}

impl Connector for McpConnector {
    fn connect<'a>(
        &'a self,
        name: &'a str,
        endpoint: &'a Endpoint,
        limit: Duration,
        events: Arc<dyn ConnectionObserver>,
    ) -> BoxFuture<'a, Result<Arc<dyn Connection>, ConnectError>> {
        Box::pin(self.reach(name, endpoint, None, limit, events))
    }

    fn connect_as<'a>(
        &'a self,
        name: &'a str,
        endpoint: &'a Endpoint,
        access: Arc<dyn AccessTokenSource>,
        limit: Duration,
        events: Arc<dyn ConnectionObserver>,
    ) -> BoxFuture<'a, Result<Arc<dyn Connection>, ConnectError>> {
        Box::pin(self.reach(name, endpoint, Some(access), limit, events))
    }
}

/// A process that ends while it is being introduced to will do so again.
fn not_connected(failure: Failure, endpoint: &Endpoint) -> ConnectError {
    match failure {
        Failure::Lost(reason) if endpoint.is_local() => ConnectError::Permanent(reason),
        failure => failure.into_connect_error("initialize"),
    }
}

/// Where a server is, without what is secret.
fn key(endpoint: &Endpoint) -> String {
    match endpoint {
        Endpoint::Stdio { command, args, .. } => format!("{command} {args:?}"),
        Endpoint::Http { url, .. } | Endpoint::Sse { url, .. } => url.clone(),
        // One proxy stands before many servers.
        Endpoint::Mtls { url, app, .. } => format!("{app} {url}"),
    }
}
