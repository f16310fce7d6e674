//! Connects one server for one owner: runs an ordinary unit, with the owner's token.

use std::sync::{Arc, Weak};

use jiff::Timestamp;
use muster_core::{
    backend::{Backend, BoxFuture, boxed},
    connect::{ConnectRequest, ConnectResult, Connector, ServerListing},
    logins::AccessTokenSource,
    name::exposed_name,
    request::Change,
};
use muster_gateway::condition::ServerCondition;
use tokio::{
    sync::{broadcast, watch},
    time::Instant,
};

use super::{
    Deps, NotConnected, UserConnections,
    owner_access::{ObservedAccess, OwnerBackend},
    owner_connections::{ConnectedOffer, OwnerConnection, OwnerConnections, OwnerStanding, counts},
};
use crate::{
    backend_limits::LimitedBackend,
    circuit_breaker::CircuitBreaker,
    server_logs::ServerLogs,
    server_offer,
    status::ServerStatus,
    supervisor::{self, UnitId, UnitObserver, UnitUpdate, unit},
    timing::EngineTiming,
    view::{Counts, ServerEntry},
};

/// Connects a server for an owner and waits for the result. A failed connection is removed.
pub(super) async fn connect(
    user_connections: &Arc<UserConnections>,
    connections: &Arc<OwnerConnections>,
    entry: &ServerEntry,
    access: Arc<dyn AccessTokenSource>,
    id: u64,
) -> Result<Counts, NotConnected> {
    let (deps, server, id) = (&user_connections.deps, &entry.server, UnitId(id));
    let (status, mut statuses) = watch::channel(ServerStatus::idle(server.spec.kind));
    let watched = ObservedAccess::new(access, connections, &server.name, id, deps.changes.clone());
    let unit_deps = unit::Deps {
        connect: Arc::new(AuthenticatedConnector {
            connect: Arc::clone(&deps.connect),
            access: Arc::new(watched),
        }),
        // No health checks: each would use the token of an owner who may be idle.
        timing: EngineTiming { check_interval: None, ..deps.timing },
        observer: Arc::new(Observer {
            connections: Arc::downgrade(connections),
            user_connections: Arc::downgrade(user_connections),
        }),
        retry: unit::Retry::ExceptLogin,
        // Only local servers write logs, and those have no logins.
        logs: ServerLogs::default(),
        leased: None,
    };
    let (unit, desired) = unit::Unit::new(id, Arc::clone(server), unit_deps);
    deps.tasks.spawn(boxed(unit.run()));
    connections.begin(OwnerConnection {
        id,
        server: Arc::clone(server),
        generation: entry.status.generation,
        desired,
        status,
        offered: None,
    });
    // Start the unit last, so that no update is missed.
    connections.change(&server.name, id, &deps.changes, |link| {
        supervisor::set_running(&link.desired, true);
    });
    let settled =
        statuses.wait_for(|status| status.generation == 1 && !status.condition.is_transitional());
    let status = settled.await.map(|status| status.clone());
    match (connections.standing(&server.name), status) {
        (OwnerStanding::Connected { counts, .. }, _) => Ok(counts),
        (_, Ok(status)) if status.condition != ServerCondition::AuthRequired => {
            connections.disconnect(&server.name, &deps.changes);
            Err(NotConnected::Failed(status.error.unwrap_or_else(|| "it is gone".to_owned())))
        }
        // The connection removes itself when its token is rejected.
        (_, Ok(_) | Err(_)) => {
            connections.disconnect(&server.name, &deps.changes);
            Err(NotConnected::Login)
        }
    }
}

/// A connector that uses an access token.
#[derive(Debug)]
struct AuthenticatedConnector {
    connect: Arc<dyn Connector>,
    access: Arc<dyn AccessTokenSource>,
}

