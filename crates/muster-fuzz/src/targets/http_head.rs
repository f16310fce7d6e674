//! Heads of HTTP requests, on a connection to the real endpoint.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use muster_core::{
    backend::BoxFuture,
    call::Caller,
    client::ClientHandle,
    credentials::Peer,
    request::{
        Change, ChangeStream, ClientRequest, RequestError, RequestHandler, Response,
        ServerCapabilities, ServerInfo,
    },
};
use muster_mcp::{
    http::{HttpOptions, serve_connection},
    server::Server,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    runtime::Runtime,
    time::timeout,
};

use super::FuzzTarget;

/// The most bytes that are written to and read from a connection at once.
const BUFFER: usize = 64 * 1024;

/// How long a connection may last after its client has left.
const TIME_LIMIT: Duration = Duration::from_secs(4);

pub(super) const TARGET: FuzzTarget = FuzzTarget {
    name: "http-head",
    seeds: &[
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\naccept: application/json, text/event-stream\r\ncontent-length: 40\r\n\r\n{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}",
        "POST /mcp/reading HTTP/1.1\r\nhost: 127.0.0.1:8090\r\nmcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: =?base64?YQ==?=\r\nmuster-toolset: reading\r\ncontent-type: application/json; charset=utf-8\r\naccept: */*;q=0.1\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        "GET /mcp HTTP/1.1\r\nhost: [::1]:8090\r\nmcp-session-id: mcp-session-1\r\naccept: text/event-stream\r\n\r\nDELETE / HTTP/1.1\r\nhost: localhost\r\n\r\n",
        "OPTIONS /mcp HTTP/1.1\r\nhost: localhost\r\norigin: http://app.example\r\naccess-control-request-method: POST\r\naccess-control-request-headers: authorization\r\n\r\n",
        "GET /health HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer mst_x\r\n\r\nPOST /message?sessionId=x HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n",
    ],
    tokens: &[
        "\r\n",
        "\r\n\r\n",
        "\n",
        ": ",
        "GET ",
        "POST ",
        " HTTP/1.1\r\n",
        " HTTP/1.0\r\n",
        "/mcp",
        "/mcp/x",
        "//",
        "%2f",
        "?sessionId=",
        "host: ",
        "host: evil.example",
        "origin: null",
        "content-length: 5",
        "transfer-encoding: chunked",
        "expect: 100-continue",
        "upgrade: websocket",
        "connection: close",
        "accept: application/json;q=0",
        "mcp-session-id: ",
        "mcp-param-a: ",
        "muster-toolset: ",
        "=?base64?",
        "\u{e9}",
        "\t",
    ],
    execute,
};

thread_local! {
    static RUNTIME: Option<Runtime> =
        tokio::runtime::Builder::new_current_thread().enable_all().build().ok();
}

fn execute(input: &str) -> Result<bool, String> {
    RUNTIME.with(|runtime| match runtime {
        Some(runtime) => runtime.block_on(send(input)),
        None => Err("no runtime".to_owned()),
    })
}

/// Sends an input and leaves. Every answer must be one, and the connection must end.
async fn send(input: &str) -> Result<bool, String> {
    let local = SocketAddr::from(([127, 0, 0, 1], 8090));
    let peer = Peer::new(SocketAddr::from(([127, 0, 0, 1], 50_000)), local);
    let (mut client, served) = tokio::io::duplex(BUFFER);
    let options =
        HttpOptions { origins: vec!["http://app.example".to_owned()], ..HttpOptions::default() };
    let serving = serve_connection(Server::new(Arc::new(Silent::new())), options, served, peer);
    let talking = async {
        drop(client.write_all(input.as_bytes()).await);
        drop(client.shutdown().await);
        let mut answer = Vec::new();
        drop(client.read_to_end(&mut answer).await);
        answer
    };
    let both = async { tokio::join!(serving, talking).1 };
    let Ok(answer) = timeout(TIME_LIMIT, both).await else {
        return Err("the connection does not end".to_owned());
    };
    let answer = String::from_utf8_lossy(&answer);
    let status = answer.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5));
    match status {
        None if answer.is_empty() => Ok(false),
        None => Err(format!("not an answer: {answer}")),
        Some(status) if status.starts_with('5') => Err(format!("the server failed: {answer}")),
        Some(status) => Ok(status.starts_with('2')),
    }
}

/// Serves nothing.
#[derive(Debug)]
struct Silent(ServerInfo);

impl Silent {
    fn new() -> Self {
        let (name, version) = ("silent".to_owned(), "1".to_owned());
        Self(ServerInfo { name, version, instructions: None })
    }
}

struct NoChanges;

impl ChangeStream for NoChanges {
    fn next(&mut self) -> BoxFuture<'_, Option<Change>> {
        Box::pin(std::future::pending())
    }
}

impl RequestHandler for Silent {
    fn server_info(&self) -> &ServerInfo {
        &self.0
    }

    fn capabilities(&self) -> ServerCapabilities {
        ServerCapabilities::default()
    }

    fn changes(&self) -> Box<dyn ChangeStream> {
        Box::new(NoChanges)
    }

    fn handle<'a>(
        &'a self,
        _: &'a Caller,
        _: &'a Arc<dyn ClientHandle>,
        _: ClientRequest,
    ) -> BoxFuture<'a, Result<Response, RequestError>> {
        let refused = RequestError::Unsupported("nothing is served".to_owned());
        Box::pin(std::future::ready(Err(refused)))
    }
}
