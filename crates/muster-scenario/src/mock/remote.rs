//! Mock servers in this process over HTTP: streamable HTTP, or HTTP with SSE.
//!
//! A protected server has a [`ResourceGuard`], which [`RemoteState::respond`] consults before anything else;
//! the transports do not know about it.

mod body;
mod sse;
mod streamable;

use std::{
    collections::BTreeMap,
    fmt, io,
    net::{Ipv4Addr, Ipv6Addr},
    os::fd::{AsFd, OwnedFd},
    sync::{Arc, OnceLock, Weak},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use rustix::net::sockopt::set_socket_linger;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{mpsc, watch},
    task::JoinSet,
};
use tokio_util::task::TaskTracker;

use muster_core::backend::boxed;

use super::{MockConfig, engine::MockServer};
use crate::{oauth::resource_guard::ResourceGuard, scenario::MockTransport};
use body::{Body, FLUSH_DELAY};

/// A part of a response stream: bytes, or an error that breaks it.
type Chunk = io::Result<Bytes>;

/// Queued events per stream; a test with more unread events is broken.
const STREAM_CAPACITY: usize = 256;

/// A mock server on a port of its own, stopped when dropped.
pub struct RemoteMock {
    state: Arc<RemoteState>,
    port: u16,
    /// Listeners and connections; `None` when killed.
    running: Option<JoinSet<()>>,
}

impl fmt::Debug for RemoteMock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteMock").field("port", &self.port).finish_non_exhaustive()
    }
}

/// The state that all connections of a mock share.
struct RemoteState {
    mock: MockServer,
    transport: MockTransport,
    guard: Option<ResourceGuard>,
    /// Its URL, known once it listens.
    url: OnceLock<String>,
    sessions: watch::Sender<BTreeMap<String, SessionStream>>,
    tasks: TaskTracker,
}

/// The event stream of a session, if any.
#[derive(Clone)]
struct SessionStream {
    sender: Option<mpsc::Sender<Chunk>>,
    socket: Weak<OwnedFd>,
}

/// A duplicate of a connection's descriptor, used to reset it. The connection stays open as long as one
/// exists, so nothing else may hold it for long.
type Socket = Arc<OwnedFd>;

impl RemoteMock {
    /// Starts on a free port.
    pub async fn start(
        name: &str,
        config: &MockConfig,
        transport: MockTransport,
    ) -> io::Result<Self> {
        Self::behind(None, name, config, transport).await
    }

    /// Starts on a free port, with an optional guard.
    pub async fn behind(
        guard: Option<ResourceGuard>,
        name: &str,
        config: &MockConfig,
        transport: MockTransport,
    ) -> io::Result<Self> {
        let state = RemoteState {
            mock: MockServer::new(name, config),
            transport,
            guard,
            url: OnceLock::new(),
            sessions: watch::Sender::default(),
            tasks: TaskTracker::new(),
        };
        let mut mock = Self { state: Arc::new(state), port: 0, running: None };
        mock.revive().await?;
        Ok(mock)
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("http://localhost:{}{}", self.port, self.state.transport.path())
    }

    /// Its port.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// The mock behind the transport.
    pub fn mock(&self) -> &MockServer {
        &self.state.mock
    }

    /// Closes the port, every connection and every session; returns whether it was running.
    pub fn kill(&mut self) -> bool {
        self.state.sessions.send_modify(BTreeMap::clear);
        self.running.take().is_some()
    }

    /// Opens the port again, the same one if it had one before.
    pub async fn revive(&mut self) -> io::Result<()> {
        if self.running.is_some() {
            return Ok(());
        }
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, self.port)).await?;
        self.port = listener.local_addr()?.port();
        self.state.url.get_or_init(|| self.url());
        let mut running = JoinSet::new();
        running.spawn(boxed(accept(listener, Arc::clone(&self.state))));
        // `localhost` may resolve to IPv4 or IPv6; machines without IPv6 have only the former.
        if let Ok(listener) = TcpListener::bind((Ipv6Addr::LOCALHOST, self.port)).await {
            running.spawn(boxed(accept(listener, Arc::clone(&self.state))));
        }
        self.running = Some(running);
        Ok(())
    }
}

