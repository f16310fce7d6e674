//! What one owner has.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak},
    time::Duration,
};

use jiff::Timestamp;
use muster_config::mcpserver::McpServer;
use muster_core::{
    backend::Backend, call::Owner, catalog::CatalogSource, name::BackendName, request::Change,
};
use muster_gateway::dispatch::GatewaySnapshot;
use tokio::{
    sync::{Mutex, broadcast, watch},
    time::Instant,
};

use crate::{
    offer,
    status::ServerStatus,
    supervisor::{DesiredState, UnitId},
    view::{Counts, Known},
};

/// How often someone may try to log in within [`WINDOW`].
const TRIES: usize = 10;
const WINDOW: Duration = Duration::from_secs(60);

/// What did not work without the owner's doing is tried again after this time, which doubles.
const FIRST_WAIT: Duration = Duration::from_secs(5 * 60);
const LONGEST_WAIT: Duration = Duration::from_secs(30 * 60);

/// What one owner has.
#[derive(Debug)]
pub(crate) struct Own {
    pub(super) owner: Owner,
    inside: RwLock<Inside>,
}

#[derive(Debug)]
struct Inside {
    /// Counts what happens to `links`.
    version: u64,
    links: BTreeMap<String, Link>,
    /// Held by whoever connects a server, so that one attempt does it for all.
    turns: BTreeMap<String, Arc<Mutex<()>>>,
    /// What was last made for a shared state.
    derived: Option<(Weak<GatewaySnapshot>, u64, Arc<GatewaySnapshot>)>,
    used: Instant,
    tries: VecDeque<Instant>,
    /// The login to the gateway that servers were last connected for.
    login: Option<(Arc<str>, bool)>,
    /// The servers that were tried to be connected for that login.
    tried: BTreeMap<String, Tried>,
    /// Servers for which the login to the gateway was tried in vain.
    in_vain: BTreeMap<String, bool>,
}

/// A try to connect a server without the owner's doing.
#[derive(Debug, Default)]
struct Tried {
    /// When the next one is due, if there is to be one.
    next: Option<Instant>,
    /// How long that one waits.
    wait: Duration,
}

/// A server that is connected for the owner, or about to be. Dropping it ends the connection.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) id: UnitId,
    pub(super) server: Arc<McpServer>,
    /// The generation of the shared unit that this connection belongs to.
    pub(super) generation: u64,
    pub(super) desired: watch::Sender<DesiredState>,
    pub(super) status: watch::Sender<ServerStatus>,
    pub(super) offered: Option<Offered>,
}

/// What a connected server has on offer.
#[derive(Debug)]
pub(super) struct Offered {
    pub(super) source: CatalogSource,
    pub(super) backend: Arc<dyn Backend>,
    pub(super) since: Timestamp,
}

/// How a server stands for an owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It has nothing to do with it.
    None,
    /// The login to the gateway was tried and did not do.
    InVain,
    /// It is being connected.
    Connecting,
    /// It is connected.
    Connected {
        /// What it offers.
        counts: Counts,
        /// Since when.
        since: Timestamp,
    },
}

impl Own {
    pub(super) fn new(owner: Owner) -> Self {
        let inside = Inside {
            version: 0,
            links: BTreeMap::new(),
            turns: BTreeMap::new(),
            derived: None,
            used: Instant::now(),
            tries: VecDeque::new(),
            login: None,
            tried: BTreeMap::new(),
            in_vain: BTreeMap::new(),
        };
        Self { owner, inside: RwLock::new(inside) }
    }

    fn read(&self) -> RwLockReadGuard<'_, Inside> {
        self.inside.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Inside> {
        self.inside.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// What there is for the owner, given what there is for everybody.
    pub(super) fn state(&self, shared: Arc<GatewaySnapshot>) -> Arc<GatewaySnapshot> {
        let (version, overlay) = {
            let mut inside = self.write();
            inside.used = Instant::now();
            if let Some((of, version, derived)) = &inside.derived
                && std::ptr::eq(of.as_ptr(), Arc::as_ptr(&shared))
                && *version == inside.version
            {
                return Arc::clone(derived);
            }
            (inside.version, inside.overlay(&shared))
        };
        if overlay.is_empty() {
            return shared;
        }
        let derived = Arc::new(with(&shared, overlay));
        self.write().derived = Some((Arc::downgrade(&shared), version, Arc::clone(&derived)));
        derived
    }

    pub(super) fn standing(&self, server: &str) -> Standing {
        let inside = self.read();
        match inside.links.get(server) {
            Some(Link { offered: Some(offered), .. }) => {
                Standing::Connected { counts: counts(&offered.source), since: offered.since }
            }
            Some(_) => Standing::Connecting,
            None if inside.in_vain.get(server) == Some(&true) => Standing::InVain,
            None => Standing::None,
        }
    }

    /// Since when nobody asked for anything.
    pub(super) fn used(&self) -> Instant {
        self.read().used
    }

    /// Counts a try to log in; after how many seconds the next one is allowed, if this one is not.
    pub(super) fn may_try(&self, now: Instant) -> Result<(), u64> {
        let mut inside = self.write();
        inside.used = now;
        while inside.tries.front().is_some_and(|first| now.duration_since(*first) >= WINDOW) {
            inside.tries.pop_front();
        }
        match inside.tries.front() {
            Some(first) if inside.tries.len() >= TRIES => {
                Err((WINDOW - now.duration_since(*first)).as_secs().max(1))
            }
            Some(_) | None => {
                inside.tries.push_back(now);
                Ok(())
            }
        }
    }

    /// Which of these servers are to be connected now for the owner's login to the gateway: after a new
    /// login all, then those that were not there before, or did not work a while ago.
    pub(super) fn due<'a>(
        &self,
        login: (Arc<str>, bool),
        servers: impl Iterator<Item = &'a Arc<Known>>,
        now: Instant,
    ) -> Vec<Arc<Known>> {
        let inside = &mut *self.write();
        inside.used = now;
        if inside.login.as_ref() != Some(&login) {
            inside.login = Some(login);
            inside.tried.clear();
        }
        let mut due = Vec::new();
        for known in servers {
            let name = &known.server.name;
            let is_due = match inside.tried.get(name) {
                None => true,
                Some(tried) => tried.next.is_some_and(|next| next <= now),
            };
            if is_due && !inside.links.contains_key(name) {
                inside.tried.entry(name.clone()).or_default().next = None;
                due.push(Arc::clone(known));
            }
        }
        due
    }

