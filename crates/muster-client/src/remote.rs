//! A running gateway, asked by a program: the commands, the REPL, shell completion.
//!
//! **Invariant:** whoever calls a tool names the tool itself. That a gateway shows only meta-tools is
//! known in [`Remote::call`] alone, which wraps a call into `call_tool` and takes its answer out again.

pub mod error;
pub mod target;
pub mod tool_response;

use std::{fmt, sync::Arc, time::Duration};

use muster_core::{
    connect::{ConnectionEvent, ConnectionObserver, Endpoint},
    json::{Raw, RawObject, raw},
    meta_tools,
    request::ServerInfo,
};
use muster_exec::launcher::Launcher;
use muster_mcp_client::{
    McpConnector,
    talk::{About, Hearing, Talk},
};
use serde_json::value::RawValue;
use tokio::sync::mpsc;

pub use muster_mcp_client::talk::Kind;

use self::{error::RemoteError, target::Target, tool_response::ToolResponse};

/// How long a connection and each page of a list may take. A tool takes as long as it takes.
const LIMIT: Duration = Duration::from_secs(30);

/// What proves to a gateway who asks.
#[derive(Clone, Default)]
pub enum Auth {
    /// Nothing.
    #[default]
    None,
    /// A token.
    Bearer(String),
}

impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::Bearer(_) => "Bearer",
        })
    }
}

/// Something that a gateway said unasked.
#[derive(Debug, Clone)]
pub struct GatewayNotification {
    /// Such as `notifications/tools/list_changed`; `closed` when the connection is gone.
    pub method: String,
    /// Its parameters: a JSON object.
    pub params: Raw,
}

/// A connection to a running gateway.
#[derive(Debug)]
pub struct Remote {
    connector: Arc<McpConnector>,
    talk: Talk,
    url: String,
    notices: Option<mpsc::UnboundedReceiver<GatewayNotification>>,
}

impl Remote {
    /// Connects for one or a few questions.
    pub async fn connect(target: &Target, auth: &Auth) -> Result<Self, RemoteError> {
        Self::open(target, auth, Hearing::Nothing).await
    }

    /// Connects to stay: what the gateway says unasked can be heard by [`Remote::notifications`].
    pub async fn listen(target: &Target, auth: &Auth) -> Result<Self, RemoteError> {
        Self::open(target, auth, Hearing::Changes).await
    }

    async fn open(target: &Target, auth: &Auth, hearing: Hearing) -> Result<Self, RemoteError> {
        let connector = Arc::new(connector());
        let headers = match auth {
            Auth::None => Vec::new(),
            Auth::Bearer(token) => vec![("authorization".to_owned(), format!("Bearer {token}"))],
        };
        let url = target.url.clone();
        let endpoint = match target.transport {
            target::Transport::StreamableHttp => Endpoint::Http { url, headers },
            target::Transport::Sse => Endpoint::Sse { url, headers },
        };
        let (sender, notices) = mpsc::unbounded_channel();
        let ears = Arc::new(Ears(sender));
        let talk = connector.talk(&endpoint, LIMIT, hearing, ears).await;
        let talk = talk.map_err(|err| RemoteError::connecting(err, target))?;
        Ok(Self { connector, talk, url: target.url.clone(), notices: Some(notices) })
    }

    /// Who the gateway says it is.
    pub fn about(&self) -> About {
        self.talk.about()
    }

    /// Runs a tool of the gateway, whatever it is: one of the gateway's own, of a server, of a CLI, a
    /// workflow, a meta-tool. `arguments` is a JSON object.
    pub async fn call(
        &self,
        tool: &str,
        arguments: &RawValue,
    ) -> Result<ToolResponse, RemoteError> {
        let failed = |err| RemoteError::calling(err, tool, &self.url);
        if meta_tools::is_meta_tool(tool) {
            let result = self.talk.call_tool(tool, arguments).await.map_err(failed)?;
            return Ok(ToolResponse::of(&result));
        }
        let mut wrapped = RawObject::new();
        wrapped.set_value("name", tool);
        wrapped.set_value("arguments", arguments);
        // Whoever reads this is no model with a context to fill.
        wrapped.set_value("max_tokens", &u32::MAX);
        let result = self.talk.call_tool("call_tool", &wrapped.to_raw()).await.map_err(failed)?;
        ToolResponse::unwrapped(&result, tool)
    }

    /// Everything of a kind that the gateway lists by the protocol itself, each item as it came.
    pub async fn list(&self, kind: Kind) -> Result<Vec<Raw>, RemoteError> {
        self.talk.list(kind).await.map_err(|err| RemoteError::asking(err, &self.url))
    }

    /// Reads a resource: the result of `resources/read` as it came.
    pub async fn read(&self, uri: &str) -> Result<Raw, RemoteError> {
        self.talk.read(uri).await.map_err(|err| RemoteError::asking(err, &self.url))
    }

    /// Fills in a prompt: the result of `prompts/get` as it came.
    pub async fn prompt(&self, name: &str, arguments: &RawValue) -> Result<Raw, RemoteError> {
        self.talk.prompt(name, arguments).await.map_err(|err| RemoteError::asking(err, &self.url))
    }

    /// What the gateway says unasked, from the beginning. It can be taken once.
    pub fn notifications(&mut self) -> Option<mpsc::UnboundedReceiver<GatewayNotification>> {
        self.notices.take()
    }

    /// Says goodbye.
    pub async fn close(self) {
        self.talk.close().await;
        drop(self.talk);
        self.connector.shut_down().await;
    }
}

/// A connector that introduces itself as the clients of a gateway do.
pub fn connector() -> McpConnector {
    let identity = ServerInfo {
        name: "muster-agent".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        instructions: None,
    };
    McpConnector::plain(Launcher::new(), &identity)
}

/// Arguments of a call that has none.
pub fn no_arguments() -> Raw {
    raw(&RawObject::new())
}

#[derive(Debug)]
struct Ears(mpsc::UnboundedSender<GatewayNotification>);

impl ConnectionObserver for Ears {
    fn on_event(&self, event: ConnectionEvent) {
        if let ConnectionEvent::Closed { reason } = event {
            // Whoever does not listen does not mind.
            drop(
                self.0.send(GatewayNotification {
                    method: "closed".to_owned(),
                    params: raw(&reason),
                }),
            );
        }
    }

    fn on_message(&self, method: &str, params: &RawValue) {
        let notice = GatewayNotification { method: method.to_owned(), params: params.to_owned() };
        drop(self.0.send(notice));
    }
}
