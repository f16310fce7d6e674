//! Executions that another replica continues when theirs dies.
//!
//! The journal of an execution is also a log of the shared state, written by the replica that runs it. When that replica is
//! dead, one other takes the execution over: it claims the succession, and appends to the log. A replica that only seemed
//! dead finds that its next position is taken, and stops before the next step.
//!
//! **Guarantee:** an execution has one successor for each dead replica; a step that may have begun is not repeated unless it
//! is idempotent.

use std::{sync::Arc, time::Duration};

use muster_core::{
    lock::Lock,
    shared::{LogLimits, ReplicaLink, StoreError},
};
use muster_workflow::record::{JournalEntry, RunRecord};
use tokio_util::sync::CancellationToken;

/// The executions that are not finished, each as `ID/REPLICA`.
const RUNS: &str = "runs";
/// How long an execution may last, and the bound of its journal.
const LIMITS: LogLimits = LogLimits { length: 10_000, ttl: Duration::from_secs(24 * 3600) };
/// How long the journal of an execution that ended is known.
const CLOSED: LogLimits = LogLimits { length: 1, ttl: Duration::from_secs(3600) };
/// How long the record of an execution can be read at every replica.
const RECORD_TTL: Duration = Duration::from_secs(24 * 3600);
/// How long a replica may take to take an execution over.
const SUCCESSION: Duration = Duration::from_secs(30);

/// The executions of all replicas.
#[derive(Debug)]
pub(super) struct SharedRuns {
    link: Arc<dyn ReplicaLink>,
}

/// The shared journal of an execution that runs here.
#[derive(Debug)]
pub(super) struct SharedJournal {
    link: Arc<dyn ReplicaLink>,
    id: String,
    position: Lock<u64>,
    /// Cancelled when the execution is not ours any more.
    pub(super) lost: CancellationToken,
}

/// An execution of another replica.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OthersRun {
    pub(super) id: String,
    replica: String,
}

/// An execution of a dead replica.
#[derive(Debug)]
pub(super) struct Inherited {
    pub(super) id: String,
    /// Its journal, line by line.
    pub(super) lines: Vec<u8>,
    pub(super) journal: SharedJournal,
}

impl SharedRuns {
    pub(super) fn new(link: Arc<dyn ReplicaLink>) -> Self {
        Self { link }
    }

    /// Opens the journal of a new execution.
    pub(super) async fn open(
        &self,
        id: &str,
        line: &JournalEntry,
    ) -> Result<SharedJournal, StoreError> {
        let journal = self.journal(id, 0);
        let state = self.link.state();
        // The log of a long execution drops its first lines.
        let start = serde_json::to_vec(line).unwrap_or_default();
        state.put(&start_key(id), start, LIMITS.ttl).await?;
        state.join(RUNS, &member(id, self.link.id()), LIMITS.ttl).await?;
        journal.append(line).await.then_some(journal).ok_or_else(|| {
            StoreError::Unavailable("the journal of the run cannot be written".to_owned())
        })
    }

    fn journal(&self, id: &str, position: u64) -> SharedJournal {
        SharedJournal {
            link: Arc::clone(&self.link),
            id: id.to_owned(),
            position: Lock::new(position),
            lost: CancellationToken::new(),
        }
    }

    /// Stores the record of an execution, for those who ask another replica.
    pub(super) async fn store(&self, record: &RunRecord) {
        let encoded = serde_json::to_vec(&record.clone().bounded()).unwrap_or_default();
        let key = record_key(&record.execution_id);
        if let Err(error) = self.link.state().put(&key, encoded, RECORD_TTL).await {
            tracing::debug!("the record of a run is at this replica only: {error}");
        }
    }

    /// The record of an execution of any replica.
    pub(super) async fn record(&self, id: &str) -> Option<RunRecord> {
        let stored = self.link.state().get(&record_key(id)).await;
        let stored = stored.inspect_err(|error| tracing::debug!("run {id}: {error}")).ok()??;
        serde_json::from_slice(&stored).ok()
    }

    /// The executions of other replicas.
    pub(super) async fn of_others(&self) -> Result<Vec<OthersRun>, StoreError> {
        let runs = self.link.state().members(RUNS).await?;
        let others = runs.iter().filter_map(|run| {
            let (id, replica) = run.split_once('/')?;
            (replica != self.link.id())
                .then(|| OthersRun { id: id.to_owned(), replica: replica.to_owned() })
        });
        Ok(others.collect())
    }

    /// Takes an execution over if its replica is dead.
    ///
    /// **Guarantee:** an error means that it was not taken over. From then on it must be continued or closed: while this
    /// replica is alive, no other one looks for it.
    pub(super) async fn inherit(&self, run: &OthersRun) -> Result<Option<Inherited>, StoreError> {
        let OthersRun { id, replica: dead } = run;
        if self.link.is_alive(dead).await? {
            return Ok(None);
        }
        let (state, own) = (self.link.state(), self.link.id());
        // One replica at a time; what decides is the log.
        let succession = format!("run-successor:{id}");
        if !state.claim(&succession, own.as_bytes().to_vec(), SUCCESSION).await? {
            return Ok(None);
        }
        let entries = state.entries(&log(id), 0).await?;
        let start = state.get(&start_key(id)).await?;
        let last = entries.last().map_or(0, |(position, _)| *position);
        let journal = self.journal(id, last);
        if !journal.append_text(format!("taken over by {own}").into_bytes(), LIMITS).await {
            // It was not dead, or another replica was faster.
            return Ok(None);
        }
        let named = match state.join(RUNS, &member(id, own), LIMITS.ttl).await {
            Ok(()) => state.leave(RUNS, &member(id, dead)).await,
            Err(error) => Err(error),
        };
        if let Err(error) = named {
            tracing::warn!("run {id} may be taken over once more: {error}");
        }
        let lines = entries.into_iter().map(|(_, line)| line).filter(|line| line.starts_with(b"{"));
        let lines: Vec<Vec<u8>> = lines.collect();
        // The start may be the first line of the log as well.
        let start = start.filter(|start| lines.first() != Some(start));
        let lines = start.into_iter().chain(lines);
        let lines = lines.flat_map(|line| [line, b"\n".to_vec()].concat()).collect();
        Ok(Some(Inherited { id: id.clone(), lines, journal }))
    }
}

impl SharedJournal {
    /// Appends a line; `false` if the execution is not ours any more, or that cannot be known.
    pub(super) async fn append(&self, line: &JournalEntry) -> bool {
        match serde_json::to_vec(line) {
            Ok(line) => self.append_text(line, LIMITS).await,
            Err(_) => false,
        }
    }

    async fn append_text(&self, line: Vec<u8>, limits: LogLimits) -> bool {
        let position = {
            let mut position = self.position.lock();
            *position += 1;
            *position
        };
        let appended = self.link.state().append(&log(&self.id), position, line, limits).await;
        let is_appended = appended.unwrap_or_else(|error| {
            tracing::warn!("run {} stops: {error}", self.id);
            false
        });
        if !is_appended {
            self.lost.cancel();
        }
        is_appended
    }

    /// Closes the journal of an execution that ended. Its position stays, for a replica that only seemed dead.
    pub(super) async fn close(&self) {
        if self.append_text(b"closed".to_vec(), CLOSED).await {
            let run = member(&self.id, self.link.id());
            if let Err(error) = self.link.state().leave(RUNS, &run).await {
                tracing::warn!("run {} is closed again by another replica: {error}", self.id);
            }
        }
    }
}

fn log(id: &str) -> String {
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
