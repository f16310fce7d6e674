//! The tester's own MCP client: streamable HTTP with `initialize`, and nothing more.

mod tool_response;

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use http::{Method, Request};
use muster_core::{backend::boxed, name::is_behind_meta_tools};
use serde_json::{Map, Value, json};
use thiserror::Error;
use tokio::{
    sync::{OnceCell, watch},
    task::JoinSet,
    time::timeout,
};

use crate::{
    http::{self as web, Response, events::Events},
    wire::{self, METHOD_NOT_FOUND, Message, RpcError},
};
pub use tool_response::{ToolResponse, unwrap_envelope};

/// The requested protocol version.
const VERSION: &str = "2024-11-05";
/// Scenarios see whole results, not previews.
const MAX_TOKENS: u64 = 100_000_000;
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(30);
/// The default timeout of a call.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(120);
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Why a request has no result.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ClientError {
    /// The server cannot be reached, or the connection broke.
    #[error("{0}")]
    Transport(String),
    /// The HTTP status is not a success.
    #[error("request failed with status {status}: {body}{challenge}")]
    Status {
        /// The HTTP status.
        status: u16,
        /// The response body.
        body: String,
        /// The `WWW-Authenticate` challenge, if any.
        challenge: String,
    },
    /// The response is a JSON-RPC error.
    #[error("{message}")]
    Rpc {
        /// Its code.
        code: i64,
        /// Its message.
        message: String,
    },
    /// The response violates the protocol.
    #[error("{0}")]
    Protocol(String),
    /// The meta-tool itself failed.
    #[error("meta-tool error: [{0}]")]
    MetaTool(String),
    /// The call timed out.
    #[error("timed out after {}", crate::duration::short(*.0))]
    TimedOut(Duration),
}

impl From<web::HttpError> for ClientError {
    fn from(error: web::HttpError) -> Self {
        Self::Transport(error.to_string())
    }
}

/// The address and identity of a session.
#[derive(Debug, Clone)]
pub struct ClientTarget {
    /// The port on localhost.
    pub port: u16,
    /// The session id chosen by the client.
    pub session: String,
    /// The bearer token, if required.
    pub bearer: Option<String>,
    /// Whether a notification stream is opened.
    pub listening: NotificationStream,
}

/// Whether a notification stream is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotificationStream {
    /// Opened after the handshake.
    Open,
    /// Not opened.
    Closed,
}

/// A received notification.
#[derive(Debug, Clone, PartialEq)]
pub struct ReceivedNotification {
    /// Its method.
    pub method: String,
    /// Its parameters.
    pub params: Value,
}

/// One MCP session.
pub struct Client {
    session: Arc<Session>,
    /// Dropped with the session, which ends the task.
    _listener: JoinSet<()>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("session", &self.session.target.session)
            .finish_non_exhaustive()
    }
}

struct Session {
    target: ClientTarget,
    /// The session id assigned by the server.
    id: Option<String>,
    last_id: AtomicU64,
    notifications: watch::Sender<Vec<ReceivedNotification>>,
    /// The names of the tools that the gateway lists itself, once they are needed.
    listed: OnceCell<Vec<String>>,
}

impl Client {
    /// Connects and performs the handshake.
    pub async fn connect(target: ClientTarget) -> Result<Self, ClientError> {
        let listening = target.listening;
        let notifications = watch::Sender::new(Vec::new());
        let (last_id, listed) = (AtomicU64::new(0), OnceCell::new());
        let mut session = Session { target, id: None, last_id, notifications, listed };
        let params = json!({
            "protocolVersion": VERSION,
            "capabilities": {},
            "clientInfo": {"name": "muster-test-client", "version": "1.0.0"},
        });
        let handshake = async {
            let id = session.last_id.fetch_add(1, Ordering::Relaxed) + 1;
            let response = session.post(wire::request(id, "initialize", &params)).await?;
            let session_id = response.header("mcp-session-id").map(str::to_owned);
            session.result(response, id).await?;
            Ok(session_id)
        };
        session.id = with_timeout(HANDSHAKE_TIMEOUT, handshake).await?;
        let note = wire::notification("notifications/initialized", &Value::Null);
        with_timeout(HANDSHAKE_TIMEOUT, async { session.post(note).await.map(drop) }).await?;
        let session = Arc::new(session);
        let mut listener = JoinSet::new();
        if listening == NotificationStream::Open {
            let response = session.listen().await?;
            listener.spawn(boxed(Arc::clone(&session).read_stream(response)));
        }
        Ok(Self { session, _listener: listener })
    }

