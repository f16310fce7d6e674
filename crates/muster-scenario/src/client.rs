//! The tester's own MCP client: streamable HTTP in the era with `initialize`, and nothing more.

mod answer;

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use http::{Method, Request};
use muster_core::meta_tools;
use serde_json::{Map, Value, json};
use thiserror::Error;
use tokio::{sync::watch, task::JoinSet, time::timeout};

use crate::{
    http::{self as web, Response, events::Events},
    wire::{self, METHOD_NOT_FOUND, Message, RpcError},
};
pub use answer::{Answer, unwrap_envelope};

/// The version that is asked for.
const VERSION: &str = "2024-11-05";
/// How long the handshake may take.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(30);
/// How long a call may take where nothing else is said.
pub const CALL_LIMIT: Duration = Duration::from_secs(120);
/// How long a polite end may take.
const FAREWELL_LIMIT: Duration = Duration::from_secs(1);

/// Why a request has no result.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Failure {
    /// Nobody answered.
    #[error("{0}")]
    Broken(String),
    /// The server refused the request before it looked into it.
    #[error("request failed with status {status}: {body}{challenge}")]
    Status {
        /// The HTTP status.
        status: u16,
        /// What it said.
        body: String,
        /// What it wants, if it said so.
        challenge: String,
    },
    /// The answer is an error.
    #[error("{message}")]
    Rpc {
        /// Its code.
        code: i64,
        /// Its sentence.
        message: String,
    },
    /// What came is not what the protocol says.
    #[error("{0}")]
    Wrong(String),
    /// A meta-tool could not do its own work.
    #[error("meta-tool error: [{0}]")]
    Meta(String),
    /// It took too long.
    #[error("no answer within {}", crate::duration::short(*.0))]
    TimedOut(Duration),
}

impl From<web::Broken> for Failure {
    fn from(broken: web::Broken) -> Self {
        Self::Broken(broken.to_string())
    }
}

/// Where and as whom to connect.
#[derive(Debug, Clone)]
pub struct Target {
    /// The port on this machine.
    pub port: u16,
    /// The session that the client chooses for itself.
    pub session: String,
    /// The bearer token, if one is needed.
    pub bearer: Option<String>,
    /// Whether a stream for notifications is opened.
    pub listening: Listening,
}

/// Whether a stream for notifications is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listening {
    /// It is.
    Open,
    /// It is not.
    Closed,
}

/// A notification that arrived.
#[derive(Debug, Clone, PartialEq)]
pub struct Heard {
    /// Its method.
    pub method: String,
    /// What it carries.
    pub params: Value,
}

/// One session.
pub struct Client {
    link: Arc<Link>,
    /// Kept so that it ends with the session.
    _listener: JoinSet<()>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("session", &self.link.target.session).finish_non_exhaustive()
    }
}

struct Link {
    target: Target,
    /// The session that the server chose.
    id: Option<String>,
    last_id: AtomicU64,
    heard: watch::Sender<Vec<Heard>>,
}

impl Client {
    /// Connects and shakes hands.
    pub async fn connect(target: Target) -> Result<Self, Failure> {
        let listening = target.listening;
        let heard = watch::Sender::new(Vec::new());
        let mut link = Link { target, id: None, last_id: AtomicU64::new(0), heard };
        let params = json!({
            "protocolVersion": VERSION,
            "capabilities": {},
            "clientInfo": {"name": "muster-test-client", "version": "1.0.0"},
        });
        let shake = async {
            let id = link.last_id.fetch_add(1, Ordering::Relaxed) + 1;
            let response = link.post(wire::request(id, "initialize", &params)).await?;
            let session = response.header("mcp-session-id").map(str::to_owned);
            link.result(response, id).await?;
            Ok(session)
        };
        link.id = within(HANDSHAKE_LIMIT, shake).await?;
        let note = wire::notification("notifications/initialized", &Value::Null);
        within(HANDSHAKE_LIMIT, async { link.post(note).await.map(drop) }).await?;
        let link = Arc::new(link);
        let mut listener = JoinSet::new();
        if listening == Listening::Open {
            let response = link.listen().await?;
            listener.spawn(Arc::clone(&link).hear(response));
        }
        Ok(Self { link, _listener: listener })
    }

