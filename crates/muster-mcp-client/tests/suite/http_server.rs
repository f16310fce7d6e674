//! An HTTP server whose responses a test writes byte by byte.

use std::sync::Arc;

use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
    sync::{mpsc, watch},
    task::JoinSet,
    time::timeout,
};

use super::harness::LIMIT;

/// The received requests.
type RequestLog = Arc<watch::Sender<Vec<ReceivedRequest>>>;

/// A received request.
#[derive(Debug, Clone, Default)]
pub struct ReceivedRequest {
    pub method: String,
    pub path: String,
    /// The lines of its head, names in lower case.
    pub head: String,
    pub body: String,
}

impl ReceivedRequest {
    pub fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.into_iter().find(|(key, _)| *key == name).map(|(_, value)| value)
    }

    /// The id of the JSON-RPC request in it.
    pub fn id(&self) -> String {
        let message: serde_json::Value = serde_json::from_str(&self.body).unwrap_or_default();
        message["id"].to_string()
    }

    pub fn is(&self, method: &str) -> bool {
        self.body.contains(&format!(r#""method":"{method}""#))
    }
}

/// A reply of the server.
pub enum Reply {
    /// A status, headers, and a whole body.
    Document(u16, &'static str, String),
    /// Events, after which the stream ends.
    Events(Vec<String>),
    /// Events as they come, until the sender is gone.
    OpenStream(mpsc::UnboundedReceiver<String>),
    /// The connection is closed without an answer.
    Disconnect,
    /// Nothing; that the client closes the connection is noted as a request named `CLOSED`.
    Silence,
}

impl Reply {
    pub fn json(body: impl Into<String>) -> Self {
        Self::Document(200, "content-type: application/json\r\n", body.into())
    }

    pub fn result(request: &ReceivedRequest, result: &str) -> Self {
        Self::json(format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, request.id()))
    }

    pub fn status(status: u16) -> Self {
        Self::Document(status, "", String::new())
    }
}

type Handler = dyn Fn(&ReceivedRequest) -> Reply + Send + Sync;

/// A server that runs until it is dropped.
pub struct HttpServer {
    pub url: String,
    received: RequestLog,
    _tasks: JoinSet<()>,
}

impl HttpServer {
    pub async fn start(
        handler: impl Fn(&ReceivedRequest) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let received = RequestLog::default();
        let (handler, log): (Arc<Handler>, _) = (Arc::new(handler), Arc::clone(&received));
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, Arc::clone(&handler), Arc::clone(&log)));
            }
        });
        Self { url, received, _tasks: tasks }
    }

    pub fn requests(&self) -> Vec<ReceivedRequest> {
        self.received.borrow().clone()
    }

    /// Waits for a request like this.
    pub async fn wait_for(&self, like: impl Fn(&ReceivedRequest) -> bool) -> ReceivedRequest {
        let mut received = self.received.subscribe();
        let found = timeout(LIMIT, received.wait_for(|all| all.iter().any(&like))).await;
        let all = found.expect("it did not come").unwrap().clone();
        all.into_iter().find(&like).unwrap()
    }

    /// The requests that hold a method of JSON-RPC.
    pub fn requests_of(&self, method: &str) -> Vec<ReceivedRequest> {
        self.requests().into_iter().filter(|request| request.is(method)).collect()
    }
}

async fn serve(stream: TcpStream, handler: Arc<Handler>, log: RequestLog) {
    let mut stream = BufReader::new(stream);
    while let Some(request) = read(&mut stream).await {
        log.send_modify(|all| all.push(request.clone()));
        match handler(&request) {
            Reply::Disconnect => return,
            Reply::Silence => {
                let ended = stream.read_u8().await;
                assert!(ended.is_err(), "the client waits in silence");
                let request = ReceivedRequest { method: "CLOSED".to_owned(), ..request };
                return log.send_modify(|all| all.push(request));
            }
            Reply::Document(status, headers, body) => {
                let length = body.len();
                let text = format!(
                    "HTTP/1.1 {status} X\r\n{headers}content-length: {length}\r\n\r\n{body}"
                );
                stream.write_all(text.as_bytes()).await.unwrap_or_default();
            }
            Reply::Events(events) => {
                begin(&mut stream).await;
                for event in events {
                    chunk(&mut stream, &event).await;
                }
                stream.write_all(b"0\r\n\r\n").await.unwrap_or_default();
            }
            Reply::OpenStream(mut events) => {
                begin(&mut stream).await;
                while let Some(event) = events.recv().await {
                    chunk(&mut stream, &event).await;
                }
                return;
            }
        }
    }
}

async fn begin(stream: &mut BufReader<TcpStream>) {
    let head =
        "HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap_or_default();
}

async fn chunk(stream: &mut BufReader<TcpStream>, text: &str) {
    let text = format!("{:x}\r\n{text}\r\n", text.len());
    stream.write_all(text.as_bytes()).await.unwrap_or_default();
}

async fn read(stream: &mut BufReader<TcpStream>) -> Option<ReceivedRequest> {
    let mut first = String::new();
    stream.read_line(&mut first).await.ok().filter(|size| *size > 0)?;
    let mut words = first.split(' ').map(str::to_owned);
    let mut request = ReceivedRequest {
        method: words.next()?,
        path: words.next()?,
        ..ReceivedRequest::default()
    };
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.ok().filter(|size| *size > 0)?;
        match line.trim_end().split_once(':') {
            Some((name, value)) => {
                let name = name.to_ascii_lowercase();
                request.head.extend([&name, ": ", value.trim(), "\n"]);
            }
            None => break,
        }
    }
    let length = request.header("content-length").and_then(|length| length.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body).await.ok()?;
    request.body = String::from_utf8(body).ok()?;
    Some(request)
}

/// The replies of a small legacy server to everything that `more` does not handle.
pub fn legacy(
    request: &ReceivedRequest,
    more: impl FnOnce(&ReceivedRequest) -> Option<Reply>,
) -> Reply {
    if let Some(reply) = more(request) {
        return reply;
    }
    match () {
        () if request.method == "GET" => Reply::status(405),
        () if request.method == "DELETE" => Reply::status(200),
        () if request.is("initialize") => {
            let body = format!(
                r#"{{"jsonrpc":"2.0","id":{},"result":{{"protocolVersion":"2025-06-18","capabilities":{{"tools":{{}}}},"serverInfo":{{}}}}}}"#,
                request.id()
            );
            Reply::Document(200, "content-type: application/json\r\nmcp-session-id: s1\r\n", body)
        }
        () if request.is("tools/list") => Reply::result(request, r#"{"tools":[{"name":"t"}]}"#),
        () if request.is("server/discover") => Reply::status(400),
        () => Reply::status(202),
    }
}

/// The replies of a small modern server to everything that `more` does not handle.
pub fn modern(
    request: &ReceivedRequest,
    more: impl FnOnce(&ReceivedRequest) -> Option<Reply>,
) -> Reply {
    if let Some(reply) = more(request) {
        return reply;
    }
    match () {
        () if request.is("server/discover") => Reply::result(
            request,
            r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}"#,
        ),
        () if request.is("tools/list") => {
            Reply::result(request, r#"{"resultType":"complete","tools":[{"name":"t"}]}"#)
        }
        () => Reply::status(400),
    }
}
