//! Failover of executions: when a replica dies, another continues its executions.
//!
//! The journal of an execution is also a log in the shared state, written by the replica that runs it. When that
//! replica is dead, one other takes over the execution: it claims the succession, and appends to the log. A replica
//! that only seemed dead finds its next position in the log taken, and stops before the next step.
//!
//! **Guarantee:** an execution has one successor for each dead replica, and none once it has ended; a step that may have
//! begun is not repeated unless it is idempotent.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use muster_core::{
    lock::Lock,
    shared::{LogLimits, ReplicaLink, StoreError},
};
use muster_workflow::record::{JournalEntry, RunJournal, RunRecord, RunState};
use tokio_util::sync::CancellationToken;

/// The executions that are not finished, each as `ID/REPLICA`.
const RUNS: &str = "runs";
/// The limits of a journal: its length, with two lines for each step of each item of a loop, and how long an execution
/// may last.
const LIMITS: LogLimits = LogLimits { length: 100_000, ttl: Duration::from_secs(24 * 3600) };
/// The maximum number of lines that one request reads.
const PAGE: usize = 10_000;
/// The limits of the journal of an execution that ended.
const CLOSED: LogLimits = LogLimits { length: 1, ttl: Duration::from_secs(3600) };
/// How long the record of an execution can be read at every replica.
const RECORD_TTL: Duration = Duration::from_secs(24 * 3600);
/// How long a replica may take to take an execution over.
const SUCCESSION: Duration = Duration::from_secs(30);
/// The start of the line of a replica that takes over an execution; its id follows.
const TAKEN_OVER: &str = "taken over by ";
/// The start of the line of a replica that closes an execution; its id follows. It is the last line.
const CLOSED_BY: &str = "closed by ";

/// The executions of all replicas.
#[derive(Debug)]
pub(super) struct SharedRuns {
    link: Arc<dyn ReplicaLink>,
    /// The executions whose journals are written here.
    held: Arc<Lock<BTreeSet<String>>>,
}

/// The shared journal of an execution that runs here.
#[derive(Debug)]
pub(super) struct SharedJournal {
    link: Arc<dyn ReplicaLink>,
    held: Arc<Lock<BTreeSet<String>>>,
    id: String,
    /// The last position; `None` if it is not known whether the last line was appended.
    position: Lock<Option<u64>>,
    /// Cancelled when this replica no longer owns the execution.
    pub(super) lost: CancellationToken,
}

/// An execution of a dead replica.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Orphan {
    pub(super) id: String,
    replica: String,
}

/// An execution that was taken over.
#[derive(Debug)]
pub(super) struct Inherited {
    pub(super) id: String,
    /// Its journal, line by line.
    pub(super) lines: Vec<u8>,
    pub(super) journal: Arc<SharedJournal>,
}

/// How an execution ends.
#[derive(Debug)]
pub(super) enum Ending {
    /// It did not start.
    Discarded,
    /// It stopped; its record follows from its journal.
    Interrupted,
    /// It ended with this record.
    Ended(Box<RunRecord>),
}

/// What has become of an execution that this replica ran.
#[derive(Debug, PartialEq)]
pub(super) enum Settled {
    /// Another replica has it.
    TakenOver,
    /// It is closed, with this record.
    Closed(Option<Box<RunRecord>>),
}

impl SharedRuns {
    pub(super) fn new(link: Arc<dyn ReplicaLink>) -> Self {
        Self { link, held: Arc::default() }
    }

    /// Opens the journal of a new execution. After an error it may exist: see [`settle`](Self::settle).
    pub(super) async fn open(
        &self,
        id: &str,
        line: &JournalEntry,
    ) -> Result<Arc<SharedJournal>, StoreError> {
        let journal = self.journal(id, 0);
        let state = self.link.state();
        // Store the first line apart, because the log of a long execution drops its first lines.
        let start = serde_json::to_vec(line).unwrap_or_default();
        state.put(&start_key(id), start, LIMITS.ttl).await?;
        state.join(RUNS, &member(id, self.link.id()), LIMITS.ttl).await?;
        journal.append(line).await.then_some(journal).ok_or_else(|| {
            StoreError::Unavailable("the journal of the run cannot be written".to_owned())
        })
    }

    fn journal(&self, id: &str, position: u64) -> Arc<SharedJournal> {
        self.held.lock().insert(id.to_owned());
        Arc::new(SharedJournal {
            link: Arc::clone(&self.link),
            held: Arc::clone(&self.held),
            id: id.to_owned(),
            position: Lock::new(Some(position)),
            lost: CancellationToken::new(),
        })
    }

    /// Stores the record of an execution, so that other replicas can read it.
    pub(super) async fn store(&self, record: &RunRecord) {
        if let Err(error) = store(&*self.link, record).await {
            tracing::debug!("the record of a run is at this replica only: {error}");
        }
    }

