//! The journal of events: the newest in memory, all of them in one file per day.
//!
//! Recording an event never blocks. Under overload events are logged instead of recorded.

mod disk;
mod follow;
mod query;
mod reason;

use muster_core::backend::boxed;
use std::{collections::VecDeque, path::Path, sync::Arc};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::sync::{broadcast, mpsc, oneshot};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::disk::Disk;
pub use self::{
    follow::Following,
    query::{Filter, TimeError, duration, parse_time},
    reason::{InvolvedKind, Reason},
};

/// The number of events kept in memory.
const KEPT: usize = 10_000;
/// The capacity of the queue of events to write.
const WAITING: usize = 4096;

/// The number of events that a slow follower may fall behind before it misses some.
const FOLLOWED: usize = 1024;

/// An event of a resource, which is also a line of the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// When it happened.
    #[serde(with = "rfc3339")]
    pub timestamp: Timestamp,
    /// The namespace of the resource.
    pub namespace: String,
    /// The resource.
    pub involved_object: InvolvedObject,
    /// The reason, as an identifier.
    pub reason: String,
    /// What happened, in a sentence.
    pub message: String,
    /// `Normal` or `Warning`.
    #[serde(rename = "type")]
    pub severity: String,
    /// Always `muster`.
    pub source: String,
}

impl Event {
    /// Whether every gateway of the same configuration records the event by itself. This is so for events of servers
    /// and definitions, but not for work that one gateway was asked to do.
    pub fn is_shared(&self) -> bool {
        Reason::ALL_SHARED.iter().any(|reason| reason.as_str() == self.reason)
            || self.involved_object.kind == InvolvedKind::McpServer.as_str()
    }
}

mod rfc3339 {
    use jiff::Timestamp;
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    pub(super) fn serialize<S: Serializer>(at: &Timestamp, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(at)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Timestamp, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

/// The resource of an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InvolvedObject {
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
}

/// Records and finds events. Clones share one journal.
#[derive(Debug, Clone)]
pub struct EventJournal {
    entries: mpsc::Sender<Entry>,
    published: broadcast::Sender<Arc<Event>>,
    /// Cancelled when followers must stop.
    ending: CancellationToken,
    tasks: TaskTracker,
}

/// The messages of the journal's task.
#[derive(Debug)]
enum Entry {
    Happened(Arc<Event>),
    Find(Filter, oneshot::Sender<Vec<Arc<Event>>>),
    Close,
}

impl EventJournal {
    /// Starts the journal in the folder `events` below `root`, with the events that are there.
    pub(crate) fn start(root: &Path, tasks: &TaskTracker) -> Self {
        let (entries, heard) = mpsc::channel(WAITING);
        tasks.spawn(boxed(keep(Disk::new(root), heard)));
        let (published, _) = broadcast::channel(FOLLOWED);
        Self { entries, published, ending: CancellationToken::new(), tasks: tasks.clone() }
    }

    /// Records an event.
    pub fn tell(&self, reason: Reason, name: &str, namespace: &str, detail: &str) {
        let event = Event {
            timestamp: Timestamp::now(),
            namespace: namespace.to_owned(),
            involved_object: InvolvedObject {
                kind: reason.kind().as_str().to_owned(),
                name: name.to_owned(),
                namespace: namespace.to_owned(),
            },
            reason: reason.as_str().to_owned(),
            message: reason.message(name, detail),
            severity: if reason.is_warning() { "Warning" } else { "Normal" }.to_owned(),
            source: "muster".to_owned(),
        };
        let event = Arc::new(event);
        // An error means that there is no follower.
        drop(self.published.send(Arc::clone(&event)));
        if let Err(mpsc::error::TrySendError::Full(Entry::Happened(event))) =
            self.entries.try_send(Entry::Happened(event))
        {
            tracing::warn!("event not recorded: {} {}", event.reason, event.involved_object.name);
        }
    }

    /// Subscribes to new events.
    pub fn follow(&self) -> Following {
        Following { events: self.published.subscribe(), ending: self.ending.clone() }
    }

    /// Runs a follower in the background.
    pub(crate) fn spawn(&self, follower: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(boxed(follower));
    }

    /// Ends all followers, which would delay the shutdown.
    pub(crate) fn end_following(&self) {
        self.ending.cancel();
    }

    /// Writes the events in the queue, and accepts no more.
    pub(crate) async fn close(&self) {
        drop(self.entries.send(Entry::Close).await);
    }

    /// The events that match `filter`, newest first.
    pub async fn find(&self, filter: Filter) -> Vec<Arc<Event>> {
        let (answer, answered) = oneshot::channel();
        if self.entries.send(Entry::Find(filter, answer)).await.is_err() {
            return Vec::new();
        }
        answered.await.unwrap_or_default()
    }
}

/// Runs until the journal is closed or dropped, and writes every event before it ends.
async fn keep(disk: Disk, mut heard: mpsc::Receiver<Entry>) {
    let mut disk = disk;
    let (mut kept, mut unwritten): (VecDeque<Arc<Event>>, Vec<Arc<Event>>) = Default::default();
    (disk, kept) = disk.remembered(kept, KEPT).await;
    let mut entries = Vec::new();
    let mut closed = false;
    while !closed && heard.recv_many(&mut entries, WAITING).await > 0 {
        for entry in entries.drain(..) {
            match entry {
                Entry::Happened(event) => {
                    unwritten.push(Arc::clone(&event));
                    if kept.len() == KEPT {
                        kept.pop_front();
                    }
                    kept.push_back(event);
                }
                Entry::Find(filter, answer) => {
                    let found = kept.iter().rev().filter(|event| filter.takes(event));
                    let most = filter.limit.unwrap_or(usize::MAX);
                    // The receiver may be gone.
                    drop(answer.send(found.take(most).cloned().collect()));
                }
                Entry::Close => closed = true,
            }
        }
        if !unwritten.is_empty() {
            disk = disk.append(std::mem::take(&mut unwritten)).await;
        }
    }
}

#[cfg(test)]
mod tests;
