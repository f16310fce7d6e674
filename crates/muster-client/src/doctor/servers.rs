//! Checks of the configured servers: connection, certificate, handshake.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use muster_core::{
    backend::boxed,
    connect::{
        ConnectError, ConnectRequest, ConnectionEvent, ConnectionObserver, Connector, OutputStream,
        ServerListing,
    },
    lock::Lock,
};
use muster_engine::store::ServerFile;
use tokio::{task::JoinSet, time::timeout};

use super::{Finding, Hop, local_servers, remote_servers};

/// The maximum number of output lines that are kept of a server.
const MAX_LINES: usize = 50;

/// Keeps the first lines that a server writes outside the protocol.
#[derive(Debug, Default)]
pub(super) struct OutputCollector(Lock<Vec<(OutputStream, String)>>);

impl ConnectionObserver for OutputCollector {
    fn on_event(&self, _: ConnectionEvent) {}

    fn on_output(&self, stream: OutputStream, line: &str) {
        let mut lines = self.0.lock();
        if lines.len() < MAX_LINES {
            lines.push((stream, line.to_owned()));
        }
    }
}

/// Why the tools of a server could not be listed.
#[derive(Debug)]
pub(super) enum Failure {
    /// It did not respond in time.
    Timeout(Duration),
    /// It failed.
    Error {
        /// The error.
        error: ConnectError,
        /// The step that failed, such as `connecting`.
        doing: &'static str,
    },
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
    servers: Vec<ServerFile>,
    limit: Duration,
) -> ServerChecks {
    let mut checks = JoinSet::new();
    for file in servers {
        let connect = Arc::clone(&connect);
        checks.spawn(boxed(async move { one(&*connect, file, limit).await }));
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

async fn one(
    connect: &dyn Connector,
    file: ServerFile,
    limit: Duration,
) -> (String, Result<ServerListing, Finding>) {
    let server = &file.server;
    let limit = server.spec.connect_timeout().min(limit);
    let output = Arc::new(OutputCollector::default());
    let events: Arc<dyn ConnectionObserver> = output.clone();
    let listed = timeout(limit, list(connect, &file, limit, events)).await;
    let failure = match listed {
        Ok(Ok(listing)) => return (server.name.clone(), Ok(listing)),
        Ok(Err(failure)) => failure,
        Err(_) => Failure::Timeout(limit),
    };
    let finding = match server.spec.kind.is_local() {
        true => {
            let written = std::mem::take(&mut *output.0.lock());
            local_servers::explain(server, &failure, &written)
        }
        false => remote_servers::explain(connect, &file, &failure).await,
    };
    (server.name.clone(), Err(finding))
}

async fn list(
    connect: &dyn Connector,
    file: &ServerFile,
    limit: Duration,
    events: Arc<dyn ConnectionObserver>,
) -> Result<ServerListing, Failure> {
    let (name, endpoint) = (&file.server.name, file.server.spec.endpoint());
    // Make the connector's timeout longer than ours, so that a timeout is always reported as `Failure::Timeout`.
    let limit = limit * 2;
    let request =
        ConnectRequest { name, endpoint: &endpoint, access: None, limit, era: None, events };
    let connected = connect.connect(request).await;
    let connection = connected.map_err(|error| Failure::Error { error, doing: "connecting" })?;
    let listed = connection.list().await;
    connection.close().await;
    listed.map_err(|error| Failure::Error { error, doing: "listing its tools" })
}
