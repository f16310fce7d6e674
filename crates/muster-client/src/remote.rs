//! The client of a running gateway, used by the commands, the REPL and shell completion.
//!
//! **Invariant:** callers name the tool itself. Only [`Remote::call`] knows that a gateway lists
//! meta-tools: it wraps the call in `call_tool` and unwraps the response.

pub mod error;
pub mod target;
pub mod tool_response;

use std::{fmt, sync::Arc, time::Duration};

use muster_auth::access::operator_file::OPERATOR_HEADER;
use muster_core::{
    connect::{ConnectionEvent, ConnectionObserver, Endpoint},
    json::{Raw, RawObject, raw},
    name::is_behind_meta_tools,
    request::ServerInfo,
};
use muster_exec::launcher::Launcher;
use muster_mcp_client::{
    McpConnector,
    direct_client::{ChangeNotifications, DirectClient, UpstreamInfo},
};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::sync::{OnceCell, mpsc};

pub use muster_mcp_client::direct_client::ListKind;

use self::{error::RemoteError, target::Target, tool_response::ToolResponse};

/// The timeout of connecting and of each page of a list. Tool calls have no timeout.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The meta-tool that runs all other tools.
const CALL_TOOL: &str = "call_tool";

/// The credentials sent to a gateway.
#[derive(Clone, Default)]
pub enum Credentials {
    /// Nothing.
    #[default]
    None,
    /// A bearer token.
    Bearer(String),
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::Bearer(_) => "Bearer",
        })
    }
}

/// An event of a connection to a gateway.
#[derive(Debug, Clone)]
pub enum GatewayEvent {
    /// The gateway sent a notification.
    Notification(GatewayNotification),
    /// The connection was lost.
    Closed,
}

/// A notification from a gateway.
#[derive(Debug, Clone)]
pub struct GatewayNotification {
    /// The method, such as `notifications/tools/list_changed`.
    pub method: String,
    /// Its parameters: a JSON object.
    pub params: Raw,
}

/// A connection to a running gateway.
#[derive(Debug)]
pub struct Remote {
    connector: Arc<McpConnector>,
    client: DirectClient,
    url: String,
    /// The names of the tools that the gateway lists directly, loaded on first use.
    listed: OnceCell<Vec<String>>,
    events: Option<mpsc::UnboundedReceiver<GatewayEvent>>,
}

impl Remote {
    /// Connects for a few calls; notifications are ignored.
    pub async fn connect(target: &Target, auth: &Credentials) -> Result<Self, RemoteError> {
        Self::open(target, auth, ChangeNotifications::Ignore).await
    }

    /// Connects and receives notifications, see [`Remote::events`].
    pub async fn listen(target: &Target, auth: &Credentials) -> Result<Self, RemoteError> {
        Self::open(target, auth, ChangeNotifications::Receive).await
    }

    async fn open(
        target: &Target,
        auth: &Credentials,
        notifications: ChangeNotifications,
    ) -> Result<Self, RemoteError> {
        let connector = Arc::new(connector());
        let mut headers = match auth {
            Credentials::None => Vec::new(),
            Credentials::Bearer(token) => {
                vec![("authorization".to_owned(), format!("Bearer {token}"))]
            }
        };
        if let Some(operator) = &target.operator {
            headers.push((OPERATOR_HEADER.to_owned(), operator.token.reveal().to_owned()));
        }
        let url = target.connect_url();
        let endpoint = match target.transport {
            target::GatewayTransport::StreamableHttp => Endpoint::Http { url, headers },
            target::GatewayTransport::Sse => Endpoint::Sse { url, headers },
        };
        let (sender, events) = mpsc::unbounded_channel();
        let observer = Arc::new(EventSender(sender));
        let client = connector.connect_directly(&endpoint, TIMEOUT, notifications, observer).await;
        let client = client.map_err(|err| RemoteError::connecting(err, target))?;
        let (url, listed) = (target.url.clone(), OnceCell::new());
        Ok(Self { connector, client, url, listed, events: Some(events) })
    }

    /// The name and version of the gateway.
    pub fn about(&self) -> UpstreamInfo {
        self.client.info()
    }

