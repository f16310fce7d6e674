//! One server connected for one owner: the same unit as for everybody, with a token.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use jiff::Timestamp;
use muster_core::{
    backend::{Backend, BoxFuture},
    connect::{Connect, ConnectError, Connection, Endpoint, Events, Listing},
    logins::Access,
    name::{BackendName, exposed},
    request::Change,
};
use muster_gateway::condition::Condition;
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
    limited::{Limited, Patience},
    offer,
    status::Report,
    supervisor::{Hear, UnitId, Wish, Word, unit},
    view::{Counts, Known},
};

/// Connects a server for an owner and waits for what comes of it. What could not be connected is not
/// kept.
pub(super) async fn connect(
    principals: &Arc<Principals>,
    own: &Arc<Own>,
    known: &Known,
    access: Arc<dyn Access>,
    id: u64,
) -> Result<Counts, NotConnected> {
    let (tools, server, id) = (&principals.tools, &known.server, UnitId(id));
    let (wish, wishes) =
        watch::channel(Wish { server: Arc::clone(server), running: false, round: 0 });
    let (report, mut reports) = watch::channel(Report::idle(server.spec.kind));
    let watched = Watched::new(access, own, &server.name, id, tools.changes.clone());
    let means = unit::Means {
        connect: Arc::new(As { connect: Arc::clone(&tools.connect), access: Arc::new(watched) }),
        timing: tools.timing,
        words: Arc::new(Hearing {
            own: Arc::downgrade(own),
            principals: Arc::downgrade(principals),
        }),
    };
    tools.tasks.spawn(unit::Unit::new(id, means, wishes).run());
    own.begin(Link {
        id,
        server: Arc::clone(server),
        round: known.report.round,
        wish,
        report,
        offered: None,
    });
    // Only now, so that nothing it says is missed.
    own.change(&server.name, id, &tools.changes, |link| {
        link.wish.send_modify(|wish| {
            wish.running = true;
            wish.round = 1;
        });
    });
    let settled = reports.wait_for(|report| report.round == 1 && !report.condition.is_passing());
    let report = settled.await.map(|report| report.clone());
    match (own.standing(&server.name), report) {
        (Standing::Connected { counts, .. }, _) => Ok(counts),
        (_, Ok(report)) if report.condition != Condition::AuthRequired => {
            own.let_go(&server.name, &tools.changes);
            Err(NotConnected::Failed(report.error.unwrap_or_else(|| "it is gone".to_owned())))
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
    connect: Arc<dyn Connect>,
    access: Arc<dyn Access>,
}

impl Connect for As {
    fn connect<'a>(
        &'a self,
        name: &'a str,
        endpoint: &'a Endpoint,
        limit: Duration,
        events: Arc<dyn Events>,
    ) -> BoxFuture<'a, Result<Arc<dyn Connection>, ConnectError>> {
        let access = Arc::clone(&self.access);
        self.connect.connect_as(name, endpoint, access, limit, events)
    }

    fn connect_as<'a>(
        &'a self,
        name: &'a str,
        endpoint: &'a Endpoint,
        access: Arc<dyn Access>,
        limit: Duration,
        events: Arc<dyn Events>,
    ) -> BoxFuture<'a, Result<Arc<dyn Connection>, ConnectError>> {
        self.connect.connect_as(name, endpoint, access, limit, events)
    }
}

/// Takes in what the unit of one owner says.
struct Hearing {
    own: Weak<Own>,
    principals: Weak<Principals>,
}

impl Hear for Hearing {
    fn hear<'a>(&'a self, name: &'a str, id: UnitId, word: Word) -> BoxFuture<'a, ()> {
        if let (Some(own), Some(principals)) = (self.own.upgrade(), self.principals.upgrade()) {
            take_in(&own, &principals, name, id, word);
        }
        Box::pin(std::future::ready(()))
    }
}

fn take_in(own: &Arc<Own>, principals: &Principals, name: &str, id: UnitId, word: Word) {
    let tools = &principals.tools;
    let prefix = tools.view.borrow().settings.aggregator.prefix().to_owned();
    match word {
        Word::Doing(report) => own.change(name, id, &tools.changes, |link| {
            link.report.send_replace(report);
        }),
        Word::Up(report, listing, backend) => {
            own.change(name, id, &tools.changes, |link| {
                let patience = link.server.spec.call_limit();
                let patience =
                    patience.map(|limit| Patience { server: BackendName::new(name), limit });
                let limited = Limited::new(backend, tools.calls_at_once).within(patience);
                let backend: Arc<dyn Backend> = Arc::new(Owned::new(own, name, id, limited));
                let source = offer::source(&prefix, &link.server, &listing);
                let since = Timestamp::now();
                tracing::debug!(server = name, "connected for one person: {:?}", counts(&source));
                link.offered = Some(Offered { source, backend, since });
                link.report.send_replace(report);
            });
        }
        Word::Relisted(listing) => relisted(own, &tools.changes, (name, id), &prefix, &listing),
        Word::Down(report) if report.condition == Condition::AuthRequired => {
            own.change(name, id, &tools.changes, |link| {
                link.report.send_replace(report);
            });
            if own.has(name, id) {
                own.let_go(name, &tools.changes);
                own.try_later(name, Instant::now());
            }
        }
        Word::Down(report) => own.change(name, id, &tools.changes, |link| {
            link.offered = None;
            link.report.send_replace(report);
        }),
        Word::Updated(uri) if own.has(name, id) => {
            let view = tools.view.borrow();
            let server = view.servers.get(name).map(|known| known.server.prefix().to_owned());
            let uri = match server {
                Some(server) if !uri.contains("://") => exposed(&prefix, &server, &uri),
                Some(_) | None => uri,
            };
            // Nobody may be listening.
            drop(tools.changes.send(Change::Resource { uri }.own(own.owner.clone())));
        }
        Word::Updated(_) => (),
    }
}

fn relisted(
    own: &Own,
    changes: &broadcast::Sender<Change>,
    (name, id): (&str, UnitId),
    prefix: &str,
    listing: &Listing,
) {
    own.change(name, id, changes, |link| {
        if let Some(offered) = &mut link.offered {
            offered.source = offer::source(prefix, &link.server, listing);
        }
    });
}