impl Connector for AuthenticatedConnector {
    fn connect<'a>(&'a self, request: ConnectRequest<'a>) -> BoxFuture<'a, ConnectResult> {
        let access = Some(Arc::clone(&self.access));
        self.connect.connect(ConnectRequest { access, ..request })
    }
}

/// Applies the updates of an owner's unit.
struct Observer {
    connections: Weak<OwnerConnections>,
    user_connections: Weak<UserConnections>,
}

impl UnitObserver for Observer {
    fn observe<'a>(&'a self, name: &'a str, id: UnitId, update: UnitUpdate) -> BoxFuture<'a, ()> {
        if let (Some(connections), Some(user_connections)) =
            (self.connections.upgrade(), self.user_connections.upgrade())
        {
            take_in(&connections, &user_connections, name, id, update);
        }
        Box::pin(std::future::ready(()))
    }
}

fn take_in(
    connections: &Arc<OwnerConnections>,
    user_connections: &UserConnections,
    name: &str,
    id: UnitId,
    update: UnitUpdate,
) {
    let deps = &user_connections.deps;
    let prefix = deps.view.borrow().settings.aggregator.prefix().to_owned();
    match update {
        UnitUpdate::StatusChanged(status) => connections.change(name, id, &deps.changes, |link| {
            link.status.send_replace(status);
        }),
        UnitUpdate::Connected(status, listing, backend) => {
            let Some(breaker) = breaker(deps, name) else { return };
            breaker.close();
            connections.change(name, id, &deps.changes, |link| {
                let limited = LimitedBackend::for_server(
                    backend,
                    &link.server,
                    deps.max_concurrent_calls,
                    breaker,
                );
                let backend: Arc<dyn Backend> =
                    Arc::new(OwnerBackend::new(connections, name, id, limited));
                let source = server_offer::source(&prefix, &link.server, &listing);
                let since = Timestamp::now();
                tracing::debug!(server = name, "connected for one person: {:?}", counts(&source));
                link.offered = Some(ConnectedOffer { source, backend, since });
                link.status.send_replace(status);
            });
        }
        UnitUpdate::Relisted(listing) => {
            relisted(connections, &deps.changes, (name, id), &prefix, &listing);
        }
        UnitUpdate::Disconnected(status) if status.condition == ServerCondition::AuthRequired => {
            connections.change(name, id, &deps.changes, |link| {
                link.status.send_replace(status);
            });
            if connections.has(name, id) {
                connections.disconnect(name, &deps.changes);
                connections.note_sso(name, Some("the server does not accept the token".to_owned()));
                connections.schedule_retry(name, Instant::now());
            }
        }
        UnitUpdate::Disconnected(status) => connections.change(name, id, &deps.changes, |link| {
            link.offered = None;
            link.status.send_replace(status);
        }),
        UnitUpdate::ResourceUpdated(uri) if connections.has(name, id) => {
            let view = deps.view.borrow();
            let server = view.servers.get(name).map(|entry| entry.server.prefix().to_owned());
            let uri = match server {
                Some(server) if !uri.contains("://") => exposed_name(&prefix, &server, &uri),
                Some(_) | None => uri,
            };
            // An error means that there is no listener.
            drop(deps.changes.send(Change::Resource { uri }.for_owner(connections.owner.clone())));
        }
        UnitUpdate::ResourceUpdated(_) => (),
    }
}

/// The circuit breaker of a server; `None` if the server was deleted meanwhile.
fn breaker(deps: &Deps, server: &str) -> Option<Arc<CircuitBreaker>> {
    deps.view.borrow().servers.get(server).map(|entry| Arc::clone(&entry.breaker))
}

fn relisted(
    connections: &OwnerConnections,
    changes: &broadcast::Sender<Change>,
    (name, id): (&str, UnitId),
    prefix: &str,
    listing: &ServerListing,
) {
    connections.change(name, id, changes, |link| {
        if let Some(offered) = &mut link.offered {
            offered.source = server_offer::source(prefix, &link.server, listing);
        }
    });
}