    /// Sends a request and waits for its result.
    pub async fn request(
        &self,
        method: &str,
        params: &Value,
        limit: Duration,
    ) -> Result<Value, ClientError> {
        let session = &self.session;
        let id = session.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let ask = async {
            let response = session.post(wire::request(id, method, params)).await?;
            session.result(response, id).await
        };
        with_timeout(limit, ask).await
    }

    /// Calls a tool: a meta-tool directly, any other through `call_tool`, with its result unwrapped.
    pub async fn call(
        &self,
        tool: &str,
        args: Option<&Map<String, Value>>,
        limit: Duration,
    ) -> Result<ToolResponse, ClientError> {
        if self.is_meta_tool(tool, limit).await? {
            return self.call_direct(tool, args, limit).await;
        }
        let call = json!({"name": tool, "arguments": args, "max_tokens": MAX_TOKENS});
        let params = json!({"name": "call_tool", "arguments": call});
        let result = self.request("tools/call", &params, limit).await?;
        unwrap_envelope(&result)
    }

    /// Whether the gateway lists a tool itself.
    async fn is_meta_tool(&self, tool: &str, limit: Duration) -> Result<bool, ClientError> {
        if is_behind_meta_tools(tool) {
            return Ok(false);
        }
        let listed = self.session.listed.get_or_try_init(|| self.direct_names(limit)).await?;
        Ok(listed.iter().any(|listed| listed == tool))
    }

    /// Calls a tool with `tools/call`, whatever it is.
    pub async fn call_direct(
        &self,
        tool: &str,
        args: Option<&Map<String, Value>>,
        limit: Duration,
    ) -> Result<ToolResponse, ClientError> {
        let args = args.cloned().unwrap_or_default();
        let params = json!({"name": tool, "arguments": args});
        let result = self.request("tools/call", &params, limit).await?;
        ToolResponse::read(&result)
    }

