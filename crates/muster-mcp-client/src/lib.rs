//! Connections to upstream MCP servers of both protocol eras: child processes, streamable HTTP, and
//! HTTP+SSE; and the bridge from a client on pipes to a server behind HTTP.
//!
//! **Invariant:** messages of an upstream pass through as written. Results, listed items, and the parameters of
//! notifications and input requests are parsed only down to the level of muster's own keys.
//!
//! ```text
//! McpConnector ── handshake ──▶ UpstreamConnection ──▶ Peer (requests) ──▶ Transport (process, http, http_sse)
//!                                                                          │
//!                         clients, events ◀── MessageRouter (all messages) ◀┘
//! ```

pub mod bridge;
mod connection;
pub mod direct_client;
mod error;
mod handshake;
mod http;
mod http_sse;
mod lines;
mod listing;
mod message;
mod mtls;
mod peer;
mod pending;
mod process;
mod router;
mod spool;
mod spooled_result;
mod stdin_writer;
mod subscription;
mod transport;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use muster_core::{
    backend::BoxFuture,
    connect::{
        ConnectError, ConnectRequest, ConnectResult, Connection, ConnectionObserver, Connector,
        Endpoint, ProtocolEra,
    },
    lock::Lock,
    logins::AccessTokenSource,
    request::ServerInfo,
};
use muster_exec::{
    command::{Command, Inherit, Stdin},
    launcher::Launcher,
};
use muster_mcp::{http::ThreadPool, version::Era, wire::code};
use muster_net::{Dialer, TrustStore, Url};
use tokio::{runtime::Handle, time::timeout};
use tokio_util::task::TaskTracker;
use tracing::debug;

use self::{
    connection::UpstreamConnection,
    handshake::ProbeResult,
    http::{
        HttpTransport,
        pool::{Authorization, Pool, parse_headers},
        session::HttpSession,
    },
    http_sse::SseTransport,
    peer::{ClientIdentity, Peer, ServerProfile},
    process::ProcessTransport,
    router::MessageRouter,
    spool::Spool,
    transport::Transport,
};
pub use self::{error::TransportError, http::open_connections::OpenConnections};

/// How long a server may take to respond to the probe, if at least as much remains for the legacy
/// handshake: some take seconds to start.
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);

/// Connects to upstream MCP servers. [`McpConnector::shut_down`] waits for the tasks of its connections.
#[derive(Debug)]
pub struct McpConnector {
    launcher: Launcher,
    dialer: Dialer,
    tasks: TaskTracker,
    identity: Arc<ClientIdentity>,
    /// The protocol eras of known servers, by endpoint.
    eras: Lock<BTreeMap<String, Era>>,
    /// The eras that the configuration chooses, by endpoint.
    forced: Lock<BTreeMap<String, ProtocolEra>>,
    spool: Arc<Spool>,
    /// The threads that serve the clients of these connections.
    threads: ThreadPool,
    /// Counts the HTTP connections.
    open: OpenConnections,
}

impl McpConnector {
    /// A connector that starts processes by `launcher` and identifies itself as `identity`.
    pub fn new(launcher: Launcher, identity: &ServerInfo) -> Self {
        Self {
            launcher,
            dialer: Dialer::new(Arc::new(TrustStore::system())),
            tasks: TaskTracker::new(),
            identity: Arc::new(ClientIdentity::new(identity)),
            eras: Lock::default(),
            forced: Lock::default(),
            spool: Arc::default(),
            threads: ThreadPool::default(),
            open: OpenConnections::default(),
        }
    }

    /// A connector that declares no client capabilities, for programs that cannot respond to input
    /// requests.
    pub fn without_capabilities(launcher: Launcher, identity: &ServerInfo) -> Self {
        let identity_without = Arc::new(ClientIdentity::without_capabilities(identity));
        Self { identity: identity_without, ..Self::new(launcher, identity) }
    }

    /// Verifies servers against `trust` instead of the system's certificate authorities.
    #[must_use]
    pub fn with_trust_store(self, trust: TrustStore) -> Self {
        Self { dialer: Dialer::new(Arc::new(trust)), ..self }
    }

    /// Runs the connections to processes on the thread that serves the first clients.
    #[must_use]
    pub fn with_threads(self, threads: ThreadPool) -> Self {
        Self { threads, ..self }
    }

    /// The counter of its HTTP connections.
    pub fn open_connections(&self) -> OpenConnections {
        self.open.clone()
    }