    /// Asks anything.
    pub async fn request(
        &self,
        method: &str,
        params: &Value,
        limit: Duration,
    ) -> Result<Value, Failure> {
        let link = &self.link;
        let id = link.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let ask = async {
            let response = link.post(wire::request(id, method, params)).await?;
            link.result(response, id).await
        };
        within(limit, ask).await
    }

    /// Calls a tool: a meta-tool by its name, any other through `call_tool`, unwrapped.
    pub async fn call(
        &self,
        tool: &str,
        args: Option<&Map<String, Value>>,
        limit: Duration,
    ) -> Result<Answer, Failure> {
        if meta_tools::is_meta_tool(tool) {
            return self.call_natively(tool, args, limit).await;
        }
        let params = json!({"name": "call_tool", "arguments": {"name": tool, "arguments": args}});
        let result = self.request("tools/call", &params, limit).await?;
        unwrap_envelope(&result)
    }

    /// Calls a tool by its own name, whatever it is.
    pub async fn call_natively(
        &self,
        tool: &str,
        args: Option<&Map<String, Value>>,
        limit: Duration,
    ) -> Result<Answer, Failure> {
        let args = args.cloned().unwrap_or_default();
        let params = json!({"name": tool, "arguments": args});
        let result = self.request("tools/call", &params, limit).await?;
        Answer::read(&result)
    }

