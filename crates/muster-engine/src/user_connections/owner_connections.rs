//! The connections of one owner.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak},
    time::Duration,
};

use jiff::Timestamp;
use muster_config::mcpserver::McpServer;
use muster_core::{
    backend::{Backend, BoxFuture},
    backoff::Backoff,
    call::Owner,
    catalog::CatalogSource,
    name::BackendName,
    request::Change,
};
use muster_gateway::dispatch::GatewaySnapshot;
use tokio::{
    sync::{Mutex, broadcast, watch},
    time::{Instant, timeout_at},
};

use crate::{
    server_offer,
    status::ServerStatus,
    supervisor::{DesiredState, UnitId},
    view::{Counts, ServerEntry},
};

/// The rate limit of logins: the maximum number within [`LOGIN_WINDOW`].
const MAX_LOGIN_ATTEMPTS: usize = 10;
const LOGIN_WINDOW: Duration = Duration::from_secs(60);

/// The backoff of background connections.
const BACKOFF: Backoff =
    Backoff { first: Duration::from_secs(5 * 60), max: Duration::from_secs(30 * 60) };

/// How long requests wait for the first background connections after a login.
const FIRST_ATTEMPTS: Duration = Duration::from_secs(15);

/// The connections of one owner.
#[derive(Debug)]
pub(crate) struct OwnerConnections {
    pub(super) owner: Owner,
    state: RwLock<OwnerState>,
    /// The number of running background attempts, by server. Servers without one are absent.
    attempting: watch::Sender<BTreeMap<String, usize>>,
}

/// A guard that counts a background attempt to connect a server, until it is dropped.
#[derive(Debug)]
pub(super) struct RunningAttempt {
    attempting: watch::Sender<BTreeMap<String, usize>>,
    server: String,
}

impl Drop for RunningAttempt {
    fn drop(&mut self) {
        self.attempting.send_modify(|attempting| {
            let left = attempting.get(&self.server).map_or(0, |running| running.saturating_sub(1));
            match left {
                0 => drop(attempting.remove(&self.server)),
                left => drop(attempting.insert(self.server.clone(), left)),
            }
        });
    }
}

#[derive(Debug)]
struct OwnerState {
    /// Incremented when `links` change.
    version: u64,
    links: BTreeMap<String, OwnerConnection>,
    /// A lock per server, so that concurrent requests connect it once.
    connect_locks: BTreeMap<String, Arc<Mutex<()>>>,
    /// A cache of the last derived snapshot, with the shared snapshot and the version that it was made from.
    derived: Option<(Weak<GatewaySnapshot>, u64, Arc<GatewaySnapshot>)>,
    used: Instant,
    login_attempts: VecDeque<Instant>,
    /// The gateway login that servers were last connected for.
    login: Option<(Arc<str>, bool)>,
    /// Until when requests wait for the first attempts of that login.
    wait_until: Option<Instant>,
    /// The attempts to connect servers for that login.
    attempts: BTreeMap<String, ConnectAttempt>,
    /// Why single sign-on failed, by server.
    sso_errors: BTreeMap<String, String>,
}

/// An attempt to connect a server in the background.
#[derive(Debug, Default)]
struct ConnectAttempt {
    /// When the next attempt is due, if there is one.
    next: Option<Instant>,
    /// The number of attempts that were scheduled before.
    retries: u64,
}

/// A server that is connected for the owner, or connecting. Dropping it closes the connection.
#[derive(Debug)]
pub(super) struct OwnerConnection {
    pub(super) id: UnitId,
    pub(super) server: Arc<McpServer>,
    /// The generation of the shared unit that this connection belongs to.
    pub(super) generation: u64,
    pub(super) desired: watch::Sender<DesiredState>,
    pub(super) status: watch::Sender<ServerStatus>,
    pub(super) offered: Option<ConnectedOffer>,
}

