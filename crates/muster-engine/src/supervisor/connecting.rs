//! Connects the server of a unit: directly, or through the replica that runs it.

use std::{sync::Arc, time::Duration};

use muster_config::mcpserver::McpServer;
use muster_core::connect::{
    ConnectError, ConnectRequest, Connection, ConnectionObserver, Connector, ServerListing,
};
use tokio::time::timeout;

use super::unit_events::{self, UnitEvents};
use crate::{
    leased_servers::{LeasedServers, RemoteConnection, ServerLocation},
    server_logs::ServerLogs,
};

/// A server that has just been connected and listed.
pub(super) struct Connected {
    pub(super) connection: Arc<dyn Connection>,
    pub(super) listing: ServerListing,
    pub(super) events: UnitEvents,
}

/// Connects to a server directly: starts it here, or connects to its URL.
pub(super) async fn connect(
    connect: Arc<dyn Connector>,
    server: Arc<McpServer>,
    logs: ServerLogs,
    close_timeout: Duration,
) -> Result<Connected, ConnectError> {
    let (sender, events) = unit_events::channel(&server.name, logs);
    let connection = open(&*connect, &server, sender).await?;
    listed(connection, events, server.spec.connect_timeout(), close_timeout).await
}

/// Connects to a server that one replica runs for all: starts it here, or connects through the replica that runs it.
pub(super) async fn connect_leased(
    leased: Arc<LeasedServers>,
    connect: Arc<dyn Connector>,
    server: Arc<McpServer>,
    logs: ServerLogs,
    close_timeout: Duration,
) -> Result<Connected, ConnectError> {
    let limit = server.spec.connect_timeout();
    loop {
        let (sender, events) = unit_events::channel(&server.name, logs.clone());
        let claimed = match leased.place(&server.name, &sender).await {
            ServerLocation::Here(claimed) => claimed,
            ServerLocation::Elsewhere(remote) => {
                let connection = Arc::<RemoteConnection>::clone(&remote);
                match listed(connection, events, limit, close_timeout).await {
                    Err(_) if remote.has_moved() => continue,
                    result => return result,
                }
            }
        };
        let observer = claimed.observer(Arc::clone(&sender));
        let connection = tokio::select! {
            opened = open(&*connect, &server, observer) => opened?,
            () = claimed.lost() => continue,
        };
        let connection = claimed.connected(connection, sender);
        return listed(connection, events, limit, close_timeout).await;
    }
}

async fn open(
    connect: &dyn Connector,
    server: &McpServer,
    events: Arc<dyn ConnectionObserver>,
) -> Result<Arc<dyn Connection>, ConnectError> {
    let limit = server.spec.connect_timeout();
    let endpoint = server.spec.endpoint();
    let connecting = connect.connect(ConnectRequest {
        name: &server.name,
        endpoint: &endpoint,
        access: None,
        limit,
        era: server.spec.protocol_era.forced(),
        events,
    });
    timeout(limit, connecting).await.map_err(|_| timed_out("connect", limit))?
}

/// Lists a server that was just connected.
async fn listed(
    connection: Arc<dyn Connection>,
    events: UnitEvents,
    limit: Duration,
    close_timeout: Duration,
) -> Result<Connected, ConnectError> {
    match list(&*connection, limit).await {
        Ok(listing) => Ok(Connected { connection, listing, events }),
        Err(error) => {
            drop(timeout(close_timeout, connection.close()).await);
            Err(error)
        }
    }
}

/// Lists a server within a timeout.
pub(super) async fn list(
    connection: &dyn Connection,
    limit: Duration,
) -> Result<ServerListing, ConnectError> {
    timeout(limit, connection.list()).await.map_err(|_| timed_out("list its tools", limit))?
}

fn timed_out(operation: &str, limit: Duration) -> ConnectError {
    ConnectError::Transient(format!("it took longer than {} s to {operation}", limit.as_secs()))
}
