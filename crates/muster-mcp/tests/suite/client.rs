//! A small HTTP client, and a server to talk to.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use muster_mcp::{
    http::{ConnectionThreads, HttpOptions, serve},
    server::Server,
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use super::fake::{Fake, Journal, fake};

/// A running server; it stops with the test.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) fake: Arc<Fake>,
    pub(crate) journal: Journal,
    pub(crate) stop: CancellationToken,
    pub(crate) serving: JoinSet<()>,
    _threads: Option<ConnectionThreads>,
}

pub(crate) async fn start() -> Running {
    start_with(HttpOptions::default()).await
}

pub(crate) async fn start_with(options: HttpOptions) -> Running {
    let (fake, journal) = fake();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let mut serving = JoinSet::new();
    let (server, stopped) = (Server::new(Arc::<Fake>::clone(&fake)), stop.clone());
    serving.spawn(async move {
        serve(server, vec![listener], options, stopped.cancelled()).await.unwrap();
    });
    Running { address, fake, journal, stop, serving, _threads: None }
}

/// A server that serves connections on threads of their own, as a gateway does.
pub(crate) async fn start_on_threads(options: HttpOptions) -> Running {
    let threads = ConnectionThreads::new();
    let running = start_with(HttpOptions { threads: threads.pool(), ..options }).await;
    Running { _threads: Some(threads), ..running }
}

/// Anything a test waits for comes soon, or never.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(10), future).await.expect("nothing happened")
}

impl Running {
    /// The next entry of the journal.
    pub(crate) async fn journal(&mut self) -> String {
        soon(self.journal.recv()).await.unwrap()
    }

    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Reply {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let mut request = Request::builder().method(method).uri(path);
        if !headers.iter().any(|(name, _)| *name == "host") {
            request = request.header("host", self.address.to_string());
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        exchange(stream, request.body(Full::new(body.into())).unwrap()).await
    }

    /// A legacy client with these capabilities.
    pub(crate) async fn initialize(&self, capabilities: Value) -> Legacy<'_> {
        let params = json!({
            "protocolVersion": "2025-11-25", "capabilities": capabilities,
            "clientInfo": {"name": "test", "version": "1"},
        });
        let reply = self.post(&[], &request(0, "initialize", &params)).await;
        assert_eq!(reply.status, StatusCode::OK);
        let session = reply.header("mcp-session-id").to_owned();
        Legacy { server: self, session }
    }

    pub(crate) async fn post(&self, headers: &[(&str, &str)], message: &Value) -> Reply {
        let mut all = vec![
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
        ];
        all.retain(|(name, _)| !headers.iter().any(|(given, _)| given == name));
        all.extend(headers);
        self.send("POST", "/mcp", &all, message.to_string()).await
    }

    /// A modern request with everything it must carry.
    pub(crate) async fn modern(&self, id: u32, method: &str, params: Value) -> Reply {
        let params = modern(params);
        let name = params.get("name").or_else(|| params.get("uri"));
        let name = name.and_then(Value::as_str).unwrap_or("-").to_owned();
        let headers =
            [("mcp-protocol-version", "2026-07-28"), ("mcp-method", method), ("mcp-name", &name)];
        self.post(&headers, &request(id, method, &params)).await
    }
}

/// Sends one request over a connection.
pub(crate) async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
) -> Reply {
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    let mut running = JoinSet::new();
    running.spawn(async move { drop(connection.await) });
    let response = soon(sender.send_request(request)).await.unwrap();
    let (head, body) = response.into_parts();
    Reply {
        status: head.status,
        headers: head.headers,
        body,
        text: String::new(),
        _running: running,
    }
}

/// `params` with what a modern request carries.
pub(crate) fn modern(mut params: Value) -> Value {
    let mut meta = params.get("_meta").cloned().unwrap_or_else(|| json!({}));
    meta["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
    meta["io.modelcontextprotocol/clientCapabilities"] = json!({"elicitation": {}});
    params["_meta"] = meta;
    params
}

pub(crate) fn request(id: u32, method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

pub(crate) fn call(name: &str) -> Value {
    json!({"name": name, "arguments": {}})
}

/// A client with a session.
pub(crate) struct Legacy<'a> {
    pub(crate) server: &'a Running,
    pub(crate) session: String,
}

impl Legacy<'_> {
    pub(crate) async fn post(&self, message: &Value) -> Reply {
        let headers = [("mcp-session-id", &*self.session), ("mcp-protocol-version", "2025-11-25")];
        self.server.post(&headers, message).await
    }

    pub(crate) async fn ask(&self, id: u32, method: &str, params: Value) -> Reply {
        self.post(&request(id, method, &params)).await
    }

    pub(crate) async fn tell(&self, method: &str, params: Value) -> Reply {
        self.post(&json!({"jsonrpc": "2.0", "method": method, "params": params})).await
    }

    pub(crate) async fn send(&self, method: &str) -> Reply {
        let headers = [("mcp-session-id", &*self.session), ("accept", "text/event-stream")];
        self.server.send(method, "/mcp", &headers, "").await
    }
}

/// A response, read as it comes. Dropping it closes the connection.
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    body: Incoming,
    text: String,
    _running: JoinSet<()>,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    pub(crate) async fn text(mut self) -> String {
        while self.more().await {}
        self.text
    }

    pub(crate) async fn json(self) -> Value {
        assert_eq!(self.header("content-type"), "application/json");
        serde_json::from_str(&self.text().await).unwrap()
    }

    async fn more(&mut self) -> bool {
        match soon(self.body.frame()).await {
            Some(Ok(frame)) => {
                let data = frame.into_data().unwrap();
                self.text.push_str(std::str::from_utf8(&data).unwrap());
                true
            }
            Some(Err(_)) | None => false,
        }
    }

    /// The next event as it was sent, comments too; none at the end.
    pub(crate) async fn raw_event(&mut self) -> Option<String> {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let event = event.to_owned();
                self.text = rest.to_owned();
                return Some(event);
            }
            if !self.more().await {
                return None;
            }
        }
    }

    /// The next message; none at the end.
    pub(crate) async fn event(&mut self) -> Option<Value> {
        loop {
            let event = self.raw_event().await?;
            if let Some(data) = event.strip_prefix("event: message\ndata: ") {
                return Some(serde_json::from_str(data).unwrap());
            }
        }
    }
}
