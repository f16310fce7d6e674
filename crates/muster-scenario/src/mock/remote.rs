//! Mock servers in this process, reached over HTTP: streamable, or with the older stream of events.
//!
//! A protected server is the same one behind a [`Door`]: what the door says is decided before
//! [`Shared::respond`] looks at a request, and nothing below it knows.

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

use super::{MockConfig, engine::Mock};
use crate::{oauth::door::Door, scenario::Transport};
use body::{Body, LEAVING};

/// What travels on a stream: bytes, or the way it breaks.
type Chunk = io::Result<Bytes>;

/// Events that may wait on a stream that nobody reads; a test that has more has gone wrong.
const WAITING: usize = 256;

/// A mock server on a port of its own. It ends when dropped.
pub struct RemoteMock {
    shared: Arc<Shared>,
    port: u16,
    /// Listeners and connections, unless it was killed.
    running: Option<JoinSet<()>>,
}

impl fmt::Debug for RemoteMock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteMock").field("port", &self.port).finish_non_exhaustive()
    }
}

/// What all connections of a mock know.
struct Shared {
    mock: Mock,
    transport: Transport,
    door: Option<Door>,
    /// Its address, known once it listens.
    url: OnceLock<String>,
    sessions: watch::Sender<BTreeMap<String, Stream>>,
    tasks: TaskTracker,
}

/// The stream of a session, if it has one.
#[derive(Clone)]
struct Stream {
    sender: Option<mpsc::Sender<Chunk>>,
    socket: Weak<OwnedFd>,
}

/// A second handle of a connection, to cut it. The connection holds it too, and nobody else for
/// longer than a moment: it stays open as long as there is one.
type Socket = Arc<OwnedFd>;

impl RemoteMock {
    /// Starts on a free port.
    pub async fn start(name: &str, config: &MockConfig, transport: Transport) -> io::Result<Self> {
        Self::behind(None, name, config, transport).await
    }

    /// Starts on a free port, behind a door if there is one.
    pub async fn behind(
        door: Option<Door>,
        name: &str,
        config: &MockConfig,
        transport: Transport,
    ) -> io::Result<Self> {
        let shared = Shared {
            mock: Mock::new(name, config),
            transport,
            door,
            url: OnceLock::new(),
            sessions: watch::Sender::default(),
            tasks: TaskTracker::new(),
        };
        let mut mock = Self { shared: Arc::new(shared), port: 0, running: None };
        mock.revive().await?;
        Ok(mock)
    }

    /// Where it is.
    pub fn url(&self) -> String {
        format!("http://localhost:{}{}", self.port, self.shared.transport.path())
    }

    /// Its port.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// What it answers.
    pub fn mock(&self) -> &Mock {
        &self.shared.mock
    }

    /// Closes the port and cuts every connection; sessions are forgotten. Whether it was running.
    pub fn kill(&mut self) -> bool {
        self.shared.sessions.send_modify(BTreeMap::clear);
        self.running.take().is_some()
    }

    /// Opens the port again, the same one if it had one.
    pub async fn revive(&mut self) -> io::Result<()> {
        if self.running.is_some() {
            return Ok(());
        }
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, self.port)).await?;
        self.port = listener.local_addr()?.port();
        self.shared.url.get_or_init(|| self.url());
        let mut running = JoinSet::new();
        running.spawn(accept(listener, Arc::clone(&self.shared)));
        // `localhost` may mean either family. Where there is only one, one is enough.
        if let Ok(listener) = TcpListener::bind((Ipv6Addr::LOCALHOST, self.port)).await {
            running.spawn(accept(listener, Arc::clone(&self.shared)));
        }
        self.running = Some(running);
        Ok(())
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    // Connections end with the listener, because they are in a set of its own.
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let _prompt = stream.set_nodelay(true);
        connections.spawn(converse(stream, Arc::clone(&shared)));
        while connections.try_join_next().is_some() {}
    }
}

async fn converse(stream: TcpStream, shared: Arc<Shared>) {
    let Ok(socket) = stream.as_fd().try_clone_to_owned() else { return };
    let socket = Arc::new(socket);
    let service = service_fn(move |request| {
        let (shared, socket) = (Arc::clone(&shared), socket.clone());
        async move { shared.respond(request, socket).await }
    });
    // A client that goes away, or is sent away, is what these servers are for.
    let _ended = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

impl Shared {
    async fn respond(
        self: Arc<Self>,
        request: Request<Incoming>,
        socket: Socket,
    ) -> io::Result<Response<Body>> {
        if let Some(refused) = self.at_the_door(&request) {
            return refused;
        }
        match self.transport {
            Transport::StreamableHttp => streamable::respond(self, request, socket).await,
            Transport::Sse => sse::respond(self, request, socket).await,
        }
    }

    /// What the door answers instead of the server, if it does.
    fn at_the_door(&self, request: &Request<Incoming>) -> Option<io::Result<Response<Body>>> {
        let (door, url) = (self.door.as_ref()?, self.url.get()?);
        let path = request.uri().path();
        if let Some(document) = door.document(path, url) {
            let body = Body::from(document.to_string());
            return Some(response(StatusCode::OK, "application/json", body));
        }
        let header = request.headers().get(header::AUTHORIZATION);
        let challenge = door.check(header.and_then(|value| value.to_str().ok()), url).err()?;
        // Documents that are not here are not here for anybody.
        if path.starts_with("/.well-known/") {
            return Some(empty(StatusCode::NOT_FOUND));
        }
        let status = StatusCode::from_u16(challenge.status).unwrap_or(StatusCode::UNAUTHORIZED);
        let refused = Response::builder().status(status);
        let refused = refused.header(header::WWW_AUTHENTICATE, challenge.header);
        Some(refused.body(Body::from(String::new())).map_err(io::Error::other))
    }

    fn knows(&self, session: &str) -> bool {
        self.sessions.borrow().contains_key(session)
    }

    fn open(&self, session: String, stream: Stream) {
        self.sessions.send_modify(|sessions| drop(sessions.insert(session, stream)));
    }

    /// Tells a stream when the tools change, until it is gone.
    fn announce(self: &Arc<Self>, sender: mpsc::Sender<Chunk>) {
        let mock = self.mock.clone();
        self.tasks.spawn(async move {
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
        });
    }
}

/// Makes the connection end with a reset, once its last user lets go of it.
fn reset_at_end(socket: &OwnedFd) {
    let _set = set_socket_linger(socket, Some(Duration::ZERO));
}

fn event(kind: &str, data: &str) -> Bytes {
    Bytes::from(format!("event: {kind}\ndata: {data}\n\n"))
}

async fn text_of(request: Request<Incoming>) -> io::Result<String> {
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

/// The connection ends here, without a response.
fn cut() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "cut on purpose")
}

fn new_session() -> String {
    format!("mock-session-{}", crate::instance::random_hex())
}