    /// A server could not be connected, or was lost, without the owner's doing.
    pub(super) fn try_later(&self, server: &str, now: Instant) {
        let mut inside = self.write();
        let tried = inside.tried.entry(server.to_owned()).or_default();
        if tried.next.is_some_and(|next| next > now) {
            return;
        }
        tried.wait = (tried.wait * 2).clamp(FIRST_WAIT, LONGEST_WAIT);
        tried.next = Some(now + tried.wait);
    }

    /// A server is another one than it was.
    pub(super) fn try_anew(&self, server: &str) {
        self.write().tried.remove(server);
    }

    /// A server is not to be tried any more: it is connected, or the owner does not want it.
    pub(super) fn no_more_tries(&self, server: &str) {
        self.write().tried.insert(server.to_owned(), Tried::default());
    }

    pub(super) fn note_silent(&self, server: &str, in_vain: bool) {
        self.write().in_vain.insert(server.to_owned(), in_vain);
    }

    /// Taken by whoever connects a server.
    pub(super) fn turn(&self, server: &str) -> Arc<Mutex<()>> {
        Arc::clone(self.write().turns.entry(server.to_owned()).or_default())
    }

    /// Begins to have a server.
    pub(super) fn begin(&self, link: Link) {
        let name = link.server.name.clone();
        self.write().links.insert(name, link);
    }

    /// Whether the link of that number is there.
    pub(super) fn has(&self, server: &str, id: UnitId) -> bool {
        self.read().links.get(server).is_some_and(|link| link.id == id)
    }

    /// Changes a link if it is the one of that number. What lists have changed is told.
    pub(super) fn change(
        &self,
        server: &str,
        id: UnitId,
        changes: &broadcast::Sender<Change>,
        change: impl FnOnce(&mut Link),
    ) {
        let lists = {
            let mut inside = self.write();
            let Some(link) = inside.links.get_mut(server).filter(|link| link.id == id) else {
                return;
            };
            let before = link.counts();
            change(link);
            let lists = differing(before, link.counts());
            if !lists.is_empty() {
                inside.version += 1;
                // Nobody may have a state of the past.
                inside.derived = None;
            }
            lists
        };
        self.tell(lists, changes);
    }

    /// Ends what the owner has of a server.
    pub(super) fn let_go(&self, server: &str, changes: &broadcast::Sender<Change>) {
        let link = {
            let mut inside = self.write();
            let link = inside.links.remove(server);
            inside.version += 1;
            inside.derived = None;
            link
        };
        if let Some(link) = link {
            self.tell(differing(link.counts(), None), changes);
        }
    }

    /// The servers that are not to be had any more, or are called otherwise now.
    pub(super) fn revise(&self, keep: impl Fn(&Link) -> bool) -> Vec<String> {
        let inside = self.read();
        inside.links.iter().filter(|(_, link)| !keep(link)).map(|(name, _)| name.clone()).collect()
    }

    /// Gives what the owner has the names that it has under another prefix.
    pub(super) fn rename(&self, prefix: &str) {
        let mut inside = self.write();
        for link in inside.links.values_mut() {
            let Link { server, offered: Some(offered), .. } = link else { continue };
            offered.source = offer::renamed(prefix, server, &offered.source);
        }
        inside.version += 1;
        inside.derived = None;
    }

    fn tell(&self, lists: Vec<Change>, changes: &broadcast::Sender<Change>) {
        for list in lists {
            // Nobody may be listening.
            drop(changes.send(list.for_owner(self.owner.clone())));
        }
    }
}

impl Inside {
    /// What is the owner's of what everybody may log in to. A server that is gone is gone for all.
    fn overlay(
        &self,
        shared: &GatewaySnapshot,
    ) -> Vec<(BackendName, CatalogSource, Arc<dyn Backend>)> {
        let listed = |name: &BackendName| {
            shared.catalog.sources().any(|source| source.backend == *name)
                && !shared.backends.contains_key(name)
        };
        let offered = self.links.iter().filter_map(|(name, link)| {
            let Offered { source, backend, .. } = link.offered.as_ref()?;
            Some((BackendName::new(name.as_str()), source.clone(), Arc::clone(backend)))
        });
        offered.filter(|(name, ..)| listed(name)).collect()
    }
}

impl Link {
    fn counts(&self) -> Option<Counts> {
        self.offered.as_ref().map(|offered| counts(&offered.source))
    }
}

/// A state with what is someone's own.
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
        tools: source.entries().len(),
        resources: source.resources.len() + source.templates.len(),
        prompts: source.prompts.len(),
    }
}

/// The lists that a client has to ask for anew. What is relisted may differ though the numbers do not.
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
