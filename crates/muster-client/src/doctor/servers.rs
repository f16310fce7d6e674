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
        Err(error) => return Err(failure(server, &error, "connecting")),
    };
    let listed = connection.list().await;
    connection.close().await;
    listed.map_err(|error| failure(server, &error, "listing its tools"))
}

fn failure(server: &McpServer, error: &ConnectError, doing: &str) -> Finding {
    let name = &server.name;
    let failed = || Finding::bad(Hop::Handshake, name, format!("{doing}: {error}"));
    match error {
        ConnectError::Unauthorized { .. } => Finding::bad(Hop::Login, name, "it requires a login")
            .fix(format!("log in with `muster auth login --server {name}`")),
        ConnectError::Insecure(reason) => Finding::bad(Hop::Certificates, name, reason)
            .fix("add the CA that signed its certificate to those this machine trusts"),
        ConnectError::Transient(_) | ConnectError::Permanent(_) if server.spec.kind.is_local() => {
            failed().fix("run its command in a terminal and look at its output")
        }
        ConnectError::Transient(_) => {
            failed().fix("check its `url`, and that the server is running")
        }
        ConnectError::Permanent(_) => {
            failed().fix("check its `url` and `type`: an MCP server must answer there")
        }
    }
}

#[cfg(test)]
mod tests {
    use muster_config::mcpserver::{McpServer, McpServerSpec, ServerType};
    use muster_core::connect::ConnectError;

    use super::{Hop, failure};

    #[test]
    fn the_fix_follows_from_the_kind_of_the_error() {
        let fix = |kind: ServerType, error: ConnectError| {
            let spec = McpServerSpec { kind, ..McpServerSpec::default() };
            let server = McpServer::new("s", "default", spec);
            let finding = failure(&server, &error, "connecting");
            (finding.hop, finding.fix.unwrap())
        };
        let text = || "no TLS with the certificate, timed out".to_owned();
        let (hop, said) = fix(ServerType::Stdio, ConnectError::Permanent(text()));
        assert_eq!(hop, Hop::Handshake);
        assert!(said.starts_with("run its command"), "{said}");
        let (hop, said) = fix(ServerType::Sse, ConnectError::Permanent(text()));
        assert_eq!(hop, Hop::Handshake);
        assert!(said.starts_with("check its `url` and `type`"), "{said}");
        let (_, said) = fix(ServerType::StreamableHttp, ConnectError::Transient(text()));
        assert!(said.contains("is running"), "{said}");
        let (hop, _) = fix(ServerType::Sse, ConnectError::Insecure("odd".to_owned()));
        assert_eq!(hop, Hop::Certificates);
    }
}