    /// Calls a tool of any kind: a core tool, a tool of a server or CLI, a workflow, a meta-tool.
    /// `arguments` is a JSON object.
    pub async fn call(
        &self,
        tool: &str,
        arguments: &RawValue,
    ) -> Result<ToolResponse, RemoteError> {
        let failed = |err| RemoteError::calling(err, tool, &self.url);
        if self.is_meta_tool(tool).await? {
            let result = self.client.call_tool(tool, arguments).await.map_err(failed)?;
            return Ok(ToolResponse::parse(&result));
        }
        let mut wrapped = RawObject::new();
        wrapped.set_value("name", tool);
        wrapped.set_value("arguments", arguments);
        // No model reads the response, so its size needs no limit.
        wrapped.set_value("max_tokens", &u32::MAX);
        let result = self.client.call_tool(CALL_TOOL, &wrapped.to_raw()).await.map_err(failed)?;
        ToolResponse::unwrapped(&result, tool)
    }

    /// Whether a tool is called directly. All other tools are called through `call_tool`.
    pub async fn is_meta_tool(&self, tool: &str) -> Result<bool, RemoteError> {
        if is_behind_meta_tools(tool) {
            return Ok(false);
        }
        let listed = self.listed.get_or_try_init(|| async {
            let tools = self.list(ListKind::Tools).await?;
            let name = |tool: &Raw| RawObject::parse(tool)?.get_text("name");
            Ok(tools.iter().filter_map(name).collect())
        });
        let listed = listed.await?;
        let lists = |name: &str| listed.iter().any(|listed| listed == name);
        // Without `call_tool` in its list, the gateway lists its tools directly: call every tool directly.
        Ok(lists(tool) || !lists(CALL_TOOL))
    }

    /// Calls a core tool and parses its reply as its `muster-api` type.
    pub async fn reply<T: DeserializeOwned>(
        &self,
        tool: &str,
        arguments: &RawValue,
    ) -> Result<T, RemoteError> {
        self.call(tool, arguments).await?.reply(tool)
    }

    /// Lists all items of a kind with the MCP list methods, each item unchanged.
    pub async fn list(&self, kind: ListKind) -> Result<Vec<Raw>, RemoteError> {
        self.client.list(kind).await.map_err(|err| RemoteError::request(err, &self.url))
    }

    /// Reads a resource. Returns the result of `resources/read` unchanged.
    pub async fn read(&self, uri: &str) -> Result<Raw, RemoteError> {
        self.client.read(uri).await.map_err(|err| RemoteError::request(err, &self.url))
    }

    /// Gets a prompt. Returns the result of `prompts/get` unchanged.
    pub async fn prompt(&self, name: &str, arguments: &RawValue) -> Result<Raw, RemoteError> {
        self.client
            .prompt(name, arguments)
            .await
            .map_err(|err| RemoteError::request(err, &self.url))
    }

    /// Takes the events since the connection was made. Returns them only once.
    pub fn events(&mut self) -> Option<mpsc::UnboundedReceiver<GatewayEvent>> {
        self.events.take()
    }

    /// Closes the connection.
    pub async fn close(self) {
        self.client.close().await;
        drop(self.client);
        self.connector.shut_down().await;
    }
}

/// A connector that identifies itself as `muster-agent`.
pub fn connector() -> McpConnector {
    let identity = ServerInfo {
        name: "muster-agent".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        instructions: None,
    };
    McpConnector::without_capabilities(Launcher::new(), &identity)
}

/// The arguments of a call without arguments.
pub fn no_arguments() -> Raw {
    raw(&RawObject::new())
}

#[derive(Debug)]
struct EventSender(mpsc::UnboundedSender<GatewayEvent>);

impl ConnectionObserver for EventSender {
    fn on_event(&self, event: ConnectionEvent) {
        if matches!(event, ConnectionEvent::Closed { .. }) {
            // Ignore an error: the receiver may have been dropped.
            drop(self.0.send(GatewayEvent::Closed));
        }
    }

    fn on_message(&self, method: &str, params: &RawValue) {
        let notice = GatewayNotification { method: method.to_owned(), params: params.to_owned() };
        drop(self.0.send(GatewayEvent::Notification(notice)));
    }
}
