//! Checks of the configured servers: connection, certificate, handshake.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use muster_config::mcpserver::McpServer;
use muster_core::connect::{
    ConnectError, ConnectRequest, ConnectionEvent, ConnectionObserver, Connector, ServerListing,
};
use tokio::task::JoinSet;

use super::{Finding, Hop};

/// The longest timeout of one server.
const MAX_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Debug)]
struct IgnoreEvents;

impl ConnectionObserver for IgnoreEvents {
    fn on_event(&self, _: ConnectionEvent) {}
}

/// The results for all servers.
#[derive(Debug, Default)]
pub(super) struct ServerChecks {
    pub(super) findings: Vec<Finding>,
    /// The listings of the servers that responded.
    pub(super) listings: BTreeMap<String, ServerListing>,
}

/// Connects to all servers concurrently, lists their tools and disconnects.
pub(super) async fn check(
    connect: Arc<dyn Connector>,
    servers: Vec<Arc<McpServer>>,
) -> ServerChecks {
    let mut checks = JoinSet::new();
    for server in servers {
        let connect = Arc::clone(&connect);
        checks.spawn(async move {
            let listed = list(&*connect, &server).await;
            (server.name.clone(), listed)
        });
    }
    let mut results = ServerChecks::default();
    while let Some(done) = checks.join_next().await {
        let Ok((name, listed)) = done else { continue };
        results.findings.push(match listed {
            Ok(listing) => {
                let message =
                    format!("{} tools, protocol {}", listing.tools.len(), listing.protocol);
                let finding = Finding::good(Hop::Handshake, &name, message);
                results.listings.insert(name, listing);
                finding
            }
            Err(finding) => finding,
        });
    }
    results.findings.sort_by(|one, other| one.subject.cmp(&other.subject));
    results
}

async fn list(connect: &dyn Connector, server: &McpServer) -> Result<ServerListing, Finding> {
    let name = &server.name;
    let endpoint = server.spec.endpoint();
    let limit = server.spec.limit().min(MAX_TIMEOUT);
    let events = Arc::new(IgnoreEvents);
    let request = ConnectRequest { name, endpoint: &endpoint, access: None, limit, events };
    let connection = match connect.connect(request).await {
        Ok(connection) => connection,
        Err(error) => return Err(failure(name, &error, "connecting")),
    };
    let listed = connection.list().await;
    connection.close().await;
    listed.map_err(|error| failure(name, &error, "listing its tools"))
}

fn failure(name: &str, error: &ConnectError, doing: &str) -> Finding {
    let message = error.to_string();
    match error {
        ConnectError::Unauthorized { .. } => Finding::bad(Hop::Login, name, "it requires a login")
            .fix(format!("log in with `muster auth login --server {name}`")),
        _ if message.contains("TLS") => Finding::bad(Hop::Certificates, name, message)
            .fix("add the CA that signed its certificate to those this machine trusts"),
        _ if message.contains("cannot be reached") || message.contains("timed out") => {
            Finding::bad(Hop::Handshake, name, format!("{doing}: {message}"))
                .fix("check its address and that the server is running")
        }
        _ => Finding::bad(Hop::Handshake, name, format!("{doing}: {message}"))
            .fix("run its command in a terminal and look at its output"),
    }
}
