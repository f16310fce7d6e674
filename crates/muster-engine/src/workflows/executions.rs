//! The records of executions, one file each in `workflow_executions`.
//!
//! A running execution has a journal beside its record, from which it is resumed or closed after a crash.

mod elsewhere;
mod replicas;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::SystemTime,
};

use muster_core::{
    backend::boxed,
    call::{Caller, Role},
    caller_directory::LoginReference,
    hex,
};
use muster_workflow::{
    JsonObject, Workflow,
    record::{
        JournalEntry, JournalTime, RunJournal, RunRecord, RunStart, RunState, RunSummary,
        fingerprint,
    },
};
use thiserror::Error;
use tokio::sync::Mutex;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    execution::{RunningExecution, Written, now, write},
    index::Index,
    shared_runs::{Ending, SharedJournal, SharedRuns},
};
use crate::execution_store::ExecutionStore;

/// Records may hold secrets, so only the gateway's user can read them.
const FILE_MODE: u32 = 0o600;
const FOLDER: &str = "workflow_executions";
const RECORD: &str = "yaml";
const JOURNAL: &str = "journal";
/// Why an execution is not continued if its caller would be refused now.
const NOT_ADMITTED: &str = "it was not continued, because the login or the token that it was started with is not valid any more";
/// The number of executions after which old records are deleted.
const PRUNE_INTERVAL: usize = 100;

/// The records of executions.
#[derive(Debug)]
pub(crate) struct Executions {
    folder: PathBuf,
    pub(super) tasks: TaskTracker,
    /// The running executions.
    live: Mutex<BTreeSet<String>>,
    index: Arc<Mutex<Index>>,
    /// Cancelled when the gateway shuts down.
    ending: CancellationToken,
    /// The executions of all replicas.
    shared: Option<SharedRuns>,
    /// The records of all gateways.
    stored: Option<Arc<dyn ExecutionStore>>,
    /// The number of executions that ended.
    ended: AtomicUsize,
}

/// Why an execution did not complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// The caller cancelled it.
    Cancelled,
    /// The gateway is shutting down: the next gateway resumes the execution, or closes it.
    Suspended,
    /// The gateway ended, and the execution cannot be resumed.
    Interrupted,
    /// The gateway ended, and the execution's caller is no longer admitted.
    NotAdmitted,
}

/// An execution that an earlier gateway left unfinished.
#[derive(Debug)]
pub(super) struct Left {
    pub(super) opened: RunStart,
    pub(super) story: RunJournal,
}

/// Why there is no record.
#[derive(Debug, Error)]
pub(crate) enum GetError {
    #[error("execution {0} not found")]
    Unknown(String),
    #[error("execution {id} cannot be read: {reason}")]
    Unreadable { id: String, reason: String },
}

/// The origin of an execution's definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// In a file.
    Saved,
    /// Only in its record.
    Unsaved,
}

/// A query of executions.
#[derive(Debug, Clone, Default)]
pub(crate) struct Query {
    /// The owner of the request.
    pub(crate) owner: Option<String>,
    pub(crate) workflow: Option<String>,
    pub(crate) state: Option<RunState>,
    pub(crate) limit: usize,
    pub(crate) offset: usize,
}

impl Executions {
    /// The records below `root`.
    pub(crate) fn new(root: &Path, tasks: TaskTracker) -> Self {
        let folder = root.join(FOLDER);
        let index = Arc::new(Mutex::new(Index::new(SystemTime::now())));
        let (live, ending) = (Mutex::default(), CancellationToken::new());
        let ended = AtomicUsize::new(0);
        Self { folder, tasks, live, index, ending, shared: None, stored: None, ended }
    }

    /// From now on, executions that end without a result count as interrupted, not cancelled.
    pub(crate) fn interrupt(&self) {
        self.ending.cancel();
    }

    /// Waits until the gateway shuts down.
    pub(super) async fn interrupted(&self) {
        self.ending.cancelled().await;
    }

