//! The servers behind the gateway: one task for each, told what is wanted, saying what is.
//!
//! A wish is a value that is replaced, never a queue: whoever wishes does not wait, and a unit that is
//! busy sees only the last one.

pub(crate) mod backoff;
pub(crate) mod ear;
pub(crate) mod unit;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use muster_config::mcpserver::McpServer;
use muster_core::{
    backend::{Backend, BoxFuture},
    connect::{Connect, Listing},
};
use tokio::sync::{mpsc, watch};
use tokio_util::task::TaskTracker;

use crate::{reconcile::Input, status::Report};

/// How long things take around servers.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// The pause after a first failure of the network; it doubles with each further one.
    pub initial_backoff: Duration,
    /// The pause after a server that was up is lost; it doubles with each further loss or failure.
    pub first_restart: Duration,
    /// No pause is longer.
    pub longest_backoff: Duration,
    /// A server that stays up so long has recovered.
    pub steady: Duration,
    /// Between the end and the new start of a server that is restarted.
    pub restart_pause: Duration,
    /// What a server says about its lists within this time is one change.
    pub relist: Duration,
    /// What happens to files within this time is one change.
    pub files: Duration,
    /// Files are read again after this time, whatever the watcher says.
    pub resync: Duration,
    /// How long a goodbye may take.
    pub goodbye: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            initial_backoff: Duration::from_secs(30),
            first_restart: Duration::from_secs(1),
            longest_backoff: Duration::from_secs(30 * 60),
            steady: Duration::from_secs(10),
            restart_pause: Duration::from_millis(200),
            relist: Duration::from_millis(150),
            files: Duration::from_millis(200),
            resync: Duration::from_secs(30),
            goodbye: Duration::from_secs(5),
        }
    }
}

/// What is wanted of a unit.
#[derive(Debug, Clone)]
pub(crate) struct Wish {
    pub(crate) server: Arc<McpServer>,
    pub(crate) running: bool,
    /// Which wish it is. The same number again changes only the words about a server.
    pub(crate) round: u64,
}

/// Hears what units say.
pub(crate) trait Hear: Send + Sync {
    /// A unit says something about its server.
    fn hear<'a>(&'a self, name: &'a str, id: UnitId, word: Word) -> BoxFuture<'a, ()>;
}

/// What units say goes to the reconciler; nobody hears it when the gateway is on its way out.
struct ToReconciler(mpsc::WeakSender<Input>);

impl Hear for ToReconciler {
    fn hear<'a>(&'a self, name: &'a str, id: UnitId, word: Word) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if let Some(words) = self.0.upgrade() {
                let name = name.to_owned();
                drop(words.send(Input::Unit { name, id, word: Box::new(word) }).await);
            }
        })
    }
}

/// What a unit says.
#[derive(Debug)]
pub(crate) enum Word {
    /// How it is doing; what it offers is as before.
    Doing(Report),
    /// It is up.
    Up(Report, Listing, Arc<dyn Backend>),
    /// It offers something else.
    Relisted(Listing),
    /// It offers nothing any more.
    Down(Report),
    /// A resource has changed: its own address of it.
    Updated(String),
}

/// Tells one unit from another that had the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UnitId(pub(crate) u64);

/// Starts units and passes wishes on.
#[derive(Debug)]
pub(crate) struct Supervisor {
    connect: Arc<dyn Connect>,
    timing: Timing,
    words: mpsc::WeakSender<Input>,
    tasks: TaskTracker,
    units: BTreeMap<String, Handle>,
    last_id: u64,
}

#[derive(Debug)]
struct Handle {
    id: UnitId,
    wish: watch::Sender<Wish>,
}

impl Supervisor {
    pub(crate) fn new(
        connect: Arc<dyn Connect>,
        timing: Timing,
        words: mpsc::WeakSender<Input>,
        tasks: TaskTracker,
    ) -> Self {
        Self { connect, timing, words, tasks, units: BTreeMap::new(), last_id: 0 }
    }

    /// Takes a server on; it does nothing until it is wanted to run.
    pub(crate) fn add(&mut self, server: &Arc<McpServer>) -> UnitId {
        self.last_id += 1;
        let id = UnitId(self.last_id);
        let wish = Wish { server: Arc::clone(server), running: false, round: 0 };
        let (wish, wishes) = watch::channel(wish);
        let unit = unit::Unit::new(
            id,
            unit::Means {
                connect: Arc::clone(&self.connect),
                timing: self.timing,
                words: Arc::new(ToReconciler(self.words.clone())),
            },
            wishes,
        );
        self.tasks.spawn(unit.run());
        self.units.insert(server.name.clone(), Handle { id, wish });
        id
    }

    /// Whether a word comes from the unit that has this name now.
    pub(crate) fn knows(&self, name: &str, id: UnitId) -> bool {
        self.units.get(name).is_some_and(|handle| handle.id == id)
    }

    /// Wishes a unit to run anew, or to stop. Gives the number of the wish.
    pub(crate) fn wish(&mut self, name: &str, running: bool) -> Option<u64> {
        let handle = self.units.get(name)?;
        handle.wish.send_modify(|wish| {
            wish.running = running;
            wish.round += 1;
        });
        Some(handle.wish.borrow().round)
    }

    /// Replaces what a unit knows about its server; for a new connection it takes a wish.
    pub(crate) fn configure(&mut self, server: &Arc<McpServer>) {
        if let Some(handle) = self.units.get(&server.name) {
            handle.wish.send_modify(|wish| wish.server = Arc::clone(server));
        }
    }

    /// Whether a unit is wanted to run.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.units.get(name).is_some_and(|handle| handle.wish.borrow().running)
    }

    /// Lets go of a unit, which says goodbye to its server and ends.
    pub(crate) fn remove(&mut self, name: &str) {
        self.units.remove(name);
    }

    /// Lets go of all.
    pub(crate) fn clear(&mut self) {
        self.units.clear();
    }
}
