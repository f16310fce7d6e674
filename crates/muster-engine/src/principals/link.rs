//! One server connected for one owner: the same unit as for everybody, with a token.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use jiff::Timestamp;
use muster_core::{
    backend::{Backend, BoxFuture},
    connect::{ConnectError, Connection, ConnectionObserver, Connector, Endpoint, ServerListing},
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
    NotConnected, Principals,
    access::{Owned, Watched},
    own::{Link, Offered, Own, Standing, counts},
};
use crate::{
    limited::Limited,
    offer,
    status::ServerStatus,
    supervisor::{self, UnitId, UnitObserver, UnitUpdate, unit},
    view::{Counts, Known},
};

/// Connects a server for an owner and waits for what comes of it. What could not be connected is not
/// kept.
pub(super) async fn connect(
    principals: &Arc<Principals>,
    own: &Arc<Own>,
    known: &Known,
    access: Arc<dyn AccessTokenSource>,
    id: u64,
) -> Result<Counts, NotConnected> {
    let (tools, server, id) = (&principals.tools, &known.server, UnitId(id));
    let (status, mut statuses) = watch::channel(ServerStatus::idle(server.spec.kind));
    let watched = Watched::new(access, own, &server.name, id, tools.changes.clone());
    let deps = unit::Deps {
        connect: Arc::new(As { connect: Arc::clone(&tools.connect), access: Arc::new(watched) }),
        timing: tools.timing,
        observer: Arc::new(Observer {
            own: Arc::downgrade(own),
            principals: Arc::downgrade(principals),
        }),
        retry: unit::Retry::Transient,
    };
    let (unit, desired) = unit::Unit::new(id, Arc::clone(server), deps);
    tools.tasks.spawn(unit.run());
    own.begin(Link {
        id,
        server: Arc::clone(server),
        generation: known.status.generation,
        desired,
        status,
        offered: None,
    });
    // Only now, so that nothing it says is missed.
    own.change(&server.name, id, &tools.changes, |link| {
        supervisor::set_running(&link.desired, true);
    });
    let settled =
        statuses.wait_for(|status| status.generation == 1 && !status.condition.is_transitional());
    let status = settled.await.map(|status| status.clone());
    match (own.standing(&server.name), status) {
        (Standing::Connected { counts, .. }, _) => Ok(counts),
        (_, Ok(status)) if status.condition != ServerCondition::AuthRequired => {
            own.let_go(&server.name, &tools.changes);
            Err(NotConnected::Failed(status.error.unwrap_or_else(|| "it is gone".to_owned())))
        }
        // The link ends by itself when its token is of no use any more.
        (_, Ok(_) | Err(_)) => {
            own.let_go(&server.name, &tools.changes);
            Err(NotConnected::Login)
        }
    }
}

/// Connects with a token.
#[derive(Debug)]
struct As {
    connect: Arc<dyn Connector>,
    access: Arc<dyn AccessTokenSource>,
}

impl Connector for As {
    fn connect<'a>(
        &'a self,
        name: &'a str,
        endpoint: &'a Endpoint,
        limit: Duration,
        events: Arc<dyn ConnectionObserver>,
    ) -> BoxFuture<'a, Result<Arc<dyn Connection>, ConnectError>> {
        let access = Arc::clone(&self.access);
        self.connect.connect_as(name, endpoint, access, limit, events)
    }

    fn connect_as<'a>(
        &'a self,
        name: &'a str,
        endpoint: &'a Endpoint,
        access: Arc<dyn AccessTokenSource>,
        limit: Duration,
        events: Arc<dyn ConnectionObserver>,
    ) -> BoxFuture<'a, Result<Arc<dyn Connection>, ConnectError>> {
        self.connect.connect_as(name, endpoint, access, limit, events)
    }
}

/// Takes in what the unit of one owner says.
struct Observer {
    own: Weak<Own>,
    principals: Weak<Principals>,
}

impl UnitObserver for Observer {
    fn observe<'a>(&'a self, name: &'a str, id: UnitId, update: UnitUpdate) -> BoxFuture<'a, ()> {
        if let (Some(own), Some(principals)) = (self.own.upgrade(), self.principals.upgrade()) {
            take_in(&own, &principals, name, id, update);
        }
        Box::pin(std::future::ready(()))
    }
}

fn take_in(own: &Arc<Own>, principals: &Principals, name: &str, id: UnitId, update: UnitUpdate) {
    let tools = &principals.tools;
    let prefix = tools.view.borrow().settings.aggregator.prefix().to_owned();
    match update {
        UnitUpdate::StatusChanged(status) => own.change(name, id, &tools.changes, |link| {
            link.status.send_replace(status);
        }),
        UnitUpdate::Connected(status, listing, backend) => {
            own.change(name, id, &tools.changes, |link| {
                let limited = Limited::for_server(backend, &link.server, tools.calls_at_once);
                let backend: Arc<dyn Backend> = Arc::new(Owned::new(own, name, id, limited));
                let source = offer::source(&prefix, &link.server, &listing);
                let since = Timestamp::now();
                tracing::debug!(server = name, "connected for one person: {:?}", counts(&source));
                link.offered = Some(Offered { source, backend, since });
                link.status.send_replace(status);
            });
        }
        UnitUpdate::Relisted(listing) => {
            relisted(own, &tools.changes, (name, id), &prefix, &listing)
        }
        UnitUpdate::Disconnected(status) if status.condition == ServerCondition::AuthRequired => {
            own.change(name, id, &tools.changes, |link| {
                link.status.send_replace(status);
            });
            if own.has(name, id) {
                own.let_go(name, &tools.changes);
                own.try_later(name, Instant::now());
            }
        }
        UnitUpdate::Disconnected(status) => own.change(name, id, &tools.changes, |link| {
            link.offered = None;
            link.status.send_replace(status);
        }),
        UnitUpdate::ResourceUpdated(uri) if own.has(name, id) => {
            let view = tools.view.borrow();
            let server = view.servers.get(name).map(|known| known.server.prefix().to_owned());
            let uri = match server {
                Some(server) if !uri.contains("://") => exposed_name(&prefix, &server, &uri),
                Some(_) | None => uri,
            };
            // Nobody may be listening.
            drop(tools.changes.send(Change::Resource { uri }.for_owner(own.owner.clone())));
        }
        UnitUpdate::ResourceUpdated(_) => (),
    }
}

fn relisted(
    own: &Own,
    changes: &broadcast::Sender<Change>,
    (name, id): (&str, UnitId),
    prefix: &str,
    listing: &ServerListing,
) {
    own.change(name, id, changes, |link| {
        if let Some(offered) = &mut link.offered {
            offered.source = offer::source(prefix, &link.server, listing);
        }
    });
}
