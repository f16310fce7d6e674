//! A running execution: its journal, and its record once it ends.
//!
//! **Invariant:** a step is in the journal before it starts, and its outcome before the next one starts. A
//! cancelled execution gets a record that says so.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Write as _},
    sync::Arc,
};

use jiff::Timestamp;
use muster_core::{backend::boxed, call::Outcome};
use muster_workflow::{
    record::{JournalEntry, JournalTime, RunRecord, RunState, StepRecord},
    report::StepReport,
    run::JournalNote,
};
use serde_json::Value as Json;
use tokio::sync::Mutex;

use super::{
    executions::{Executions, Why},
    shared_runs::{Ending, SharedJournal},
};

/// A running execution.
#[derive(Debug)]
pub(crate) struct RunningExecution {
    executions: Arc<Executions>,
    record: Option<RunRecord>,
    id: String,
    began: JournalTime,
    journal: Arc<Mutex<Written>>,
    /// The shared journal, from which other replicas can continue the execution.
    shared: Option<Arc<SharedJournal>>,
}

/// The journal so far.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) file: File,
    /// When steps started and ended.
    pub(super) times: BTreeMap<String, (JournalTime, JournalTime)>,
    /// Whether a write failed; logged once.
    pub(super) failed: bool,
}

impl RunningExecution {
    pub(super) fn new(
        executions: Arc<Executions>,
        record: RunRecord,
        began: JournalTime,
        written: Written,
    ) -> Self {
        let id = record.execution_id.clone();
        let journal = Arc::new(Mutex::new(written));
        Self { executions, record: Some(record), id, began, journal, shared: None }
    }

    /// Adds the shared journal, from which other replicas can continue the execution.
    pub(super) fn shared_as(mut self, shared: Option<Arc<SharedJournal>>) -> Self {
        self.shared = shared;
        self
    }

    /// Waits until another replica has the execution, or may have it.
    pub(super) async fn lost(&self) {
        match &self.shared {
            Some(shared) => shared.lost.cancelled().await,
            None => std::future::pending().await,
        }
    }

    /// Leaves the execution to another replica, or closes it in the background if none has taken it over.
    pub(super) fn disown(mut self) -> Outcome {
        self.record = None;
        self.executions.settle(self.id.clone(), Ending::Interrupted, self.shared.take());
        let text = format!(
            "run {} stopped at this replica: the shared storage is not available, or another replica continues it",
            self.id
        );
        Outcome::failure(text)
    }

    /// Its id.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Whether its definition is only in its record.
    pub(super) fn is_unsaved(&self) -> bool {
        self.record.as_ref().is_some_and(|record| record.definition.is_some())
    }

    /// Appends a line to the journal.
    pub(super) async fn note(&self, note: JournalNote) {
        let at = now();
        let mut journal = Arc::clone(&self.journal).lock_owned().await;
        let line = match note {
            JournalNote::Begins { key, tool, .. } => {
                journal.times.insert(key.clone(), (at.clone(), at.clone()));
                JournalEntry::Begins { at, step: key, tool }
            }
            JournalNote::Ended { report, value } => {
                if let Some((_, ended)) = journal.times.get_mut(&report.key()) {
                    ended.clone_from(&at);
                }
                JournalEntry::Ended { at, report, value }
            }
        };
        if let Some(shared) = &self.shared
            && !shared.append(&line).await
        {
            // Go no further: another replica may own the execution by now.
            drop(journal);
            return std::future::pending().await;
        }
        let id = self.id.clone();
        let done = tokio::task::spawn_blocking(move || {
            let written = write(&mut journal.file, &line);
            if let Err(error) = written
                && !std::mem::replace(&mut journal.failed, true)
            {
                tracing::warn!("the journal of run {id} is not complete: {error}");
            }
        });
        drop(done.await);
    }

    /// How long it has been running, in milliseconds.
    pub(super) fn elapsed_ms(&self) -> u64 {
        now().since(&self.began)
    }

    /// Writes the record of an execution that ended.
    pub(super) async fn end(mut self, reports: &[StepReport], result: Json, error: Option<String>) {
        let ended = now();
        let steps = {
            let journal = self.journal.lock().await;
            let all = reports.iter();
            all.map(|report| step(report, &journal.times, &self.began, &ended)).collect()
        };
        let Some(record) = self.record.take() else { return };
        let record = RunRecord {
            status: if error.is_some() { RunState::Failed } else { RunState::Completed },
            completed_at: Some(ended.text.clone()),
            duration_ms: ended.since(&self.began),
            result,
            error,
            steps,
            ..record
        };
        // Spawned, so that it is not cancelled with the request: while this replica is alive, no other looks for the
        // shared journal.
        let (executions, id) = (Arc::clone(&self.executions), self.id.clone());
        let shared = self.shared.take();
        let ending = self.executions.tasks.spawn(boxed(async move {
            let ending = shared.is_some().then(|| Ending::Ended(Box::new(record.clone())));
            executions.finish(record).await;
            if let (Some(shared), Some(ending)) = (&shared, ending) {
                executions.close_as(&id, shared, ending).await;
            }
        }));
        drop(ending.await);
    }
}

/// An execution that is dropped before its end is abandoned. One that ended has its record already.
impl Drop for RunningExecution {
    fn drop(&mut self) {
        if self.record.take().is_some() {
            self.executions.abandon(self.id.clone(), Why::Cancelled, self.shared.take());
        }
    }
}

fn step(
    report: &StepReport,
    times: &BTreeMap<String, (JournalTime, JournalTime)>,
    began: &JournalTime,
    ended: &JournalTime,
) -> StepRecord {
    let known = times.get(&report.key());
    let (from, to) = known.map_or((began, ended), |(from, to)| (from, to));
    StepRecord::new(report, from, to)
}

/// Appends one line in a single write.
pub(super) fn write(file: &mut File, line: &JournalEntry) -> io::Result<()> {
    let mut text = serde_json::to_vec(line)?;
    text.push(b'\n');
    file.write_all(&text)
}

/// The current time.
pub(super) fn now() -> JournalTime {
    let now = Timestamp::now();
    JournalTime { text: now.to_string(), ms: now.as_millisecond() }
}
