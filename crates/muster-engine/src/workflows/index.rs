//! The index of records for lists; each file is read once per change.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use jiff::Timestamp;
use muster_workflow::record::{RunState, RunSummary};

use super::executions::{Query, is_for, read};
use crate::execution_store::{MAX_RECORDS, RETENTION};

/// The files and their summaries.
#[derive(Debug)]
pub(super) struct Index {
    /// The start of the gateway. An unreadable file that is older was abandoned.
    started: SystemTime,
    files: BTreeMap<PathBuf, Known>,
}

#[derive(Debug)]
struct Known {
    modified: SystemTime,
    length: u64,
    at: Timestamp,
    summary: RunSummary,
}

impl Index {
    pub(super) fn new(started: SystemTime) -> Self {
        Self { started, files: BTreeMap::new() }
    }

    /// Reads new and changed files. Blocks.
    pub(super) fn refresh(&mut self, folder: &Path, live: &BTreeSet<String>) {
        let Ok(entries) = fs::read_dir(folder) else { return self.files.clear() };
        let mut there = BTreeSet::new();
        for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
            let hidden =
                path.file_name().is_none_or(|name| name.to_string_lossy().starts_with('.'));
            if hidden || path.extension().is_none_or(|ending| ending != "yaml") {
                continue;
            }
            if let Err(error) = self.look(&path) {
                tracing::warn!("cannot read {}: {error}", path.display());
            }
            there.insert(path);
        }
        self.files.retain(|path, _| there.contains(path));
        self.forget(live);
    }

    fn look(&mut self, path: &Path) -> io::Result<()> {
        let metadata = fs::metadata(path)?;
        let (modified, length) = (metadata.modified()?, metadata.len());
        let same = |known: &Known| known.modified == modified && known.length == length;
        if self.files.get(path).is_some_and(same) {
            return Ok(());
        }
        self.files.remove(path);
        match read(path) {
            Ok(record) => {
                let at = record.started_at.parse().unwrap_or(Timestamp::UNIX_EPOCH);
                let summary = record.summary();
                self.files.insert(path.to_owned(), Known { modified, length, at, summary });
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) if modified < self.started => {
                let aside = path.with_extension("yaml.broken");
                fs::rename(path, &aside)?;
                Err(io::Error::other(format!("{error}; set aside as {}", aside.display())))
            }
            Err(error) => Err(error),
        }
    }

    /// Deletes records beyond the retention.
    fn forget(&mut self, live: &BTreeSet<String>) {
        let oldest = Timestamp::now().saturating_sub(RETENTION).unwrap_or(Timestamp::UNIX_EPOCH);
        let mut by_age: Vec<(Timestamp, PathBuf)> = self
            .files
            .iter()
            .filter(|(_, known)| known.state(live) != RunState::Inprogress)
            .map(|(path, known)| (known.at, path.clone()))
            .collect();
        by_age.sort();
        let too_many = by_age.len().saturating_sub(MAX_RECORDS);
        let gone = by_age.into_iter().enumerate();
        let gone = gone.filter(|(place, (at, _))| {
            *place < too_many || (*at < oldest && *at != Timestamp::UNIX_EPOCH)
        });
        for (_, (_, path)) in gone {
            drop(fs::remove_file(&path));
            self.files.remove(&path);
        }
    }

    /// The records that match, newest first, and the number of matches on all pages.
    /// `live` has the ids of runs that were running at any time since before the refresh. `others` are the executions of
    /// all gateways, if there are several.
    pub(super) fn find(
        &self,
        query: &Query,
        live: &BTreeSet<String>,
        others: &[RunSummary],
    ) -> (Vec<RunSummary>, usize) {
        let own = self.files.values().map(|known| (known.at, known.state(live), &known.summary));
        let mut found: BTreeMap<&str, Found<'_>> =
            own.map(|found| (found.2.execution_id.as_str(), found)).collect();
        for other in others {
            let at = other.started_at.parse().unwrap_or(Timestamp::UNIX_EPOCH);
            let id = other.execution_id.as_str();
            // An execution that was interrupted here may have been continued elsewhere.
            if found.get(id).is_none_or(|(_, state, _)| *state == RunState::Interrupted) {
                found.insert(id, (at, other.status, other));
            }
        }
        let mut found: Vec<Found<'_>> = found
            .into_values()
            .filter(|(_, state, summary)| {
                is_for(summary.owner.as_ref(), query.owner.as_ref())
                    && query.workflow.as_ref().is_none_or(|name| *name == summary.workflow_name)
                    && query.state.is_none_or(|wanted| wanted == *state)
            })
            .collect();
        found.sort_by_key(|(at, ..)| std::cmp::Reverse(*at));
        let total = found.len();
        let page = found.into_iter().skip(query.offset).take(query.limit);
        let summary = |(_, status, summary): Found<'_>| RunSummary { status, ..summary.clone() };
        (page.map(summary).collect(), total)
    }
}

/// A record that may match: its start, its state, and its summary.
type Found<'a> = (Timestamp, RunState, &'a RunSummary);

impl Known {
    /// The state of the run. A record that says it is running is stale if the gateway ended before the run did.
    fn state(&self, live: &BTreeSet<String>) -> RunState {
        match self.summary.status {
            RunState::Inprogress if !live.contains(&self.summary.execution_id) => {
                RunState::Interrupted
            }
            state => state,
        }
    }
}
