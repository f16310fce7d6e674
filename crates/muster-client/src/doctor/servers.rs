//! Checks of each server: the way to it, its certificate, its first words.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use muster_config::mcpserver::McpServer;
use muster_core::connect::{
    ConnectError, ConnectionEvent, ConnectionObserver, Connector, ServerListing,
};
use tokio::task::JoinSet;

use super::{Finding, Hop};

/// How long a server may take at most.
const LONGEST: Duration = Duration::from_secs(30);

#[derive(Debug)]
struct Deaf;

impl ConnectionObserver for Deaf {
    fn on_event(&self, _: ConnectionEvent) {}
}

/// What servers said when they were asked.
#[derive(Debug, Default)]
pub(super) struct Asked {
    pub(super) findings: Vec<Finding>,
    /// What each has that answered.
    pub(super) listings: BTreeMap<String, ServerListing>,
}

/// Connects to every server, one beside the other, lists what it has, and lets it go.
pub(super) async fn check(connect: Arc<dyn Connector>, servers: Vec<Arc<McpServer>>) -> Asked {
    let mut checks = JoinSet::new();
    for server in servers {
        let connect = Arc::clone(&connect);
        checks.spawn(async move {
            let listed = one(&*connect, &server).await;
            (server.name.clone(), listed)
        });
    }
    let mut asked = Asked::default();
    while let Some(done) = checks.join_next().await {
        let Ok((name, listed)) = done else { continue };
        asked.findings.push(match listed {
            Ok(listing) => {
                let said = format!("{} tools, protocol {}", listing.tools.len(), listing.protocol);
                let finding = Finding::good(Hop::Handshake, &name, said);
                asked.listings.insert(name, listing);
                finding
            }
            Err(finding) => finding,
        });
    }
    asked.findings.sort_by(|one, other| one.what.cmp(&other.what));
    asked
}

async fn one(connect: &dyn Connector, server: &McpServer) -> Result<ServerListing, Finding> {
    let name = &server.name;
    let endpoint = server.spec.endpoint();
    let limit = server.spec.limit().min(LONGEST);
    let connected = connect.connect(name, &endpoint, limit, Arc::new(Deaf)).await;
    let connection = match connected {
        Ok(connection) => connection,
        Err(error) => return Err(broken(name, &error, "connecting")),
    };
    let listed = connection.list().await;
    connection.close().await;
    listed.map_err(|error| broken(name, &error, "listing its tools"))
}

fn broken(name: &str, error: &ConnectError, doing: &str) -> Finding {
    let said = error.to_string();
    match error {
        ConnectError::Unauthorized { .. } => Finding::bad(Hop::Login, name, "it wants a login")
            .fix(format!("log in with `muster auth login --server {name}`")),
        _ if said.contains("TLS") => Finding::bad(Hop::Certificates, name, said)
            .fix("the machine has to trust who signed its certificate"),
        _ if said.contains("cannot be reached") || said.contains("timed out") => {
            Finding::bad(Hop::Handshake, name, format!("{doing}: {said}"))
                .fix("see whether its address is right and the server runs")
        }
        _ => Finding::bad(Hop::Handshake, name, format!("{doing}: {said}"))
            .fix("run its command by hand and see what it says"),
    }
}