    /// The record of an execution of any replica.
    pub(super) async fn record(&self, id: &str) -> Option<RunRecord> {
        let stored = self.link.state().get(&record_key(id)).await;
        let stored = stored.inspect_err(|error| tracing::debug!("run {id}: {error}")).ok()??;
        serde_json::from_slice(&stored).ok()
    }

    /// The executions of dead replicas.
    pub(super) async fn orphans(&self) -> Result<Vec<Orphan>, StoreError> {
        let runs = self.link.state().members(RUNS).await?;
        let mut by_replica: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (id, replica) in runs.iter().filter_map(|run| run.split_once('/')) {
            by_replica.entry(replica).or_default().push(id);
        }
        by_replica.remove(self.link.id());
        let mut orphans = Vec::new();
        for (replica, ids) in by_replica {
            match self.link.is_alive(replica).await {
                Ok(true) => (),
                Ok(false) => orphans.extend(
                    ids.iter().map(|&id| Orphan { id: id.to_owned(), replica: replica.to_owned() }),
                ),
                Err(error) => tracing::debug!("replica {replica} may be alive: {error}"),
            }
        }
        Ok(orphans)
    }

    /// Takes over an execution of a dead replica.
    ///
    /// **Guarantee:** an error means that it was not taken over. Once taken over, it must be continued or closed: while
    /// this replica is alive, no other looks for it.
    pub(super) async fn inherit(&self, run: &Orphan) -> Result<Option<Inherited>, StoreError> {
        let Orphan { id, replica: dead } = run;
        let (state, own) = (self.link.state(), self.link.id());
        // One replica at a time; the log decides in the end.
        let succession = format!("run-successor:{id}");
        if !state.claim(&succession, own.as_bytes().to_vec(), SUCCESSION).await? {
            return Ok(None);
        }
        let log = self.read(id).await?;
        if log.is_empty() || log.closed_by().is_some() {
            // An empty log means that nothing ran. Take its position, in case the replica only seemed dead.
            if !log.is_empty() || self.close_at(id, 1).await? {
                self.bury(id, dead).await?;
            }
            return Ok(None);
        }
        if let Some(owner) = log.owner().filter(|owner| *owner != dead)
            && (owner != own || self.held.lock().contains(id))
        {
            // It was taken over before, by a replica that could not update the list.
            state.join(RUNS, &member(id, owner), LIMITS.ttl).await?;
            state.leave(RUNS, &member(id, dead)).await?;
            return Ok(None);
        }
        let start = state.get(&start_key(id)).await?;
        let journal = self.journal(id, log.last());
        if !journal.append_text(format!("{TAKEN_OVER}{own}").into_bytes(), LIMITS).await {
            // The replica was not dead, or another one was faster.
            return Ok(None);
        }
        let named = match state.join(RUNS, &member(id, own), LIMITS.ttl).await {
            Ok(()) => state.leave(RUNS, &member(id, dead)).await,
            Err(error) => Err(error),
        };
        if let Err(error) = named {
            tracing::warn!("run {id} is still listed with a dead replica: {error}");
        }
        Ok(Some(Inherited { id: id.clone(), lines: log.lines(start.as_deref()), journal }))
    }

    /// Removes the remains of an execution that a dead replica closed, or never began.
    async fn bury(&self, id: &str, dead: &str) -> Result<(), StoreError> {
        let (state, key) = (self.link.state(), record_key(id));
        let known = state.get(&key).await?.unwrap_or_default();
        if let Ok(record) = serde_json::from_slice::<RunRecord>(&known)
            && record.status == RunState::Inprogress
        {
            let error = "interrupted: the gateway ended before it stored the result".to_owned();
            let record = RunRecord { status: RunState::Interrupted, error: Some(error), ..record };
            // A replica that only seemed dead may store the result meanwhile.
            state.swap(&key, &known, encoded(&record), RECORD_TTL).await?;
        }
        state.remove(&start_key(id)).await?;
        state.leave(RUNS, &member(id, dead)).await
    }

    /// Closes an execution of this replica whose position in its journal is not known, because a line could not be
    /// appended. It can be repeated after an error.
    pub(super) async fn settle(
        &self,
        id: &str,
        ending: &mut Ending,
    ) -> Result<Settled, StoreError> {
        let own = self.link.id();
        loop {
            let log = self.read(id).await?;
            let is_closed = match log.closed_by().or_else(|| log.owner()) {
                Some(owner) if owner != own => return Ok(Settled::TakenOver),
                Some(_) | None => log.closed_by().is_some(),
            };
            if !is_closed && matches!(ending, Ending::Interrupted) {
                // Read the lines now, because closing drops them.
                let start = self.link.state().get(&start_key(id)).await?;
                let story =
                    RunJournal::read(&String::from_utf8_lossy(&log.lines(start.as_deref())));
                if let Some(opened) = &story.opened {
                    let record = opened.record.clone().interrupted(&story);
                    *ending = Ending::Ended(Box::new(record));
                }
            }
            if is_closed || self.close_at(id, log.last().saturating_add(1)).await? {
                let record = match ending {
                    Ending::Discarded | Ending::Interrupted => None,
                    Ending::Ended(record) => Some(record.clone()),
                };
                conclude(&*self.link, id, record.as_deref()).await?;
                return Ok(Settled::Closed(record));
            }
        }
    }

