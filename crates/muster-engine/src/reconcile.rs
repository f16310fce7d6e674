//! The reconciler: the only writer of the gateway's state.
//!
//! Every change is an [`Input`], applied one after the other: edited files, edits by tools, updates of units.
//! The results are a new [`GatewaySnapshot`] for calls, a new [`View`] for core tools, and change
//! notifications for lists that really changed. A file written by a tool and one edited by hand take the
//! same path.

mod classes;
mod edit;
mod files;
mod list_hashes;
mod unit_updates;
mod workflows;

use std::{collections::BTreeMap, path::Path, sync::Arc};

use muster_core::{
    backend::Backend, catalog::CatalogSource, cli::CliConfig, logins::AuthMethod,
    name::BackendName, policy::DestructiveTools, request::Change,
};
use muster_exec::{environment::Environment, launcher::Launcher};
use muster_gateway::{absent::Absent, condition::ServerCondition, dispatch::GatewaySnapshot};
use tokio::sync::{broadcast, mpsc, oneshot, watch};
use tokio_util::task::TaskTracker;

use self::list_hashes::ListHashes;
pub(crate) use self::{
    classes::{ClassDraft, ClassEdit, ClassError, ServiceEdit},
    edit::{Edit, EditError},
    files::cli_source,
    workflows::{Surroundings, WorkflowEdit},
};
use crate::{
    cli_offer::BundledCli,
    events::EventJournal,
    services::Services,
    status,
    store::{ClassFile, ConfigStore, FileProblem, Files},
    supervisor::{Supervisor, UnitId, UnitUpdate},
    view::{ServerEntry, View},
    workflows::{Definitions, Deps as WorkflowDeps},
};

/// Everything that can change the gateway's state.
#[derive(Debug)]
pub(crate) enum Input {
    /// Files may have changed.
    FilesChanged,
    /// A tool requests that files are read, and waits for it.
    Reload(oneshot::Sender<()>),
    /// A tool writes a file.
    Edit(Box<Edit>, oneshot::Sender<Result<(), EditError>>),
    /// A tool starts, restarts or stops a server; the reply is the new generation.
    SetRunning {
        /// The server's name.
        name: String,
        /// Whether it should run.
        running: bool,
        /// Receives the new generation; `None` if there is no such server.
        answer: oneshot::Sender<Option<u64>>,
    },
    /// A unit reports an update.
    Unit {
        /// The server's name.
        name: String,
        /// The unit.
        id: UnitId,
        /// The update.
        update: Box<UnitUpdate>,
    },
    /// A tool waits until the events of everything published so far are recorded.
    Flush(oneshot::Sender<()>),
    /// A caller logged in to a server.
    LoggedIn {
        /// The server's name.
        name: String,
    },
    /// The gateway shuts down.
    ShutDown(oneshot::Sender<()>),
}

/// The dependencies of the reconciler.
#[derive(Debug)]
pub(crate) struct Deps {
    pub(crate) store: Arc<ConfigStore>,
    pub(crate) journal: EventJournal,
    pub(crate) services: Services,
    pub(crate) launcher: Launcher,
    pub(crate) environment: Arc<Environment>,
    /// The CLI definitions that come with the program.
    pub(crate) bundled: Vec<BundledCli>,
    pub(crate) destructive: DestructiveTools,
    pub(crate) max_concurrent_calls: usize,
    pub(crate) workflows: WorkflowDeps,
    /// Background writes, which finish before the gateway ends.
    pub(crate) tasks: TaskTracker,
}

/// The channels on which results are published.
#[derive(Debug)]
pub(crate) struct Outputs {
    pub(crate) state: watch::Sender<Arc<GatewaySnapshot>>,
    pub(crate) view: watch::Sender<Arc<View>>,
    pub(crate) changes: broadcast::Sender<Change>,
}

/// The task that owns the state.
#[derive(Debug)]
pub(crate) struct Reconciler {
    deps: Deps,
    outputs: Outputs,
    supervisor: Supervisor,
    files: Files,
    state: GatewaySnapshot,
    servers: BTreeMap<String, Arc<ServerEntry>>,
    /// The backends of servers without their limits.
    connections: BTreeMap<String, Arc<dyn Backend>>,
    /// The last listings of servers that are lost, by name.
    lost: BTreeMap<String, Arc<CatalogSource>>,
    classes: Arc<BTreeMap<String, ClassFile>>,
    /// The CLI definitions that are served, by backend.
    clis: BTreeMap<BackendName, Arc<CliConfig>>,
    workflows: Definitions,
    /// Problems of workflows.
    findings: Vec<FileProblem>,
    /// Policy rules that match nothing.
    unmatched: Vec<FileProblem>,
    list_hashes: ListHashes,
}

/// Sends a reply, if the receiver still waits.
fn reply<T>(answer: oneshot::Sender<T>, value: T) {
    if answer.send(value).is_err() {
        tracing::trace!("the receiver of a reply is gone");
    }
}

