//! The MCP servers named on the command line: the set never changes, and each server is supervised by a unit.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use muster_config::mcpserver::McpServer;
use muster_core::{
    backend::{Backend, BoxFuture, boxed},
    catalog::CatalogSource,
    connect::{Connector, ServerListing},
    name::BackendName,
    request::Change,
};
use muster_gateway::{absent::Absent, dispatch::GatewaySnapshot};
use tokio::sync::{broadcast, watch};
use tokio_util::task::TaskTracker;

use crate::{
    backend_limits::LimitedBackend,
    circuit_breaker::CircuitBreaker,
    server_logs::ServerLogs,
    server_offer::{self, Naming},
    status::{self, ServerStatus},
    supervisor::{
        self, DesiredState, UnitId, UnitObserver, UnitUpdate,
        unit::{Deps, Retry, Unit},
    },
    timing::EngineTiming,
};

/// The upper limit of the backoff. Such a server cannot be restarted by hand, so it is retried more often than a server
/// of `muster serve`.
const MAX_BACKOFF: Duration = Duration::from_secs(60);
/// The number of calls that one server runs at once.
const MAX_CONCURRENT_CALLS: usize = 64;
/// The threshold of the circuit breaker: the number of consecutive calls without an answer that opens it.
const CALL_FAILURES: u16 = 5;
/// The number of changes that a slow client may fall behind before it misses some.
const BUFFERED_CHANGES: usize = 256;

/// A server and the names of its tools.
#[derive(Debug, Clone)]
pub struct StaticServer {
    /// Its definition.
    pub server: Arc<McpServer>,
    /// The names that its tools, resources and prompts are shown under.
    pub naming: Naming,
}

/// The running servers.
#[derive(Debug)]
pub struct StaticServers {
    shared: Arc<Shared>,
    tasks: TaskTracker,
    /// A unit ends with the sender of its desired state.
    units: Vec<watch::Sender<DesiredState>>,
    untried: watch::Receiver<usize>,
}

/// The state that the units write.
#[derive(Debug)]
struct Shared {
    snapshot: watch::Sender<Arc<GatewaySnapshot>>,
    changes: broadcast::Sender<Change>,
}

impl StaticServers {
    /// Starts from `snapshot` and adds the servers' offers as they connect. Returns at once.
    pub fn start(
        snapshot: GatewaySnapshot,
        servers: Vec<StaticServer>,
        connect: &Arc<dyn Connector>,
    ) -> Self {
        let snapshot = watch::Sender::new(Arc::new(snapshot));
        let shared = Arc::new(Shared { snapshot, changes: broadcast::channel(BUFFERED_CHANGES).0 });
        let (tasks, untried) = (TaskTracker::new(), watch::Sender::new(servers.len()));
        let timing = EngineTiming { max_backoff: MAX_BACKOFF, ..EngineTiming::default() };
        let untried = Arc::new(untried);
        let start = |(number, server): (u64, StaticServer)| {
            let definition = Arc::clone(&server.server);
            let observer = Observer {
                shared: Arc::clone(&shared),
                server,
                is_untried: AtomicBool::new(true),
                untried: Arc::clone(&untried),
            };
            let deps = Deps {
                connect: Arc::clone(connect),
                timing,
                observer: Arc::new(observer),
                retry: Retry::Always,
                // `climax` has no tool that reads the logs; standard error is logged at debug level.
                logs: ServerLogs::default(),
                leased: None,
            };
            let (unit, desired) = Unit::new(UnitId(number), definition, deps);
            tasks.spawn(boxed(unit.run()));
            supervisor::set_running(&desired, true);
            desired
        };
        let units = (0..).zip(servers).map(start).collect();
        let untried = untried.subscribe();
        Self { shared, tasks, units, untried }
    }

    /// The state that calls are routed by.
    pub fn snapshot(&self) -> watch::Receiver<Arc<GatewaySnapshot>> {
        self.shared.snapshot.subscribe()
    }

    /// The change notifications for clients.
    pub fn changes(&self) -> broadcast::Sender<Change> {
        self.shared.changes.clone()
    }

    /// The number of servers whose first attempt to connect has not ended.
    pub fn untried(&self) -> watch::Receiver<usize> {
        self.untried.clone()
    }