    async fn close_at(&self, id: &str, position: u64) -> Result<bool, StoreError> {
        let line = format!("{CLOSED_BY}{}", self.link.id()).into_bytes();
        self.link.state().append(&log_key(id), position, line, CLOSED).await
    }

    /// Reads the whole log of an execution, page by page.
    async fn read(&self, id: &str) -> Result<SharedLog, StoreError> {
        let mut log = SharedLog::default();
        loop {
            let page = self.link.state().entries(&log_key(id), log.last(), PAGE).await?;
            if page.is_empty() {
                return Ok(log);
            }
            log.entries.extend(page);
        }
    }
}

/// The log of an execution: the lines of its journal, and the takeovers by replicas.
#[derive(Debug, Default)]
struct SharedLog {
    entries: Vec<(u64, Vec<u8>)>,
}

impl SharedLog {
    fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The last position.
    fn last(&self) -> u64 {
        self.entries.last().map_or(0, |(position, _)| *position)
    }

    /// The replica that closed the execution.
    fn closed_by(&self) -> Option<&str> {
        named(&self.entries.last()?.1, CLOSED_BY)
    }

    /// The last replica that took the execution over.
    fn owner(&self) -> Option<&str> {
        self.entries.iter().rev().find_map(|(_, line)| named(line, TAKEN_OVER))
    }

    /// The lines of the journal, preceded by its start, which the log may have dropped.
    fn lines(&self, start: Option<&[u8]>) -> Vec<u8> {
        let lines = self.entries.iter().map(|(_, line)| line.as_slice());
        let lines: Vec<&[u8]> = lines.filter(|line| line.starts_with(b"{")).collect();
        let start = start.filter(|start| lines.first() != Some(start));
        let lines = start.into_iter().chain(lines);
        lines.flat_map(|line| [line, b"\n".as_slice()].concat()).collect()
    }
}

/// The replica that a line names after the given words.
fn named<'a>(line: &'a [u8], words: &str) -> Option<&'a str> {
    std::str::from_utf8(line).ok()?.strip_prefix(words)
}

impl SharedJournal {
    /// Appends a line; `false` if this replica no longer owns the execution, or cannot know whether it does.
    pub(super) async fn append(&self, line: &JournalEntry) -> bool {
        match serde_json::to_vec(line) {
            Ok(line) => self.append_text(line, LIMITS).await,
            Err(_) => false,
        }
    }

    async fn append_text(&self, line: Vec<u8>, limits: LogLimits) -> bool {
        // If the last position is unknown, another replica may have taken it, and an append after it would wrongly
        // succeed.
        let Some(last) = self.position.lock().take() else { return false };
        let position = last.saturating_add(1);
        let appended = self.link.state().append(&log_key(&self.id), position, line, limits).await;
        let is_appended = appended.unwrap_or_else(|error| {
            tracing::warn!("run {} stops: {error}", self.id);
            false
        });
        match is_appended {
            true => *self.position.lock() = Some(position),
            false => self.lost.cancel(),
        }
        is_appended
    }

    /// Closes the journal of an execution that ended, and stores its record. `false` if that is not certain: see
    /// [`SharedRuns::settle`]. The last position stays taken, in case a replica only seemed dead.
    pub(super) async fn close(&self, record: &RunRecord) -> bool {
        let line = format!("{CLOSED_BY}{}", self.link.id()).into_bytes();
        self.append_text(line, CLOSED).await
            && conclude(&*self.link, &self.id, Some(record)).await.is_ok()
    }
}

impl Drop for SharedJournal {
    fn drop(&mut self) {
        self.held.lock().remove(&self.id);
    }
}

async fn store(link: &dyn ReplicaLink, record: &RunRecord) -> Result<(), StoreError> {
    link.state().put(&record_key(&record.execution_id), encoded(record), RECORD_TTL).await
}

/// A record encoded for the shared state.
fn encoded(record: &RunRecord) -> Vec<u8> {
    serde_json::to_vec(&record.clone().bounded()).unwrap_or_default()
}

/// Stores the record of an execution that this replica closed, and removes the execution from the list.
async fn conclude(
    link: &dyn ReplicaLink,
    id: &str,
    record: Option<&RunRecord>,
) -> Result<(), StoreError> {
    if let Some(record) = record {
        store(link, record).await?;
    }
    link.state().remove(&start_key(id)).await?;
    link.state().leave(RUNS, &member(id, link.id())).await
}

fn log_key(id: &str) -> String {
    format!("run:{id}")
}

fn start_key(id: &str) -> String {
    format!("run-start:{id}")
}

fn record_key(id: &str) -> String {
    format!("run-record:{id}")
}

fn member(id: &str, replica: &str) -> String {
    format!("{id}/{replica}")
}

#[cfg(test)]
mod tests;