    /// Waits for the tasks of closed connections, but not for servers that keep their end open.
    pub async fn shut_down(&self) {
        const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);
        self.tasks.close();
        if timeout(SHUTDOWN_TIMEOUT, self.tasks.wait()).await.is_err() {
            debug!("{} connections were left open by the server", self.tasks.len());
        }
    }

    async fn open(
        &self,
        name: &str,
        endpoint: &Endpoint,
        access: Option<Arc<dyn AccessTokenSource>>,
        limit: Duration,
        events: &Arc<dyn ConnectionObserver>,
    ) -> Result<Peer, TransportError> {
        let router = || {
            let spool = Arc::clone(&self.spool);
            MessageRouter::new(name, self.tasks.clone(), spool, Arc::clone(events))
        };
        let pool = |dialer: &Dialer, url: &str, headers: &[(String, String)]| {
            let authorization = match access.clone() {
                Some(access) => Authorization::Access(access),
                None => Authorization::None,
            };
            let (url, headers) = (Url::parse(url.trim())?, parse_headers(headers)?);
            let pool = Pool::new(dialer.clone(), url, headers, authorization);
            Ok::<_, TransportError>(pool.counted_by(self.open.clone()))
        };
        match endpoint {
            Endpoint::Stdio { command, args, env, inherit } => {
                let command = Command {
                    argv: std::iter::once(command).chain(args).cloned().collect(),
                    env: env.clone(),
                    inherit: Inherit::Basic(inherit.clone()),
                    stdin: Stdin::Piped,
                    ..Command::default()
                };
                Box::pin(self.open_process(&command, endpoint, limit, router)).await
            }
            Endpoint::Http { url, headers } => {
                self.open_http(pool(&self.dialer, url, headers)?, endpoint, limit, router()).await
            }
            Endpoint::Mtls { url, headers, identity, app } => {
                let proxied = Url::parse(url.trim())?;
                let host = mtls::proxy_host(&proxied, app)?;
                let dialer = Dialer::new(mtls::load_identity(identity)?);
                let mut pool = pool(&dialer, url, headers)?;
                if let Some(host) = host {
                    pool = pool.with_host(host);
                }
                self.open_http(pool, endpoint, limit, router()).await
            }
            Endpoint::Sse { url, headers } => {
                let router = router();
                let pool = pool(&self.dialer, url, headers)?;
                let sse = SseTransport::connect(pool, &router).await?;
                let transport = Transport::Duplex(Arc::new(sse));
                self.complete_handshake(ProbeResult::Legacy, transport, router, endpoint).await
            }
        }
    }

    async fn open_http(
        &self,
        pool: Pool,
        endpoint: &Endpoint,
        limit: Duration,
        router: Arc<MessageRouter>,
    ) -> Result<Peer, TransportError> {
        let session = HttpSession::new(pool, Arc::clone(&self.spool), self.tasks.clone());
        let http = HttpTransport::new(session, Arc::clone(&router), Arc::clone(&self.identity));
        let transport = Transport::Http(Arc::new(http));
        let probed = match self.known_era(endpoint) {
            Some(Era::Legacy) => ProbeResult::Legacy,
            Some(Era::Modern) | None => self.probe_within(limit, &transport, &router).await?,
        };
        self.complete_handshake(probed, transport, router, endpoint).await
    }

    async fn open_process(
        &self,
        command: &Command,
        endpoint: &Endpoint,
        limit: Duration,
        router: impl Fn() -> Arc<MessageRouter>,
    ) -> Result<Peer, TransportError> {
        let start = async || {
            let router = router();
            let runtime = self.threads.first_runtime().unwrap_or_else(Handle::current);
            let (launcher, command) = (&self.launcher, command.clone());
            let process = ProcessTransport::start(launcher, &router, command, &runtime).await?;
            Ok::<_, TransportError>((Transport::Duplex(Arc::new(process)), router))
        };
        let (mut transport, mut router) = start().await?;
        let mut probed = ProbeResult::Legacy;
        if self.known_era(endpoint) != Some(Era::Legacy) {
            match self.probe_within(limit, &transport, &router).await {
                Ok(found) => probed = found,
                Err(error) => {
                    // Some servers exit at any request before `initialize`.
                    debug!(server = &*router.name, "started again: {error}");
                    (transport, router) = start().await?;
                }
            }
        }
        self.complete_handshake(probed, transport, router, endpoint).await
    }

    async fn probe(
        &self,
        transport: &Transport,
        router: &Arc<MessageRouter>,
    ) -> Result<ProbeResult, TransportError> {
        Box::pin(handshake::probe(transport, router, &self.identity)).await
    }

    /// Probes with a timeout: some servers never respond to an unknown method.
    async fn probe_within(
        &self,
        limit: Duration,
        transport: &Transport,
        router: &Arc<MessageRouter>,
    ) -> Result<ProbeResult, TransportError> {
        match timeout(PROBE_TIMEOUT.min(limit / 2), self.probe(transport, router)).await {
            Ok(probed) => probed,
            Err(_) => {
                debug!(server = &*router.name, "no response to the probe");
                Ok(ProbeResult::Legacy)
            }
        }
    }

    /// Performs the legacy handshake if necessary.
    async fn complete_handshake(
        &self,
        probed: ProbeResult,
        transport: Transport,
        router: Arc<MessageRouter>,
        endpoint: &Endpoint,
    ) -> Result<Peer, TransportError> {
        let profile = match probed {
            ProbeResult::Modern(profile) => profile,
            ProbeResult::Legacy if self.forced_era(endpoint) == Some(ProtocolEra::Modern) => {
                let reason = "it does not speak the modern era, which `protocolEra` requires";
                return Err(TransportError::Invalid(reason.to_owned()));
            }
            ProbeResult::Legacy => self.legacy_handshake(&transport, &router, endpoint).await?,
        };
        if self.forced_era(endpoint).is_none() {
            self.eras.lock().insert(endpoint.key(), profile.era);
        }
        debug!(server = &*router.name, "connected, protocol {}", profile.version);
        Ok(Peer::new(router, transport, profile, Arc::clone(&self.identity)))
    }

    async fn legacy_handshake(
        &self,
        transport: &Transport,
        router: &Arc<MessageRouter>,
        endpoint: &Endpoint,
    ) -> Result<ServerProfile, TransportError> {
        let error = match Box::pin(handshake::legacy(transport, router, &self.identity)).await {
            Ok(profile) => return Ok(profile),
            Err(error) => error,
        };
        // The server may have been replaced by one of another era.
        self.eras.lock().remove(&endpoint.key());
        if error.code() != Some(code::UNSUPPORTED_VERSION) {
            return Err(error);
        }
        // It is modern after all: it responded to the probe too late.
        match self.probe(transport, router).await? {
            ProbeResult::Modern(profile) => Ok(profile),
            ProbeResult::Legacy => Err(error),
        }
    }

    fn known_era(&self, endpoint: &Endpoint) -> Option<Era> {
        match self.forced_era(endpoint) {
            Some(ProtocolEra::Legacy) => Some(Era::Legacy),
            Some(ProtocolEra::Modern) => Some(Era::Modern),
            None => self.eras.lock().get(&endpoint.key()).copied(),
        }
    }

    fn forced_era(&self, endpoint: &Endpoint) -> Option<ProtocolEra> {
        self.forced.lock().get(&endpoint.key()).copied()
    }

    async fn connect_within(
        &self,
        ConnectRequest { name, endpoint, access, limit, era, events }: ConnectRequest<'_>,
    ) -> ConnectResult {
        {
            let mut forced = self.forced.lock();
            match era {
                Some(era) => drop(forced.insert(endpoint.key(), era)),
                None => drop(forced.remove(&endpoint.key())),
            }
        }
        let connecting = async {
            let peer = self.open(name, endpoint, access, limit, &events).await?;
            let connection = UpstreamConnection::new(name, peer, limit).await;
            Ok(if era.is_none() { connection.of_both_eras() } else { connection })
        };
        match timeout(limit, connecting).await {
            Ok(Ok(connection)) => {
                let connection: Arc<dyn Connection> = Arc::new(connection);
                Ok(connection)
            }
            Ok(Err(error)) => Err(connect_error(error, endpoint)),
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
    fn connect<'a>(&'a self, request: ConnectRequest<'a>) -> BoxFuture<'a, ConnectResult> {
        Box::pin(self.connect_within(request))
    }
}

/// A process that exits during the handshake would do so again.
fn connect_error(error: TransportError, endpoint: &Endpoint) -> ConnectError {
    match error {
        TransportError::Lost(reason) if endpoint.is_local() => ConnectError::Permanent(reason),
        error => error.into_connect_error("initialize"),
    }
}
