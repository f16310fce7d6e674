//! What happened, for people to look at: the newest in memory, all of them in a file per day.
//!
//! Events are told and forgotten: whoever tells one never waits, and what cannot be taken down
//! because too much happens at once is only logged.

mod disk;
mod follow;
mod query;
mod reason;

use std::{collections::VecDeque, path::Path, sync::Arc};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::sync::{broadcast, mpsc, oneshot};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::disk::Disk;
pub(crate) use self::follow::Following;
pub use self::{
    query::{Filter, TimeError, duration, parse_time},
    reason::{Kind, Reason},
};

/// How many of the newest are kept in memory.
const KEPT: usize = 10_000;
/// How many may wait to be taken down.
const WAITING: usize = 4096;

/// How many a slow follower may fall behind before it misses some.
const FOLLOWED: usize = 1024;

/// Something that happened to a resource. This is also a line of the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// When.
    #[serde(with = "rfc3339")]
    pub timestamp: Timestamp,
    /// Where the resource belongs.
    pub namespace: String,
    /// The resource.
    pub involved_object: Object,
    /// What happened, in one word.
    pub reason: String,
    /// What happened, in a sentence.
    pub message: String,
    /// `Normal` or `Warning`.
    #[serde(rename = "type")]
    pub severity: String,
    /// Always `muster`.
    pub source: String,
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
pub struct Object {
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Where it belongs.
    pub namespace: String,
}

/// Takes events down and finds them again. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Journal {
    entries: mpsc::Sender<Entry>,
    told: broadcast::Sender<Arc<Event>>,
    /// Nobody is to wait for more.
    ending: CancellationToken,
}

/// Everything the journal's task may be asked.
#[derive(Debug)]
enum Entry {
    Happened(Arc<Event>),
    Find(Filter, oneshot::Sender<Vec<Arc<Event>>>),
    Close,
}

impl Journal {
    /// Starts taking down, in the folder `events` below `root`, and remembers what stands there.
    pub(crate) fn start(root: &Path, tasks: &TaskTracker) -> Self {
        let (entries, heard) = mpsc::channel(WAITING);
        tasks.spawn(keep(Disk::new(root), heard));
        let (told, _) = broadcast::channel(FOLLOWED);
        Self { entries, told, ending: CancellationToken::new() }
    }

    /// Takes down what happened.
    pub fn tell(&self, reason: Reason, name: &str, namespace: &str, detail: &str) {
        let event = Event {
            timestamp: Timestamp::now(),
            namespace: namespace.to_owned(),
            involved_object: Object {
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
        // Nobody may be following.
        drop(self.told.send(Arc::clone(&event)));
        if let Err(mpsc::error::TrySendError::Full(Entry::Happened(event))) =
            self.entries.try_send(Entry::Happened(event))
        {
            tracing::warn!("event not taken down: {} {}", event.reason, event.involved_object.name);
        }
    }

    /// What happens from now on, as it happens.
    pub(crate) fn follow(&self) -> Following {
        Following { events: self.told.subscribe(), ending: self.ending.clone() }
    }

    /// Lets go of those who follow: they would hold up the end.
    pub(crate) fn end_following(&self) {
        self.ending.cancel();
    }

    /// Takes down what waits and nothing after it.
    pub(crate) async fn close(&self) {
        drop(self.entries.send(Entry::Close).await);
    }

    /// What happened that `filter` lets through, newest first.
    pub async fn find(&self, filter: Filter) -> Vec<Arc<Event>> {
        let (answer, answered) = oneshot::channel();
        if self.entries.send(Entry::Find(filter, answer)).await.is_err() {
            return Vec::new();
        }
        answered.await.unwrap_or_default()
    }
}

/// Ends when it is closed or the last journal is gone, with everything on the disk.
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
                    // Who asked may be gone.
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