    /// Reads all records, and returns unfinished executions. Blocks.
    pub(super) fn sweep(&self) -> Vec<Left> {
        let Ok(entries) = fs::read_dir(&self.folder) else { return Vec::new() };
        let mut left = Vec::new();
        for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name.starts_with(".tmp-") {
                drop(fs::remove_file(&path));
            } else if path.extension().is_some_and(|ending| ending == JOURNAL) {
                match self.left_behind(&path) {
                    Some(one) if one.opened.shared && self.shared.is_some() => {
                        // One of the replicas has the execution and its record.
                        let record = self.record_path(&one.opened.record.execution_id);
                        drop((fs::remove_file(&path), fs::remove_file(record)));
                    }
                    one => left.extend(one),
                }
            }
        }
        left
    }

    fn left_behind(&self, path: &Path) -> Option<Left> {
        let id = path.file_stem()?.to_string_lossy().into_owned();
        let bytes = fs::read(path).ok()?;
        let story = RunJournal::read(&String::from_utf8_lossy(&bytes));
        let is_at_its_end = read(&self.record_path(&id)).is_ok_and(|record| has_ended(&record));
        match story.opened.clone() {
            Some(opened) if !is_at_its_end => Some(Left { opened, story }),
            None if !bytes.is_empty() => {
                let aside = path.with_extension("journal.broken");
                let moved = fs::rename(path, &aside);
                let moved = moved.map_or_else(
                    |error| error.to_string(),
                    |()| format!("moved to {}", aside.display()),
                );
                tracing::warn!("{} is not a journal of a workflow: {moved}", path.display());
                None
            }
            // The execution never started, or its record was written before the crash.
            Some(_) | None => {
                drop(fs::remove_file(path));
                None
            }
        }
    }

    /// Whether any execution is running.
    pub(crate) async fn are_running(&self) -> bool {
        !self.live.lock().await.is_empty()
    }

    /// Opens the record of an execution.
    pub(super) async fn begin(
        self: &Arc<Self>,
        workflow: &Workflow,
        input: JsonObject,
        (caller, login): (&Caller, Option<LoginReference>),
        origin: Origin,
    ) -> io::Result<RunningExecution> {
        let began = now();
        let record = RunRecord {
            owner: owner(caller),
            definition: match origin {
                Origin::Saved => None,
                Origin::Unsaved => Some(workflow.spec.to_file()),
            },
            ..RunRecord::begun(uuid()?, workflow.name.clone(), input, &began)
        };
        let opened = RunStart {
            record: record.clone(),
            subject: caller.subject.to_string(),
            token: caller.token.as_deref().map(str::to_owned),
            login,
            toolset: caller.toolset.as_deref().map(str::to_owned),
            operator: caller.role == Role::Operator,
            depth: caller.depth,
            most_effect: caller.most_effect,
            definition: fingerprint(&workflow.spec),
            shared: self.shared.is_some(),
        };
        let line = JournalEntry::Opened { at: began.clone(), opened: Box::new(opened) };
        // Spawned, so that it is not cancelled with the request: dropping an opened execution closes its record.
        let this = Arc::clone(self);
        let open = self.tasks.spawn(boxed(async move { this.open(record, began, line).await }));
        open.await.unwrap_or_else(|error| Err(io::Error::other(error)))
    }

    /// Writes the journal and the record of a new execution.
    async fn open(
        self: &Arc<Self>,
        record: RunRecord,
        began: JournalTime,
        line: JournalEntry,
    ) -> io::Result<RunningExecution> {
        let id = record.execution_id.clone();
        self.live.lock().await.insert(id.clone());
        let shared = match &self.shared {
            None => None,
            Some(shared) => match shared.open(&id, &line).await {
                Ok(journal) => Some(journal),
                Err(error) => {
                    self.live.lock().await.remove(&id);
                    self.settle(id, Ending::Discarded, None);
                    return Err(io::Error::other(error));
                }
            },
        };
        let (this, record_now) = (Arc::clone(self), record.clone());
        let file = blocking(move || {
            fs::create_dir_all(&this.folder)?;
            let mut options = OpenOptions::new();
            options.append(true).create_new(true).mode(FILE_MODE);
            let mut file = options.open(this.journal_path(&record_now.execution_id))?;
            write(&mut file, &line)?;
            this.put(&record_now)?;
            Ok(file)
        });
        match file.await {
            Ok(file) => {
                if let Some(shared) = &self.shared {
                    shared.store(&record).await;
                }
                let written = Written { file, times: BTreeMap::new(), failed: false };
                let live = RunningExecution::new(Arc::clone(self), record, began, written);
                Ok(live.shared_as(shared))
            }
            Err(error) => {
                if let Some(journal) = shared {
                    self.close_as(&id, &journal, Ending::Discarded).await;
                }
                self.live.lock().await.remove(&id);
                Err(error)
            }
        }
    }

    /// Resumes an unfinished execution.
    pub(super) async fn reopen(self: &Arc<Self>, left: &Left) -> io::Result<RunningExecution> {
        let record = left.opened.record.clone();
        let id = record.execution_id.clone();
        self.live.lock().await.insert(id.clone());
        let (this, record_now) = (Arc::clone(self), record.clone());
        let file = blocking(move || {
            // The previous gateway may have recorded it as interrupted.
            this.put(&record_now)?;
            OpenOptions::new().append(true).open(this.journal_path(&record_now.execution_id))
        });
        let file = file.await?;
        let ended = left.story.ended.iter();
        let times = ended.map(|(report, _, from, to)| (report.key(), (from.clone(), to.clone())));
        let written = Written { file, times: times.collect(), failed: false };
        Ok(RunningExecution::new(Arc::clone(self), record, left.story.last.clone(), written))
    }

    /// Writes the record of an execution that ended, and removes its journal.
    pub(super) async fn finish(self: &Arc<Self>, record: RunRecord) {
        self.conclude(record).await;
        if (self.ended.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(PRUNE_INTERVAL) {
            // Listing deletes old records, and there may be no other reason to list.
            let this = Arc::clone(self);
            self.tasks.spawn(boxed(async move { drop(this.list(Query::default()).await) }));
        }
    }

    async fn conclude(self: &Arc<Self>, record: RunRecord) {
        let (this, id) = (Arc::clone(self), record.execution_id.clone());
        let done = blocking(move || this.close(&record)).await;
        if let Err(error) = done {
            tracing::warn!("the record of run {id} cannot be written: {error}");
        }
        self.live.lock().await.remove(&id);
    }

    fn close(&self, record: &RunRecord) -> io::Result<()> {
        self.put(record)?;
        fs::remove_file(self.journal_path(&record.execution_id))
    }

    /// Closes an abandoned execution from its journal.
    pub(super) fn abandon(
        self: &Arc<Self>,
        id: String,
        why: Why,
        shared: Option<Arc<SharedJournal>>,
    ) {
        let this = Arc::clone(self);
        let why = match why {
            Why::Cancelled if self.ending.is_cancelled() => Why::Suspended,
            why => why,
        };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let work = async move {
            let (that, run) = (Arc::clone(&this), id.clone());
            let done = blocking(move || that.give_up(&run, why)).await;
            if let Err(error) = done {
                tracing::warn!("the record of run {id} cannot be written: {error}");
            }
            if let Some(shared) = shared
                && why != Why::Suspended
            {
                this.close_shared(&id, &shared).await;
            }
            this.live.lock().await.remove(&id);
        };
        drop(self.tasks.spawn_on(work, &runtime));
    }

    /// Writes the record of an abandoned execution from its journal. Blocks.
    pub(super) fn give_up(&self, id: &str, why: Why) -> io::Result<()> {
        let bytes = fs::read(self.journal_path(id))?;
        let story = RunJournal::read(&String::from_utf8_lossy(&bytes));
        let Some(opened) = &story.opened else {
            return fs::remove_file(self.journal_path(id));
        };
        let mut record = opened.record.clone().interrupted(&story);
        if why == Why::Suspended {
            return self.put(&record);
        }
        let error = record.error.take().unwrap_or_default();
        record.error = Some(match why {
            Why::Cancelled => {
                record.status = RunState::Failed;
                error.replace("interrupted: the gateway ended", "cancelled: the caller went away")
            }
            Why::NotAdmitted => format!("{error}; {NOT_ADMITTED}"),
            Why::Suspended | Why::Interrupted => error,
        });
        self.close(&record)
    }

    /// The executions that match, newest first, and the number of matches on all pages.
    pub(crate) async fn list(&self, query: Query) -> (Vec<RunSummary>, usize) {
        let mut index = Arc::clone(&self.index).lock_owned().await;
        let mut live = self.live.lock().await.clone();
        let (folder, before) = (self.folder.clone(), live.clone());
        let refreshed = tokio::task::spawn_blocking(move || {
            index.refresh(&folder, &before);
            index
        });
        let Ok(index) = refreshed.await else { return <_>::default() };
        // Runs may begin and end while records are read.
        live.extend(self.live.lock().await.iter().cloned());
        let others = self.stored.as_ref().map(|stored| stored.list()).unwrap_or_default();
        index.find(&query, &live, &others)
    }

    /// A record, if the caller may see it.
    pub(crate) async fn get(&self, id: &str, caller: &Caller) -> Result<RunRecord, GetError> {
        let unknown = || GetError::Unknown(id.to_owned());
        if id.is_empty()
            || !id
                .chars()
                .all(|letter| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_')
        {
            return Err(unknown());
        }
        let path = self.record_path(id);
        let is_live = self.live.lock().await.contains(id);
        let local = match blocking(move || read(&path)).await {
            Ok(record) => Some(record),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                return Err(GetError::Unreadable { id: id.to_owned(), reason: error.to_string() });
            }
        };
        // Another replica may have continued an execution that did not end here.
        let is_current = local.as_ref().is_some_and(|record| is_live || has_ended(record));
        let elsewhere = match is_current {
            true => None,
            false => self.elsewhere(id, local.is_some()).await?,
        };
        let local = local.map(|record| match record.status {
            RunState::Inprogress if !is_live => {
                RunRecord { status: RunState::Interrupted, ..record }
            }
            _ => record,
        });
        let is_theirs = |record: &RunRecord| is_for(record.owner.as_ref(), owner(caller).as_ref());
        elsewhere.or(local).filter(is_theirs).ok_or_else(unknown)
    }

    fn put(&self, record: &RunRecord) -> io::Result<()> {
        let record = record.clone().bounded();
        let mut text = serde_json::to_vec_pretty(&record)?;
        text.push(b'\n');
        let id = &record.execution_id;
        let beside = self.folder.join(format!(".tmp-{id}"));
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(FILE_MODE);
        io::Write::write_all(&mut options.open(&beside)?, &text)?;
        fs::rename(beside, self.record_path(id))?;
        if let Some(stored) = &self.stored {
            stored.store(record);
        }
        Ok(())
    }

    fn record_path(&self, id: &str) -> PathBuf {
        self.folder.join(format!("{id}.{RECORD}"))
    }

    fn journal_path(&self, id: &str) -> PathBuf {
        self.folder.join(format!("{id}.{JOURNAL}"))
    }
}

/// The owner of an execution; `None` without logins.
pub(crate) fn owner(caller: &Caller) -> Option<String> {
    caller.principal.as_ref().map(|_| caller.subject.to_string())
}

/// Whether an execution of `owner` is visible to `asking`.
pub(super) fn is_for(owner: Option<&String>, asking: Option<&String>) -> bool {
    owner.is_none() || owner == asking
}

/// Whether an execution completed or failed, rather than being cut off with its gateway.
const fn has_ended(record: &RunRecord) -> bool {
    match record.status {
        RunState::Completed | RunState::Failed => true,
        RunState::Inprogress | RunState::Interrupted => false,
    }
}

/// Reads one record.
pub(super) fn read(path: &Path) -> io::Result<RunRecord> {
    Ok(serde_json::from_slice(&fs::read(path)?)?)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(io::Error::other(error)))
}

/// A random id.
fn uuid() -> io::Result<String> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(hex::uuid4(bytes))
}

#[cfg(test)]
mod tests;