/// The offer of a connected server.
#[derive(Debug)]
pub(super) struct ConnectedOffer {
    pub(super) source: CatalogSource,
    pub(super) backend: Arc<dyn Backend>,
    pub(super) since: Timestamp,
}

/// The state of a server for an owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OwnerStanding {
    /// There is no connection.
    None,
    /// Single sign-on failed.
    SsoFailed {
        /// Why, without secrets.
        error: String,
    },
    /// Connecting.
    Connecting,
    /// The connection was lost and is retried.
    Lost,
    /// Connected.
    Connected {
        /// The size of its offer.
        counts: Counts,
        /// Since when.
        since: Timestamp,
    },
}

impl OwnerConnections {
    pub(super) fn new(owner: Owner) -> Self {
        let state = OwnerState {
            version: 0,
            links: BTreeMap::new(),
            connect_locks: BTreeMap::new(),
            derived: None,
            used: Instant::now(),
            login_attempts: VecDeque::new(),
            login: None,
            wait_until: None,
            attempts: BTreeMap::new(),
            sso_errors: BTreeMap::new(),
        };
        Self { owner, state: RwLock::new(state), attempting: watch::Sender::default() }
    }

    /// Counts an attempt to connect a server until it is dropped.
    pub(super) fn begin_attempt(&self, server: &str) -> RunningAttempt {
        self.attempting
            .send_modify(|attempting| *attempting.entry(server.to_owned()).or_default() += 1);
        RunningAttempt { attempting: self.attempting.clone(), server: server.to_owned() }
    }

