//! Servers that were named once and stay named: connected, followed, connected again when lost.
//!
//! For a server that is started with all it serves on its command line. What may change while it
//! runs is only whether a backend is there and what it offers.

use std::{sync::Arc, time::Duration};

use muster_core::{
    backend::Backend,
    catalog::{About, Source},
    connect::{Connect, Connection, Endpoint},
    name::BackendName,
    request::Change,
};
use muster_gateway::dispatch::GatewaySnapshot;
use tokio::{
    sync::{broadcast, watch},
    time::sleep,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    offer::{self, Naming},
    supervisor::ear::{self, Ear, Notice},
};

/// What a burst of changes is waited for before a server is listed anew.
const BURST: Duration = Duration::from_millis(100);
/// How long to wait before a lost server is tried again: doubled each time, up to the longest.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// Changes that a slow client may fall behind before it misses some.
const CHANGES: usize = 256;

/// A server and how it is shown.
#[derive(Debug, Clone)]
pub struct Named {
    /// Its name.
    pub name: String,
    /// One line about it.
    pub description: String,
    /// How it is reached.
    pub endpoint: Endpoint,
    /// How long connecting may take.
    pub limit: Duration,
    /// Under which names its tools are seen.
    pub naming: Naming,
}

/// The servers, being followed.
#[derive(Debug)]
pub struct Fixed {
    state: Arc<watch::Sender<Arc<GatewaySnapshot>>>,
    changes: broadcast::Sender<Change>,
    tasks: TaskTracker,
    stop: CancellationToken,
    untried: Arc<watch::Sender<usize>>,
}

impl Fixed {
    /// Starts from `state` and adds what the servers offer as they connect. Returns at once.
    pub fn start(state: GatewaySnapshot, servers: Vec<Named>, connect: &Arc<dyn Connect>) -> Self {
        let fixed = Self {
            state: Arc::new(watch::Sender::new(Arc::new(state))),
            changes: broadcast::channel(CHANGES).0,
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
            untried: Arc::new(watch::Sender::new(servers.len())),
        };
        for named in servers {
            let follower = Follower {
                named: Arc::new(named),
                connect: Arc::clone(connect),
                state: Arc::clone(&fixed.state),
                changes: fixed.changes.clone(),
            };
            let (stop, untried) = (fixed.stop.clone(), Arc::clone(&fixed.untried));
            fixed.tasks.spawn(stop.run_until_cancelled_owned(follower.run(untried)));
        }
        fixed
    }

    /// What calls are routed by, from now on.
    pub fn state(&self) -> watch::Receiver<Arc<GatewaySnapshot>> {
        self.state.subscribe()
    }

    /// Where changes of what clients can list are told.
    pub fn changes(&self) -> broadcast::Sender<Change> {
        self.changes.clone()
    }

    /// How many servers have not been tried yet; clients that ask early wait for this to be none.
    pub fn untried(&self) -> watch::Receiver<usize> {
        self.untried.subscribe()
    }

    /// Lets go of every server.
    pub async fn shut_down(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        // The connections go with the state that holds them.
        self.state.send_replace(Arc::default());
    }
}

struct Follower {
    named: Arc<Named>,
    connect: Arc<dyn Connect>,
    state: Arc<watch::Sender<Arc<GatewaySnapshot>>>,
    changes: broadcast::Sender<Change>,
}

impl Follower {
    async fn run(self, untried: Arc<watch::Sender<usize>>) {
        let mut first = Some(untried);
        let mut wait = FIRST_WAIT;
        loop {
            let Named { name, endpoint, limit, .. } = &*self.named;
            let (events, mut ear) = ear::pair(name);
            let connected = self.connect.connect(name, endpoint, *limit, events).await;
            let listed = match connected {
                Ok(connection) => self.publish(&connection).await.then_some(connection),
                Err(err) => {
                    tracing::warn!("server {name}: {err}");
                    None
                }
            };
            if let Some(untried) = first.take() {
                untried.send_modify(|left| *left -= 1);
            }
            if let Some(connection) = listed {
                wait = FIRST_WAIT;
                self.follow(connection, &mut ear).await;
                self.withdraw();
            }
            sleep(wait).await;
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }

    /// Follows a connected server until it is lost.
    async fn follow(&self, connection: Arc<dyn Connection>, ear: &mut Ear) {
        loop {
            match ear.next().await {
                Notice::ListsChanged => {
                    sleep(BURST).await;
                    if !self.publish(&connection).await {
                        return;
                    }
                }
                Notice::Updated(uri) => self.tell(Change::Resource { uri }),
                Notice::Closed(reason) => {
                    tracing::warn!("server {}: {reason}", self.named.name);
                    return;
                }
            }
        }
    }

    /// Lists a server and puts what it offers into the catalog; false when it cannot be listed.
    async fn publish(&self, connection: &Arc<dyn Connection>) -> bool {
        let Named { name, description, naming, .. } = &*self.named;
        let listing = match connection.list().await {
            Ok(listing) => listing,
            Err(err) => {
                tracing::warn!("server {name}: cannot list what it offers: {err}");
                return false;
            }
        };
        let about = About {
            title: name.as_str().into(),
            description: description.as_str().into(),
            category: None,
            tags: Arc::from([]),
        };
        let backend = BackendName::new(name.as_str());
        let source = Source::new(backend.clone(), about, offer::offer(naming, &backend, &listing));
        let running: Arc<dyn Backend> = Arc::clone(connection) as Arc<dyn Backend>;
        self.state.send_modify(|state| {
            let mut next = GatewaySnapshot::clone(state);
            next.catalog = next.catalog.with(source);
            next.backends.insert(backend, running);
            *state = Arc::new(next);
        });
        self.tell_all();
        true
    }

    fn withdraw(&self) {
        let backend = BackendName::new(self.named.name.as_str());
        self.state.send_modify(|state| {
            let mut next = GatewaySnapshot::clone(state);
            next.catalog = next.catalog.without(&backend);
            next.backends.remove(&backend);
            *state = Arc::new(next);
        });
        self.tell_all();
    }

    fn tell_all(&self) {
        for change in [Change::Tools, Change::Resources, Change::Prompts] {
            self.tell(change);
        }
    }

    fn tell(&self, change: Change) {
        // Nobody listens when no client is connected.
        drop(self.changes.send(change));
    }
}
