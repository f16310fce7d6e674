//! The bridge: connects a client on a pair of pipes to a server behind streamable HTTP.
//!
//! Messages of both eras pass in both directions as written. The bridge adds and removes only what HTTP
//! needs: headers, the session, and the standalone event stream of a legacy server.
//!
//! An unreachable server is retried for a while. A request that was not sent, or that cannot have had an effect, is
//! sent once the server is back. Any other request fails with an error that says so, because nothing must be done
//! twice. When a legacy server has lost the session, the client's own handshake is repeated.
//!
//! While the server requires a login that only the user can do, a local server serves the client instead.

mod client_session;
mod locator;
mod login;
mod login_gate;
mod output;
mod request;
mod server_requests;
mod upstream;

use std::{
    collections::BTreeMap,
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use http::HeaderMap;
use muster_core::{backend::boxed, request::RequestHandler};
use muster_mcp::{
    stdio::{Input, LIMIT, Line, LineReader, Output},
    version::Era,
    wire::{Message, RpcError, code, error_line},
};
use muster_net::{Dialer, TrustStore, Url};
use serde_json::value::RawValue;
use thiserror::Error;
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
use tokio_util::task::TaskTracker;

pub use self::{
    locator::{LocateError, Need, UpstreamLocator},
    login::{LoginProvider, NoLogin, TokenRenewal},
};
use self::{
    output::ClientOutput,
    request::{BridgedRequest, RequestKind, cancelled_id, version_of},
    upstream::Upstream,
};
pub use crate::http::pool::AddressHeader;
use crate::http::{
    pool::{Authorization, Pool},
    session::HttpSession,
};

/// The options of a bridge.
#[derive(Debug)]
pub struct BridgeOptions {
    /// The URL of the server.
    pub url: String,
    /// Finds the server if its address may change.
    pub locator: Option<Arc<dyn UpstreamLocator>>,
    /// The header of requests to an address.
    pub address_header: Option<AddressHeader>,
    /// Supplies the token of requests.
    pub login: Arc<dyn LoginProvider>,
    /// Serves the client while the user has to log in.
    pub until_login: Option<Arc<dyn RequestHandler>>,
    /// How long a request is retried while the server cannot be reached.
    pub retry_window: Duration,
}

impl BridgeOptions {
    /// A bridge to `url` without a login.
    pub fn new(url: impl Into<String>) -> Self {
        let (login, retry_window) = (Arc::new(NoLogin), Duration::from_secs(15));
        let (locator, address_header, until_login) = (None, None, None);
        Self { url: url.into(), locator, address_header, login, until_login, retry_window }
    }
}

/// Why a bridge ended.
#[derive(Debug, Error)]
pub enum BridgeError {
    /// The URL is invalid.
    #[error("`{url}` is no address of a server: {reason}")]
    Address {
        /// The URL.
        url: String,
        /// Why it is invalid.
        reason: String,
    },
    /// The client cannot be read from or written to.
    #[error("the connection to the client failed: {0}")]
    Client(#[from] io::Error),
}

/// Serves one client until it leaves, or until `stop`.
pub async fn serve(
    options: BridgeOptions,
    input: Input,
    output: Output,
    stop: impl Future<Output = ()>,
) -> Result<(), BridgeError> {
    let url = Url::parse(options.url.trim()).map_err(|error| BridgeError::Address {
        url: options.url.clone(),
        reason: error.to_string(),
    })?;
    let tasks = TaskTracker::new();
    let dialer = Dialer::new(Arc::new(TrustStore::system()));
    let authorization = Authorization::Login(Arc::clone(&options.login));
    let pool = Pool::new(dialer, url, HeaderMap::new(), authorization);
    let pool = pool.with_locator(options.locator.clone());
    let pool = pool.with_address_header(options.address_header);
    let session = HttpSession::new(pool, Arc::default(), tasks);
    let session = session.with_retry_window(options.retry_window);
    let (out, outgoing) = ClientOutput::new();
    let upstream = Arc::new(Upstream::new(session, options, out.clone()));
    let mut writer = JoinSet::new();
    writer.spawn(boxed(output::write(output, outgoing)));
    let mut bridge = Bridge::new(Arc::clone(&upstream), out);
    let served = tokio::select! {
        served = bridge.run(input) => served,
        () = stop => Ok(()),
    };
    bridge.stop().await;
    upstream.http.close().await;
    drop((bridge, upstream));
    let written = writer.join_next().await;
    served?;
    match written {
        Some(Ok(result)) => Ok(result?),
        Some(Err(_)) | None => Ok(()),
    }
}

/// A request that is being forwarded.
struct Forwarding {
    task: AbortHandle,
    era: Era,
    kind: RequestKind,
    cancelled: Arc<AtomicBool>,
}

/// Reads the client's messages and forwards them.
struct Bridge {
    upstream: Arc<Upstream>,
    out: ClientOutput,
    requests: JoinSet<()>,
    /// The client's ids by task, to find a request when its task ends.
    ids: BTreeMap<Id, String>,
    /// By the client's id, for cancellation.
    forwarding: BTreeMap<String, Forwarding>,
    listener: JoinSet<()>,
    gate_operator: JoinSet<()>,
}

/// An event on the client's side.
enum Event {
    Line(Line),
    RequestEnded(Result<(Id, ()), JoinError>),
    ClientGone,
}

impl Bridge {
    fn new(upstream: Arc<Upstream>, out: ClientOutput) -> Self {
        let mut gate_operator = JoinSet::new();
        gate_operator.spawn(boxed(Arc::clone(&upstream).operate_gate()));
        Self {
            upstream,
            out,
            requests: JoinSet::new(),
            ids: BTreeMap::new(),
            forwarding: BTreeMap::new(),
            listener: JoinSet::new(),
            gate_operator,
        }
    }

    async fn run(&mut self, input: Input) -> io::Result<()> {
        let mut lines = LineReader::new(input);
        let mut reading = true;
        while reading || !self.requests.is_empty() {
            let event = tokio::select! {
                line = lines.next(), if reading => Event::Line(line?),
                Some(ended) = self.requests.join_next_with_id() => Event::RequestEnded(ended),
                () = self.out.closed() => Event::ClientGone,
            };
            match event {
                Event::Line(Line::Text(text)) => self.handle(text).await,
                Event::Line(Line::TooLong) => {
                    let message =
                        format!("Invalid Request: a message may have at most {LIMIT} bytes");
                    self.refuse(&RpcError::new(code::INVALID_REQUEST, message)).await;
                }
                Event::Line(Line::End) => {
                    reading = false;
                    self.close_input().await;
                }
                Event::RequestEnded(ended) => self.request_ended(&ended),
                Event::ClientGone => break,
            }
        }
        Ok(())
    }

    async fn handle(&mut self, text: String) {
        if text.trim().is_empty() {
            return;
        }
        match Message::parse(&text) {
            Err(malformed) => self.refuse(&RpcError::from(&malformed)).await,
            Ok(Message::Request { id, method, params }) => {
                let tools = &self.upstream.tool_headers;
                let request = BridgedRequest::new(tools, (id, &method, params), &text);
                self.forward(request).await;
            }
            Ok(Message::Notification { method, params }) => {
                self.notify(&method, params, &text).await;
            }
            Ok(Message::Response { id, .. }) => {
                self.upstream.server_requests.complete(id);
                self.send(&text, None).await;
            }
        }
    }

    async fn forward(&mut self, request: BridgedRequest) {
        if request.kind == RequestKind::Initialize {
            // Later messages belong to the session that this begins.
            tokio::select! {
                () = self.upstream.forward(&request) => (),
                () = self.out.closed() => (),
            }
            return;
        }
        let (id, era, kind) = (request.id.get().to_owned(), request.era, request.kind);
        let cancelled = Arc::clone(&request.cancelled);
        let upstream = Arc::clone(&self.upstream);
        let task = self.requests.spawn(async move { upstream.forward(&request).await });
        self.ids.insert(task.id(), id.clone());
        self.forwarding.insert(id, Forwarding { task, era, kind, cancelled });
    }

    async fn notify(&mut self, method: &str, params: Option<&RawValue>, text: &str) {
        if let Some(id) = cancelled_id(method, params) {
            return self.cancel(&id, text).await;
        }
        self.send(text, version_of(params)).await;
        if method == "notifications/initialized" {
            self.upstream.session.set_initialized(text);
            self.listener.abort_all();
            self.listener.spawn(boxed(Arc::clone(&self.upstream).listen()));
        }
    }

    async fn cancel(&self, id: &str, text: &str) {
        let request = self.forwarding.get(id);
        if let Some(request) = request {
            request.cancelled.store(true, Ordering::Relaxed);
        }
        // A modern request is cancelled by closing its connection.
        if request.is_none_or(|request| request.era == Era::Legacy) {
            self.send(text, None).await;
        }
        if let Some(request) = request {
            request.task.abort();
        }
    }

    /// Sends a message that has no response, before anything that follows it.
    async fn send(&self, text: &str, version: Option<String>) {
        tokio::select! {
            () = self.upstream.notify(text.to_owned(), version) => (),
            () = self.out.closed() => (),
        }
    }

    async fn refuse(&self, error: &RpcError) {
        self.out.line(error_line(None, error)).await;
    }

    /// The client closed its input: ends everything that waits for its messages or would run forever.
    async fn close_input(&self) {
        self.upstream.session.leave();
        for request in self.forwarding.values() {
            if request.kind == RequestKind::Subscription {
                request.task.abort();
            }
        }
        for response in self.upstream.server_requests.close() {
            self.upstream.notify(response, None).await;
        }
    }

    fn request_ended(&mut self, ended: &Result<(Id, ()), JoinError>) {
        let task = match ended {
            Ok((task, ())) => *task,
            Err(err) => err.id(),
        };
        let Some(id) = self.ids.remove(&task) else { return };
        if self.forwarding.get(&id).is_some_and(|request| request.task.id() == task) {
            self.forwarding.remove(&id);
        }
    }

    /// Cancels all tasks and waits for their end.
    async fn stop(&mut self) {
        self.requests.shutdown().await;
        self.listener.shutdown().await;
        self.gate_operator.shutdown().await;
    }
}