    /// Closes all connections.
    pub async fn shut_down(self) {
        drop(self.units);
        self.tasks.close();
        self.tasks.wait().await;
        // The snapshot holds the last references to the connections.
        self.shared.snapshot.send_replace(Arc::default());
    }
}

/// Writes the updates of one server into the shared state.
struct Observer {
    shared: Arc<Shared>,
    server: StaticServer,
    is_untried: AtomicBool,
    untried: Arc<watch::Sender<usize>>,
}

impl UnitObserver for Observer {
    fn observe<'a>(&'a self, _: &'a str, _: UnitId, update: UnitUpdate) -> BoxFuture<'a, ()> {
        match update {
            UnitUpdate::StatusChanged(status) => self.note(&status),
            UnitUpdate::Connected(status, listing, backend) => {
                self.note(&status);
                let server = &self.server.server;
                let breaker = CircuitBreaker::new(&server.name, CALL_FAILURES);
                let limited =
                    LimitedBackend::for_server(backend, server, MAX_CONCURRENT_CALLS, breaker);
                self.publish(&listing, Some(Arc::new(limited)));
                self.tried();
            }
            UnitUpdate::Relisted(listing) => self.publish(&listing, None),
            UnitUpdate::Disconnected(status) => {
                self.warn(&status);
                self.note(&status);
                self.withdraw();
                self.tried();
            }
            UnitUpdate::ResourceUpdated(uri) => {
                self.notify(Change::Resource { uri: self.server.naming.name(&uri) });
            }
        }
        Box::pin(std::future::ready(()))
    }
}

impl Observer {
    /// Counts the end of the first attempt to connect.
    fn tried(&self) {
        if self.is_untried.swap(false, Ordering::Relaxed) {
            self.untried.send_modify(|left| *left -= 1);
        }
    }

    /// Notes whether the server is absent.
    fn note(&self, status: &ServerStatus) {
        let name = self.server.server.name.as_str();
        let prefix = self.server.naming.prefix(name);
        let absent = (!status.condition.is_up()).then(|| Absent {
            error: status.error.clone(),
            next_retry: status.next_retry.map(status::moment),
            ..Absent::new(BackendName::new(name), status.condition)
        });
        self.shared.modify(|next| {
            // Its last offer can still be found, marked as unavailable.
            let offered = next.catalog.source(name).map(|source| source.some_tools(|_| true));
            let before = next.absent.get(&prefix).and_then(|absent| absent.last.clone());
            let last = offered.map(Arc::new).or(before);
            let all = Arc::make_mut(&mut next.absent);
            match absent {
                Some(absent) => drop(all.insert(prefix, Absent { last, ..absent })),
                None => drop(all.remove(&prefix)),
            }
        });
    }

    fn warn(&self, status: &ServerStatus) {
        let reason = status.error.as_deref().unwrap_or(status.condition.as_str());
        tracing::warn!("server {}: {reason}", self.server.server.name);
    }

    fn publish(&self, listing: &ServerListing, backend: Option<Arc<dyn Backend>>) {
        let StaticServer { server, naming } = &self.server;
        let name = BackendName::new(server.name.as_str());
        let offered = server_offer::offer(naming, &name, listing);
        let mut source = CatalogSource::new(name.clone(), server_offer::about(server), offered);
        source.tools_members.clone_from(&listing.tools_members);
        self.shared.modify(|next| {
            next.catalog = next.catalog.with(source);
            if let Some(backend) = backend {
                next.backends.insert(name, backend);
            }
        });
        self.notify_all();
    }

    fn withdraw(&self) {
        let name = BackendName::new(self.server.server.name.as_str());
        let was_published = self.shared.snapshot.borrow().backends.contains_key(&name);
        if was_published {
            self.shared.modify(|next| {
                next.catalog = next.catalog.without(&name);
                next.backends.remove(&name);
            });
            self.notify_all();
        }
    }

    fn notify_all(&self) {
        for change in [Change::Tools, Change::Resources, Change::Prompts] {
            self.notify(change);
        }
    }

    fn notify(&self, change: Change) {
        // Without a connected client there is no receiver.
        drop(self.shared.changes.send(change));
    }
}

impl Shared {
    fn modify(&self, change: impl FnOnce(&mut GatewaySnapshot)) {
        self.snapshot.send_modify(|snapshot| change(Arc::make_mut(snapshot)));
    }
}