    /// The names of all tools that this session sees: those that `list_tools` tells, and those that
    /// are listed natively.
    pub async fn tool_names(&self, limit: Duration) -> Result<Vec<String>, Failure> {
        let mut names = self.listed_names(limit).await.unwrap_or_default();
        for name in self.native_names(limit).await? {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// The names that `tools/list` tells, page by page if it has pages.
    pub async fn native_names(&self, limit: Duration) -> Result<Vec<String>, Failure> {
        let mut names = Vec::new();
        let mut params = json!({});
        loop {
            let list = self.request("tools/list", &params, limit).await?;
            let page = names_in(&list);
            let next = list.get("nextCursor").filter(|next| next.is_string() && !page.is_empty());
            names.extend(page);
            match next {
                Some(next) => params = json!({"cursor": next}),
                None => return Ok(names),
            }
        }
    }

    /// The names that `list_tools` tells, page by page if it has pages.
    pub async fn listed_names(&self, limit: Duration) -> Result<Vec<String>, Failure> {
        let mut names = Vec::new();
        let mut args = Map::new();
        loop {
            let answer = self.call("list_tools", Some(&args), limit).await?;
            let list = answer.first_object().unwrap_or_default();
            let page = names_in(&list);
            // A page that has nothing is the last one, whatever it says.
            let next = list.get("next_offset").filter(|next| next.is_u64() && !page.is_empty());
            names.extend(page);
            match next {
                Some(next) => args.insert("offset".to_owned(), next.clone()),
                None => return Ok(names),
            };
        }
    }

    /// The text of a resource.
    pub async fn read_resource(&self, uri: &str, limit: Duration) -> Result<String, Failure> {
        let result = self.request("resources/read", &json!({"uri": uri}), limit).await?;
        let contents = result.get("contents").and_then(Value::as_array);
        let text = contents.and_then(|contents| contents.first()?.get("text")?.as_str());
        text.map(str::to_owned)
            .ok_or_else(|| Failure::Wrong(format!("resource {uri} has no text: {result}")))
    }

    /// How many notifications have arrived so far.
    pub fn heard(&self) -> usize {
        self.link.heard.borrow().len()
    }

    /// The notifications that have arrived, and those to come.
    pub fn notifications(&self) -> watch::Receiver<Vec<Heard>> {
        self.link.heard.subscribe()
    }

    /// As whom it is connected.
    pub fn target(&self) -> &Target {
        &self.link.target
    }

    /// Ends the session, if the server still listens.
    pub async fn close(self) {
        if self.link.id.is_some() {
            let request = self.link.head(Method::DELETE);
            let bye = web::send(self.link.target.port, request, String::new());
            let _gone = timeout(FAREWELL_LIMIT, bye).await;
        }
    }
}

async fn within<T>(
    limit: Duration,
    ask: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    timeout(limit, ask).await.unwrap_or(Err(Failure::TimedOut(limit)))
}

fn names_in(list: &Value) -> Vec<String> {
    let tools = list.get("tools").and_then(Value::as_array).into_iter().flatten();
    tools.filter_map(|tool| tool.get("name")?.as_str().map(str::to_owned)).collect()
}

impl Link {
    fn head(&self, method: Method) -> http::request::Builder {
        let mut head = Request::builder().method(method).uri("/mcp");
        head = head.header("x-muster-session-id", &self.target.session);
        if let Some(bearer) = &self.target.bearer {
            head = head.header("authorization", format!("Bearer {bearer}"));
        }
        if let Some(id) = &self.id {
            head = head.header("mcp-session-id", id).header("mcp-protocol-version", VERSION);
        }
        head
    }

    async fn post(&self, message: String) -> Result<Response, Failure> {
        let request = self
            .head(Method::POST)
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream");
        accepted(web::send(self.target.port, request, message).await?).await
    }

    async fn listen(&self) -> Result<Response, Failure> {
        let request = self.head(Method::GET).header("accept", "text/event-stream");
        accepted(web::send(self.target.port, request, String::new()).await?).await
    }

    /// The result of a request out of its response, which may be one message or a stream of them.
    async fn result(&self, response: Response, id: u64) -> Result<Value, Failure> {
        if !response.streams() {
            let text = response.text().await?;
            return match wire::parse(&text) {
                Some(Message::Answer { id: theirs, outcome }) if theirs == id => unwrapped(outcome),
                Some(Message::Answer { id: theirs, .. }) => {
                    Err(Failure::Wrong(format!("the answer is to request {theirs}, not to {id}")))
                }
                Some(_) | None => {
                    Err(Failure::Wrong(format!("the answer is no message: {}", excerpt(&text))))
                }
            };
        }
        let mut events = Events::new(response);
        while let Some(event) = events.next().await? {
            match wire::parse(&event.data) {
                Some(Message::Answer { id: theirs, outcome }) if theirs == id => {
                    return unwrapped(outcome);
                }
                Some(message) => self.take(message).await,
                None => {
                    let text = excerpt(&event.data);
                    return Err(Failure::Wrong(format!("an event is no message: {text}")));
                }
            }
        }
        Err(Failure::Broken("the stream ended before the answer".to_owned()))
    }

    async fn hear(self: Arc<Self>, response: Response) {
        let mut events = Events::new(response);
        while let Ok(Some(event)) = events.next().await {
            if let Some(message) = wire::parse(&event.data) {
                self.take(message).await;
            }
        }
    }

    /// Keeps notifications. Questions are refused, so that nobody waits for the tester.
    async fn take(&self, message: Message) {
        match message {
            Message::Notification { method, params } => {
                self.heard.send_modify(|heard| heard.push(Heard { method, params }));
            }
            Message::Request { id, method, .. } => {
                let outcome = match method.as_str() {
                    "ping" => Ok(json!({})),
                    _ => Err(RpcError::new(METHOD_NOT_FOUND, "the tester answers no questions")),
                };
                let _unheard = self.post(wire::answer(&id, &outcome)).await;
            }
            Message::Answer { .. } => {}
        }
    }
}

async fn accepted(response: Response) -> Result<Response, Failure> {
    if response.status.is_success() {
        return Ok(response);
    }
    let status = response.status.as_u16();
    let challenge = response.header("www-authenticate");
    let challenge = challenge.map(|text| format!(" ({text})")).unwrap_or_default();
    let body = response.text().await.unwrap_or_default();
    Err(Failure::Status { status, body: excerpt(&body), challenge })
}

fn unwrapped(outcome: Result<Value, RpcError>) -> Result<Value, Failure> {
    outcome.map_err(|RpcError { code, message }| Failure::Rpc { code, message })
}

fn excerpt(text: &str) -> String {
    const LENGTH: usize = 300;
    let short: String = text.chars().take(LENGTH).collect();
    if short.len() < text.len() { format!("{short}…") } else { short }
}