    /// Waits for the first attempts after a login; `None` if there is nothing to wait for.
    pub(super) fn first_attempts(&self, now: Instant) -> Option<BoxFuture<'static, ()>> {
        let until = self.read().wait_until.filter(|until| *until > now)?;
        if self.attempting.borrow().is_empty() {
            return None;
        }
        let mut attempting = self.attempting.subscribe();
        Some(Box::pin(async move {
            // A slower server appears later, with a change notification.
            drop(timeout_at(until, attempting.wait_for(BTreeMap::is_empty)).await);
        }))
    }

    /// Whether a background attempt to connect this server runs.
    fn is_attempting(&self, server: &str) -> bool {
        self.attempting.borrow().contains_key(server)
    }

    fn read(&self) -> RwLockReadGuard<'_, OwnerState> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, OwnerState> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The snapshot for the owner, derived from the shared one.
    pub(super) fn snapshot(&self, shared: Arc<GatewaySnapshot>) -> Arc<GatewaySnapshot> {
        let (version, overlay) = {
            let mut state = self.write();
            state.used = Instant::now();
            if let Some((of, version, derived)) = &state.derived
                && std::ptr::eq(of.as_ptr(), Arc::as_ptr(&shared))
                && *version == state.version
            {
                return Arc::clone(derived);
            }
            (state.version, state.overlay(&shared))
        };
        if overlay.is_empty() {
            return shared;
        }
        let derived = Arc::new(with(&shared, overlay));
        self.write().derived = Some((Arc::downgrade(&shared), version, Arc::clone(&derived)));
        derived
    }

    pub(super) fn standing(&self, server: &str) -> OwnerStanding {
        let state = self.read();
        match state.links.get(server) {
            Some(OwnerConnection { offered: Some(offered), .. }) => {
                OwnerStanding::Connected { counts: counts(&offered.source), since: offered.since }
            }
            Some(link) if link.status.borrow().condition.is_transitional() => {
                OwnerStanding::Connecting
            }
            // A running attempt may still succeed.
            _ if self.is_attempting(server) => OwnerStanding::Connecting,
            Some(_) => OwnerStanding::Lost,
            None => match state.sso_errors.get(server) {
                Some(error) => OwnerStanding::SsoFailed { error: error.clone() },
                None => OwnerStanding::None,
            },
        }
    }

    /// When the owner was last active.
    pub(super) fn used(&self) -> Instant {
        self.read().used
    }

    /// Counts a login attempt; the error is the number of seconds until the next one is allowed.
    pub(super) fn check_login_rate(&self, now: Instant) -> Result<(), u64> {
        let mut state = self.write();
        state.used = now;
        while state
            .login_attempts
            .front()
            .is_some_and(|first| now.duration_since(*first) >= LOGIN_WINDOW)
        {
            state.login_attempts.pop_front();
        }
        match state.login_attempts.front() {
            Some(first) if state.login_attempts.len() >= MAX_LOGIN_ATTEMPTS => {
                Err((LOGIN_WINDOW - now.duration_since(*first)).as_secs().max(1))
            }
            Some(_) | None => {
                state.login_attempts.push_back(now);
                Ok(())
            }
        }
    }

    /// The servers to connect now: all of them after a new login to the gateway, later those that are new or
    /// whose backoff is over.
    pub(super) fn due<'a>(
        &self,
        login: (Arc<str>, bool),
        servers: impl Iterator<Item = &'a Arc<ServerEntry>>,
        now: Instant,
    ) -> Vec<Arc<ServerEntry>> {
        let state = &mut *self.write();
        state.used = now;
        if state.login.as_ref() != Some(&login) {
            state.login = Some(login);
            state.attempts.clear();
            state.sso_errors.clear();
            state.wait_until = Some(now + FIRST_ATTEMPTS);
        }
        let mut due = Vec::new();
        for known in servers {
            let name = &known.server.name;
            let is_due = match state.attempts.get(name) {
                None => true,
                Some(attempts) => attempts.next.is_some_and(|next| next <= now),
            };
            if is_due && !state.links.contains_key(name) {
                state.attempts.entry(name.clone()).or_default().next = None;
                due.push(Arc::clone(known));
            }
        }
        due
    }

    /// Schedules a retry after a background connection failed or was lost.
    pub(super) fn schedule_retry(&self, server: &str, now: Instant) {
        let mut state = self.write();
        let attempts = state.attempts.entry(server.to_owned()).or_default();
        if attempts.next.is_some_and(|next| next > now) {
            return;
        }
        attempts.next = Some(now + BACKOFF.delay(attempts.retries));
        attempts.retries += 1;
    }

    /// Forgets the attempts to connect a server that has changed.
    pub(super) fn reset_attempts(&self, server: &str) {
        self.write().attempts.remove(server);
    }

    /// Stops retries: the server is connected, or the owner logged out.
    pub(super) fn stop_retrying(&self, server: &str) {
        self.write().attempts.insert(server.to_owned(), ConnectAttempt::default());
    }

    /// Records why single sign-on failed; `None` if it succeeded or no longer applies.
    pub(super) fn note_sso(&self, server: &str, error: Option<String>) {
        let errors = &mut self.write().sso_errors;
        match error {
            Some(error) => drop(errors.insert(server.to_owned(), error)),
            None => drop(errors.remove(server)),
        }
    }

    /// The lock for connecting a server.
    pub(super) fn connect_lock(&self, server: &str) -> Arc<Mutex<()>> {
        Arc::clone(self.write().connect_locks.entry(server.to_owned()).or_default())
    }

    /// Adds a connection.
    pub(super) fn begin(&self, link: OwnerConnection) {
        let name = link.server.name.clone();
        self.write().links.insert(name, link);
    }

    /// Whether the connection with this id is current.
    pub(super) fn has(&self, server: &str, id: UnitId) -> bool {
        self.read().links.get(server).is_some_and(|link| link.id == id)
    }

    /// Changes the connection with this id, and sends notifications about lists that changed.
    pub(super) fn change(
        &self,
        server: &str,
        id: UnitId,
        changes: &broadcast::Sender<Change>,
        change: impl FnOnce(&mut OwnerConnection),
    ) {
        let lists = {
            let mut state = self.write();
            let Some(link) = state.links.get_mut(server).filter(|link| link.id == id) else {
                return;
            };
            let before = link.counts();
            change(link);
            let lists = differing(before, link.counts());
            if !lists.is_empty() {
                state.version += 1;
                // Callers must never observe a stale snapshot.
                state.derived = None;
            }
            lists
        };
        self.tell(lists, changes);
    }

    /// Closes the connection to a server.
    pub(super) fn disconnect(&self, server: &str, changes: &broadcast::Sender<Change>) {
        let link = {
            let mut state = self.write();
            let link = state.links.remove(server);
            state.version += 1;
            state.derived = None;
            link
        };
        if let Some(link) = link {
            self.tell(differing(link.counts(), None), changes);
        }
    }

    /// The servers whose connection must be closed.
    pub(super) fn outdated_servers(&self, keep: impl Fn(&OwnerConnection) -> bool) -> Vec<String> {
        let state = self.read();
        state.links.iter().filter(|(_, link)| !keep(link)).map(|(name, _)| name.clone()).collect()
    }

    /// Renames tools to another prefix.
    pub(super) fn rename(&self, prefix: &str) {
        let mut state = self.write();
        for link in state.links.values_mut() {
            let OwnerConnection { server, offered: Some(offered), .. } = link else { continue };
            offered.source = server_offer::renamed(prefix, server, &offered.source);
        }
        state.version += 1;
        state.derived = None;
    }

    fn tell(&self, lists: Vec<Change>, changes: &broadcast::Sender<Change>) {
        for list in lists {
            // An error means that there is no listener.
            drop(changes.send(list.for_owner(self.owner.clone())));
        }
    }
}

