//! A client of one server, for programs such as the command line.
//!
//! The gateway reaches upstreams through [`muster_core::connect`], where only permitted calls can be made.
//! A program that talks to a gateway has no policy of its own: the gateway decides.

use std::{sync::Arc, time::Duration};

use muster_core::{
    connect::{Connection as _, ConnectionObserver, Endpoint},
    json::{Raw, RawObject},
};
use serde_json::value::RawValue;
use tokio::time::timeout;

use crate::{
    McpConnector,
    connection::UpstreamConnection,
    error::TransportError,
    listing::{self, List},
    peer::OutgoingRequest,
};

/// The lists of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListKind {
    /// Tools.
    Tools,
    /// Resources.
    Resources,
    /// Prompts.
    Prompts,
}

/// Whether a direct client receives change notifications.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeNotifications {
    /// It makes its requests and disconnects.
    Ignore,
    /// It stays connected and is notified of changes.
    Receive,
}

/// A connection to one server.
#[derive(Debug)]
pub struct DirectClient {
    connection: UpstreamConnection,
    page_timeout: Duration,
}

/// A server's description of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UpstreamInfo {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The negotiated protocol version.
    pub protocol: String,
}

impl McpConnector {
    /// Connects to a server within `limit`, which also limits each page of a list.
    pub async fn connect_directly(
        &self,
        endpoint: &Endpoint,
        limit: Duration,
        notifications: ChangeNotifications,
        events: Arc<dyn ConnectionObserver>,
    ) -> Result<DirectClient, TransportError> {
        const NAME: &str = "muster";
        let connecting = async {
            let peer = self.open(NAME, endpoint, None, limit, &events).await?;
            Ok::<_, TransportError>(match notifications {
                ChangeNotifications::Ignore => {
                    UpstreamConnection::without_notifications(NAME, peer, limit)
                }
                ChangeNotifications::Receive => UpstreamConnection::new(NAME, peer, limit).await,
            })
        };
        match timeout(limit, Box::pin(connecting)).await {
            Ok(connection) => Ok(DirectClient { connection: connection?, page_timeout: limit }),
            Err(_) => {
                let text = format!("no answer within {} s", limit.as_secs_f64());
                Err(TransportError::Lost(text))
            }
        }
    }
}

impl DirectClient {
    /// The server's description of itself.
    pub fn info(&self) -> UpstreamInfo {
        let profile = &self.connection.peer.profile;
        let server = profile.server_info.as_deref().and_then(RawObject::parse).unwrap_or_default();
        let text = |key: &str| server.get_text(key).unwrap_or_default();
        let protocol = profile.version.clone();
        UpstreamInfo { name: text("name"), version: text("version"), protocol }
    }

    /// Calls a tool; returns the result as written.
    pub async fn call_tool(&self, tool: &str, arguments: &RawValue) -> Result<Raw, TransportError> {
        self.call("tools/call", tool, arguments).await
    }

    /// Reads a resource; returns the result as written.
    pub async fn read(&self, uri: &str) -> Result<Raw, TransportError> {
        let request = OutgoingRequest {
            method: "resources/read",
            name: Some(uri),
            ..OutgoingRequest::default()
        };
        let result = self.connection.peer.request(request, |writer| writer.text("uri", uri));
        Box::pin(result).await
    }

    /// Gets a prompt; returns the result as written.
    pub async fn prompt(&self, name: &str, arguments: &RawValue) -> Result<Raw, TransportError> {
        self.call("prompts/get", name, arguments).await
    }

    async fn call(
        &self,
        method: &'static str,
        name: &str,
        arguments: &RawValue,
    ) -> Result<Raw, TransportError> {
        let request = OutgoingRequest { method, name: Some(name), ..OutgoingRequest::default() };
        let result = self
            .connection
            .peer
            .request(request, |writer| writer.text("name", name).raw("arguments", arguments));
        Box::pin(result).await
    }

    /// Lists everything of a kind, each item as written.
    pub async fn list(&self, kind: ListKind) -> Result<Vec<Raw>, TransportError> {
        let list: List = match kind {
            ListKind::Tools => listing::TOOLS,
            ListKind::Resources => listing::RESOURCES,
            ListKind::Prompts => listing::PROMPTS,
        };
        let listed = listing::all(&self.connection.peer, list, self.page_timeout);
        Ok(Box::pin(listed).await?.items)
    }

    /// Closes the connection.
    pub async fn close(&self) {
        self.connection.close().await;
    }
}