async fn accept(listener: TcpListener, state: Arc<RemoteState>) {
    // Dropping this set with the listener closes the connections.
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let _nodelay = stream.set_nodelay(true);
        connections.spawn(boxed(serve_connection(stream, Arc::clone(&state))));
        while connections.try_join_next().is_some() {}
    }
}

async fn serve_connection(stream: TcpStream, state: Arc<RemoteState>) {
    let Ok(socket) = stream.as_fd().try_clone_to_owned() else { return };
    let socket = Arc::new(socket);
    let service = service_fn(move |request| {
        let (state, socket) = (Arc::clone(&state), socket.clone());
        async move { state.respond(request, socket).await }
    });
    // Broken connections are expected: faults cause them.
    let _ended = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

impl RemoteState {
    async fn respond(
        self: Arc<Self>,
        request: Request<Incoming>,
        socket: Socket,
    ) -> io::Result<Response<Body>> {
        if let Some(rejection) = self.check_guard(&request) {
            return rejection;
        }
        match self.transport {
            MockTransport::StreamableHttp => streamable::respond(self, request, socket).await,
            MockTransport::Sse => sse::respond(self, request, socket).await,
        }
    }

    /// The guard's response, if the request does not reach the server.
    fn check_guard(&self, request: &Request<Incoming>) -> Option<io::Result<Response<Body>>> {
        let (guard, url) = (self.guard.as_ref()?, self.url.get()?);
        let path = request.uri().path();
        if let Some(document) = guard.document(path, url) {
            let body = Body::from(document.to_string());
            return Some(response(StatusCode::OK, "application/json", body));
        }
        let header = request.headers().get(header::AUTHORIZATION);
        let challenge = guard.check(header.and_then(|value| value.to_str().ok()), url).err()?;
        // Missing documents are 404 with or without a token.
        if path.starts_with("/.well-known/") {
            return Some(empty(StatusCode::NOT_FOUND));
        }
        let status = StatusCode::from_u16(challenge.status).unwrap_or(StatusCode::UNAUTHORIZED);
        let rejection = Response::builder().status(status);
        let rejection = rejection.header(header::WWW_AUTHENTICATE, challenge.header);
        Some(rejection.body(Body::from(String::new())).map_err(io::Error::other))
    }

    fn has_session(&self, session: &str) -> bool {
        self.sessions.borrow().contains_key(session)
    }

    fn open(&self, session: String, stream: SessionStream) {
        self.sessions.send_modify(|sessions| drop(sessions.insert(session, stream)));
    }

    /// Sends a notification on the stream whenever the tools change.
    fn notify_tool_changes(self: &Arc<Self>, sender: mpsc::Sender<Chunk>) {
        let mock = self.mock.clone();
        self.tasks.spawn(boxed(async move {
            let mut version = mock.tools_version();
            loop {
                tokio::select! {
                    () = sender.closed() => return,
                    () = mock.tools_changed(&mut version) => {}
                }
                let note = crate::wire::notification(
                    "notifications/tools/list_changed",
                    &serde_json::Value::Null,
                );
                if sender.send(Ok(event("message", &note))).await.is_err() {
                    return;
                }
            }
        }));
    }
}

/// Makes the connection close with a reset.
fn reset_on_close(socket: &OwnedFd) {
    let _set = set_socket_linger(socket, Some(Duration::ZERO));
}

fn event(kind: &str, data: &str) -> Bytes {
    Bytes::from(format!("event: {kind}\ndata: {data}\n\n"))
}

async fn read_body(request: Request<Incoming>) -> io::Result<String> {
    let body = request.into_body().collect().await.map_err(io::Error::other)?;
    Ok(String::from_utf8_lossy(&body.to_bytes()).into_owned())
}

fn response(status: StatusCode, kind: &str, body: Body) -> io::Result<Response<Body>> {
    let response = Response::builder().status(status).header("content-type", kind);
    response.body(body).map_err(io::Error::other)
}

fn empty(status: StatusCode) -> io::Result<Response<Body>> {
    Response::builder().status(status).body(Body::from(String::new())).map_err(io::Error::other)
}

/// The error that closes a connection without a response.
fn aborted() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "cut on purpose")
}

fn new_session() -> String {
    format!("mock-session-{}", crate::instance::random_hex())
}