impl OwnerState {
    /// The connections to overlay on the shared snapshot. Those to deleted servers are left out.
    fn overlay(
        &self,
        shared: &GatewaySnapshot,
    ) -> Vec<(BackendName, CatalogSource, Arc<dyn Backend>)> {
        let listed = |name: &BackendName| {
            shared.catalog.sources().any(|source| source.backend == *name)
                && !shared.backends.contains_key(name)
        };
        let offered = self.links.iter().filter_map(|(name, link)| {
            let ConnectedOffer { source, backend, .. } = link.offered.as_ref()?;
            Some((BackendName::new(name.as_str()), source.clone(), Arc::clone(backend)))
        });
        offered.filter(|(name, ..)| listed(name)).collect()
    }
}

impl OwnerConnection {
    fn counts(&self) -> Option<Counts> {
        self.offered.as_ref().map(|offered| counts(&offered.source))
    }
}

/// The shared snapshot with an owner's connections.
fn with(
    shared: &GatewaySnapshot,
    overlay: Vec<(BackendName, CatalogSource, Arc<dyn Backend>)>,
) -> GatewaySnapshot {
    let mut state = shared.clone();
    let mut sources = Vec::with_capacity(overlay.len());
    let mut absent = BTreeMap::clone(&shared.absent);
    for (name, source, backend) in overlay {
        absent.retain(|_, absent| absent.server != name);
        sources.push(source);
        state.backends.insert(name, backend);
    }
    state.absent = Arc::new(absent);
    state.catalog = state.catalog.with_all(sources);
    state
}

pub(super) fn counts(source: &CatalogSource) -> Counts {
    Counts {
        tools: source.own_tools().len(),
        resources: source.resources.len() + source.templates.len(),
        prompts: source.prompts.len(),
    }
}

/// The lists that changed. A list that was fetched again may differ even if its length does not.
fn differing(before: Option<Counts>, after: Option<Counts>) -> Vec<Change> {
    let (both, [before, after]) =
        (before.is_some() && after.is_some(), [before, after].map(Option::unwrap_or_default));
    let lists = [
        (before.tools, after.tools, Change::Tools),
        (before.resources, after.resources, Change::Resources),
        (before.prompts, after.prompts, Change::Prompts),
    ];
    let differs = |before: usize, after: usize| before != after || both && after > 0;
    let lists = lists.into_iter().filter(|(before, after, _)| differs(*before, *after));
    lists.map(|(_, _, list)| list).collect()
}