impl Reconciler {
    /// Creates a reconciler that starts from `state` and applies `files`.
    pub(crate) fn new(
        deps: Deps,
        outputs: Outputs,
        supervisor: Supervisor,
        state: GatewaySnapshot,
        files: Files,
    ) -> Self {
        let mut reconciler = Self {
            deps,
            outputs,
            supervisor,
            files: Files::default(),
            state,
            servers: BTreeMap::new(),
            connections: BTreeMap::new(),
            lost: BTreeMap::new(),
            classes: Arc::default(),
            clis: BTreeMap::new(),
            workflows: Definitions::default(),
            findings: Vec::new(),
            unmatched: Vec::new(),
            list_hashes: ListHashes::default(),
        };
        reconciler.apply_files(files, files::Origin::Start);
        reconciler
    }

    pub(crate) async fn run(mut self, mut inputs: mpsc::Receiver<Input>) {
        while let Some(input) = inputs.recv().await {
            match input {
                Input::FilesChanged => self.read_files().await,
                Input::Reload(answer) => {
                    self.read_files().await;
                    reply(answer, ());
                }
                Input::Edit(edit, answer) => {
                    let done = self.edit(*edit).await;
                    reply(answer, done);
                }
                Input::SetRunning { name, running, answer } => {
                    reply(answer, self.supervisor.set_running(&name, running));
                }
                Input::Unit { name, id, update } => {
                    if self.supervisor.knows(&name, id) {
                        self.apply_unit_update(&name, *update);
                    }
                }
                // Inputs are applied in order, so everything published before has been recorded.
                Input::Flush(answer) => drop(answer.send(())),
                Input::LoggedIn { name } => self.logged_in(&name),
                Input::ShutDown(answer) => {
                    self.shut_down();
                    reply(answer, ());
                    return;
                }
            }
        }
    }

    async fn read_files(&mut self) {
        let files = self.deps.store.reload(&self.files).await;
        self.apply_files(files, files::Origin::Edited);
    }

    /// Publishes the new state, and notifies clients of changes.
    fn publish(&mut self) {
        self.state.absent = Arc::new(self.absent());
        self.update_workflow_effects();
        self.check_policies();
        let hashes = ListHashes::of(&self.state);
        let changed = hashes.changes_since(&self.list_hashes);
        self.list_hashes = hashes;
        self.outputs.state.send_replace(Arc::new(self.state.clone()));
        self.publish_view();
        for change in changed {
            // An error means that there is no listener.
            drop(self.outputs.changes.send(change));
        }
    }

    /// The servers whose tools cannot be called now, by the prefix of their tools' names.
    fn absent(&self) -> BTreeMap<String, Absent> {
        let prefix = self.files.settings.aggregator.prefix();
        let absent = self.servers.values().filter_map(|entry| {
            let (report, name) = (&entry.status, entry.server.name.as_str());
            let condition = match report.condition {
                _ if report.needs_login => ServerCondition::AuthRequired,
                ServerCondition::Starting
                | ServerCondition::Failed
                | ServerCondition::Unreachable
                | ServerCondition::AwaitingApproval
                | ServerCondition::Stopped
                | ServerCondition::Disconnected => report.condition,
                ServerCondition::Running
                | ServerCondition::Connected
                | ServerCondition::Stopping
                | ServerCondition::AuthRequired => return None,
            };
            let auth = entry.server.spec.auth.as_ref();
            let absent = Absent {
                uses_sso: auth.is_some_and(|auth| AuthMethod::of(auth).is_silent()),
                error: report.error.clone(),
                next_retry: report.next_retry.map(status::moment),
                last: self.lost.get(name).map(Arc::clone),
                family_prefix: entry
                    .server
                    .spec
                    .family
                    .as_ref()
                    .map(|family| format!("{prefix}_{}_", family.name)),
                ..Absent::new(BackendName::new(name), condition)
            };
            Some((format!("{prefix}_{}_", entry.server.prefix()), absent))
        });
        absent.collect()
    }

    fn publish_view(&self) {
        self.outputs.view.send_replace(Arc::new(View {
            settings: Arc::clone(&self.files.settings),
            servers: self.servers.clone(),
            workflows: Arc::clone(&self.workflows),
            classes: Arc::clone(&self.classes),
            problems: [&self.files.problems, &self.findings, &self.unmatched]
                .into_iter()
                .flatten()
                .cloned()
                .collect(),
            unreadable_policy: self.files.unreadable_policy().map(Path::to_owned),
            generations: Arc::clone(&self.files.generations),
        }));
    }

    /// Disconnects every server, so that their files say they are stopped.
    fn shut_down(&mut self) {
        self.supervisor.clear();
        for entry in self.servers.values_mut() {
            let entry = Arc::make_mut(entry);
            let kind = entry.server.spec.kind;
            if entry.status.condition.is_up() || entry.status.condition.is_transitional() {
                entry.status.condition = ServerCondition::down(kind);
            }
            entry.status.next_retry = None;
        }
        self.publish_view();
    }
}
