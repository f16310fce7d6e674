//! A small HTTP server whose answers a test writes byte by byte.

use std::sync::{Arc, PoisonError};

use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::JoinSet,
};

#[expect(clippy::disallowed_types, reason = "the simplest there is for tests")]
type Mutex<T> = std::sync::Mutex<T>;

/// A request as it came.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    pub method: String,
    pub path: String,
    /// The lines of its head, names in lower case.
    pub head: String,
    pub body: String,
}

impl Seen {
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

/// An answer.
pub enum Say {
    /// A status, headers, and a whole body.
    Whole(u16, &'static str, String),
    /// Events, after which the stream ends.
    Events(Vec<String>),
    /// Events as they come, until the sender is gone.
    Open(mpsc::UnboundedReceiver<String>),
    /// The connection is closed without an answer.
    Hang,
    /// Nothing; that the client closes the connection is noted as a request named `CLOSED`.
    Nothing,
}

impl Say {
    pub fn json(body: impl Into<String>) -> Self {
        Self::Whole(200, "content-type: application/json\r\n", body.into())
    }

    pub fn result(seen: &Seen, result: &str) -> Self {
        Self::json(format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, seen.id()))
    }

    pub fn status(status: u16) -> Self {
        Self::Whole(status, "", String::new())
    }
}

type Handler = dyn Fn(&Seen) -> Say + Send + Sync;

/// A server that runs until it is dropped.
pub struct Web {
    pub url: String,
    pub seen: Arc<Mutex<Vec<Seen>>>,
    _tasks: JoinSet<()>,
}

impl Web {
    pub async fn start(handler: impl Fn(&Seen) -> Say + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let (handler, log): (Arc<Handler>, _) = (Arc::new(handler), Arc::clone(&seen));
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, Arc::clone(&handler), Arc::clone(&log)));
            }
        });
        Self { url, seen, _tasks: tasks }
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits for a request like this.
    pub async fn wait_for(&self, like: impl Fn(&Seen) -> bool) -> Seen {
        for _ in 0..2000 {
            if let Some(seen) = self.seen().into_iter().find(&like) {
                return seen;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        panic!("it did not come");
    }

    /// The requests that hold a method of JSON-RPC.
    pub fn seen_of(&self, method: &str) -> Vec<Seen> {
        self.seen().into_iter().filter(|seen| seen.is(method)).collect()
    }
}

async fn serve(stream: TcpStream, handler: Arc<Handler>, log: Arc<Mutex<Vec<Seen>>>) {
    let mut stream = BufReader::new(stream);
    while let Some(seen) = read(&mut stream).await {
        log.lock().unwrap_or_else(PoisonError::into_inner).push(seen.clone());
        match handler(&seen) {
            Say::Hang => return,
            Say::Nothing => {
                let ended = stream.read_u8().await;
                assert!(ended.is_err(), "the client waits in silence");
                let seen = Seen { method: "CLOSED".to_owned(), ..seen };
                return log.lock().unwrap_or_else(PoisonError::into_inner).push(seen);
            }
            Say::Whole(status, headers, body) => {
                let length = body.len();
                let text = format!(
                    "HTTP/1.1 {status} X\r\n{headers}content-length: {length}\r\n\r\n{body}"
                );
                stream.write_all(text.as_bytes()).await.unwrap_or_default();
            }
            Say::Events(events) => {
                begin(&mut stream).await;
                for event in events {
                    chunk(&mut stream, &event).await;
                }
                stream.write_all(b"0\r\n\r\n").await.unwrap_or_default();
            }
            Say::Open(mut events) => {
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

async fn read(stream: &mut BufReader<TcpStream>) -> Option<Seen> {
    let mut first = String::new();
    stream.read_line(&mut first).await.ok().filter(|size| *size > 0)?;
    let mut words = first.split(' ').map(str::to_owned);
    let mut seen = Seen { method: words.next()?, path: words.next()?, ..Seen::default() };
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.ok().filter(|size| *size > 0)?;
        match line.trim_end().split_once(':') {
            Some((name, value)) => {
                let name = name.to_ascii_lowercase();
                seen.head.extend([&name, ": ", value.trim(), "\n"]);
            }
            None => break,
        }
    }
    let length = seen.header("content-length").and_then(|length| length.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body).await.ok()?;
    seen.body = String::from_utf8(body).ok()?;
    Some(seen)
}

/// The answers of a small legacy server to everything but what `more` answers.
pub fn legacy(seen: &Seen, more: impl FnOnce(&Seen) -> Option<Say>) -> Say {
    if let Some(say) = more(seen) {
        return say;
    }
    match () {
        () if seen.method == "GET" => Say::status(405),
        () if seen.method == "DELETE" => Say::status(200),
        () if seen.is("initialize") => {
            let body = format!(
                r#"{{"jsonrpc":"2.0","id":{},"result":{{"protocolVersion":"2025-06-18","capabilities":{{"tools":{{}}}},"serverInfo":{{}}}}}}"#,
                seen.id()
            );
            Say::Whole(200, "content-type: application/json\r\nmcp-session-id: s1\r\n", body)
        }
        () if seen.is("tools/list") => Say::result(seen, r#"{"tools":[{"name":"t"}]}"#),
        () if seen.is("server/discover") => Say::status(400),
        () => Say::status(202),
    }
}

/// The same for a modern one.
pub fn modern(seen: &Seen, more: impl FnOnce(&Seen) -> Option<Say>) -> Say {
    if let Some(say) = more(seen) {
        return say;
    }
    match () {
        () if seen.is("server/discover") => Say::result(
            seen,
            r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}"#,
        ),
        () if seen.is("tools/list") => {
            Say::result(seen, r#"{"resultType":"complete","tools":[{"name":"t"}]}"#)
        }
        () => Say::status(400),
    }
}