    /// All tool names visible in this session, from `list_tools` and `tools/list`.
    pub async fn tool_names(&self, limit: Duration) -> Result<Vec<String>, ClientError> {
        let mut names = self.listed_names(limit).await.unwrap_or_default();
        for name in self.direct_names(limit).await? {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// The tool names in `tools/list`, from all pages.
    pub async fn direct_names(&self, limit: Duration) -> Result<Vec<String>, ClientError> {
        let tools = self.direct_tools(limit).await?;
        let name = |tool: &Value| Some(tool.get("name")?.as_str()?.to_owned());
        Ok(tools.iter().filter_map(name).collect())
    }

    /// The tools in `tools/list`, from all pages.
    pub async fn direct_tools(&self, limit: Duration) -> Result<Vec<Value>, ClientError> {
        let mut tools = Vec::new();
        let mut params = json!({});
        loop {
            let list = self.request("tools/list", &params, limit).await?;
            let page = list.get("tools").and_then(Value::as_array).cloned().unwrap_or_default();
            let next = list.get("nextCursor").filter(|next| next.is_string() && !page.is_empty());
            params = json!({"cursor": next});
            let is_last = next.is_none();
            tools.extend(page);
            if is_last {
                return Ok(tools);
            }
        }
    }

    /// The tool names in `list_tools`, from all pages.
    pub async fn listed_names(&self, limit: Duration) -> Result<Vec<String>, ClientError> {
        let mut names = Vec::new();
        let mut args = Map::new();
        loop {
            let answer = self.call("list_tools", Some(&args), limit).await?;
            let list = answer.first_object().unwrap_or_default();
            let page = names_in(&list);
            // An empty page is the last one, whatever its cursor.
            let next = list.get("next_offset").filter(|next| next.is_u64() && !page.is_empty());
            names.extend(page);
            match next {
                Some(next) => args.insert("offset".to_owned(), next.clone()),
                None => return Ok(names),
            };
        }
    }

    /// The text of a resource.
    pub async fn read_resource(&self, uri: &str, limit: Duration) -> Result<String, ClientError> {
        let result = self.request("resources/read", &json!({"uri": uri}), limit).await?;
        let contents = result.get("contents").and_then(Value::as_array);
        let text = contents.and_then(|contents| contents.first()?.get("text")?.as_str());
        text.map(str::to_owned)
            .ok_or_else(|| ClientError::Protocol(format!("resource {uri} has no text: {result}")))
    }

    /// How many notifications have been received.
    pub fn notification_count(&self) -> usize {
        self.session.notifications.borrow().len()
    }

    /// The notifications received so far, and those to come.
    pub fn notifications(&self) -> watch::Receiver<Vec<ReceivedNotification>> {
        self.session.notifications.subscribe()
    }

    /// The address and identity of this session.
    pub fn target(&self) -> &ClientTarget {
        &self.session.target
    }

    /// Closes the session, if the server still responds.
    pub async fn close(self) {
        if self.session.id.is_some() {
            let request = self.session.head(Method::DELETE);
            let request = web::send(self.session.target.port, request, String::new());
            let _closed = timeout(CLOSE_TIMEOUT, request).await;
        }
    }
}

async fn with_timeout<T>(
    limit: Duration,
    ask: impl Future<Output = Result<T, ClientError>>,
) -> Result<T, ClientError> {
    timeout(limit, ask).await.unwrap_or(Err(ClientError::TimedOut(limit)))
}

fn names_in(list: &Value) -> Vec<String> {
    let tools = list.get("tools").and_then(Value::as_array).into_iter().flatten();
    tools.filter_map(|tool| tool.get("name")?.as_str().map(str::to_owned)).collect()
}

impl Session {
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

    async fn post(&self, message: String) -> Result<Response, ClientError> {
        let request = self
            .head(Method::POST)
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream");
        require_success(web::send(self.target.port, request, message).await?).await
    }

    async fn listen(&self) -> Result<Response, ClientError> {
        let request = self.head(Method::GET).header("accept", "text/event-stream");
        require_success(web::send(self.target.port, request, String::new()).await?).await
    }

    /// Reads the result of a request from its response: one message, or a stream of them.
    async fn result(&self, response: Response, id: u64) -> Result<Value, ClientError> {
        if !response.is_event_stream() {
            let text = response.text().await?;
            return match wire::parse(&text) {
                Some(Message::Answer { id: theirs, outcome }) if theirs == id => {
                    into_result(outcome)
                }
                Some(Message::Answer { id: theirs, .. }) => Err(ClientError::Protocol(format!(
                    "the response is to request {theirs}, expected {id}"
                ))),
                Some(_) | None => Err(ClientError::Protocol(format!(
                    "the response is not a JSON-RPC message: {}",
                    excerpt(&text)
                ))),
            };
        }
        let mut events = Events::new(response);
        while let Some(event) = events.next().await? {
            match wire::parse(&event.data) {
                Some(Message::Answer { id: theirs, outcome }) if theirs == id => {
                    return into_result(outcome);
                }
                Some(message) => self.handle_message(message).await,
                None => {
                    let text = excerpt(&event.data);
                    return Err(ClientError::Protocol(format!(
                        "an event is not a JSON-RPC message: {text}"
                    )));
                }
            }
        }
        Err(ClientError::Transport("the stream ended before the response".to_owned()))
    }

    async fn read_stream(self: Arc<Self>, response: Response) {
        let mut events = Events::new(response);
        while let Ok(Some(event)) = events.next().await {
            if let Some(message) = wire::parse(&event.data) {
                self.handle_message(message).await;
            }
        }
    }

    /// Records notifications. Requests of the server are refused, so that it does not wait for the tester.
    async fn handle_message(&self, message: Message) {
        match message {
            Message::Notification { method, params } => {
                self.notifications.send_modify(|notifications| {
                    notifications.push(ReceivedNotification { method, params });
                });
            }
            Message::Request { id, method, .. } => {
                let outcome = match method.as_str() {
                    "ping" => Ok(json!({})),
                    _ => {
                        Err(RpcError::new(METHOD_NOT_FOUND, "the tester does not answer requests"))
                    }
                };
                let _unheard = self.post(wire::answer(&id, &outcome)).await;
            }
            Message::Answer { .. } => {}
        }
    }
}

async fn require_success(response: Response) -> Result<Response, ClientError> {
    if response.status.is_success() {
        return Ok(response);
    }
    let status = response.status.as_u16();
    let challenge = response.header("www-authenticate");
    let challenge = challenge.map(|text| format!(" ({text})")).unwrap_or_default();
    let body = response.text().await.unwrap_or_default();
    Err(ClientError::Status { status, body: excerpt(&body), challenge })
}

fn into_result(outcome: Result<Value, RpcError>) -> Result<Value, ClientError> {
    outcome.map_err(|RpcError { code, message }| ClientError::Rpc { code, message })
}

fn excerpt(text: &str) -> String {
    const LENGTH: usize = 300;
    let short: String = text.chars().take(LENGTH).collect();
    if short.len() < text.len() { format!("{short}…") } else { short }
}
