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
use muster_workflow::{
    record::{Line, Moment, Record, State, StepRecord},
    report::Report,
    run::Note,
};
use serde_json::Value as Json;
use tokio::sync::Mutex;

use super::executions::{Executions, Why};

/// A running execution.
#[derive(Debug)]
pub(crate) struct RunningExecution {
    executions: Arc<Executions>,
    record: Option<Record>,
    id: String,
    began: Moment,
    journal: Arc<Mutex<Written>>,
}

/// The journal so far.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) file: File,
    /// When steps started and ended.
    pub(super) times: BTreeMap<String, (Moment, Moment)>,
    /// A full disk is logged once.
    pub(super) failed: bool,
}

impl RunningExecution {
    pub(super) fn new(
        executions: Arc<Executions>,
        record: Record,
        began: Moment,
        written: Written,
    ) -> Self {
        let id = record.execution_id.clone();
        let journal = Arc::new(Mutex::new(written));
        Self { executions, record: Some(record), id, began, journal }
    }

    /// Its id.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Appends a line to the journal.
    pub(super) async fn note(&self, note: Note) {
        let at = now();
        let mut journal = Arc::clone(&self.journal).lock_owned().await;
        let line = match note {
            Note::Begins { step, tool } => {
                journal.times.insert(step.clone(), (at.clone(), at.clone()));
                Line::Begins { at, step, tool }
            }
            Note::Ended { report, value } => {
                if let Some((_, ended)) = journal.times.get_mut(&report.id) {
                    ended.clone_from(&at);
                }
                Line::Ended { at, report, value }
            }
        };
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

    /// Writes the record of an execution that ended.
    pub(super) async fn end(mut self, reports: &[Report], result: Json, error: Option<String>) {
        let Some(record) = self.record.take() else { return };
        let ended = now();
        let steps = {
            let journal = self.journal.lock().await;
            let all = reports.iter().flat_map(Report::all);
            all.map(|report| step(report, &journal.times, &self.began, &ended)).collect()
        };
        let record = Record {
            status: if error.is_some() { State::Failed } else { State::Completed },
            completed_at: Some(ended.text.clone()),
            duration_ms: ended.since(&self.began),
            result,
            error,
            steps,
            ..record
        };
        self.executions.finish(record).await;
    }
}

/// An execution that ended has its record already.
impl Drop for RunningExecution {
    fn drop(&mut self) {
        if self.record.take().is_some() {
            self.executions.abandon(self.id.clone(), Why::Cancelled);
        }
    }
}

fn step(
    report: &Report,
    times: &BTreeMap<String, (Moment, Moment)>,
    began: &Moment,
    ended: &Moment,
) -> StepRecord {
    let known = |report: &Report| times.get(&report.id).cloned();
    let inside = || {
        let mut inside = report.steps.iter().filter_map(known);
        let (first, end) = inside.next()?;
        Some((first, inside.next_back().map_or(end, |(_, end)| end)))
    };
    let (from, to) =
        known(report).or_else(inside).unwrap_or_else(|| (began.clone(), ended.clone()));
    StepRecord::new(report, &from, &to)
}

/// Appends one line in a single write.
pub(super) fn write(file: &mut File, line: &Line) -> io::Result<()> {
    let mut text = serde_json::to_vec(line)?;
    text.push(b'\n');
    file.write_all(&text)
}

/// The current time.
pub(super) fn now() -> Moment {
    let now = Timestamp::now();
    Moment { text: now.to_string(), ms: now.as_millisecond() }
}
