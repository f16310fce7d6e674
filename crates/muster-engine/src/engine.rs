//! Everything that runs behind the call path, started and ended in order.

use std::{sync::Arc, time::Duration};

use muster_core::{
    catalog::{CatalogSnapshot, NameCollision},
    cli::CliConfig,
    connect::Connector,
    logins::LoginService,
    policy::DestructiveTools,
    request::Change,
};
use muster_exec::{environment::Environment, launcher::Launcher};
use muster_gateway::{
    dispatch::{CallMetrics, GatewaySnapshot},
    embeddings::ToolEmbeddings,
};
use tokio::{
    sync::{broadcast, mpsc, oneshot, watch},
    time::timeout,
};
use tokio_util::task::TaskTracker;

use crate::{
    core_tools,
    events::Journal,
    handle::Handle,
    principals::{self, Principals},
    reconcile::{self, Input, Outputs, Reconciler},
    services::{self, Services},
    status_files,
    store::{Files, Store},
    supervisor::{Supervisor, Timing},
    view::View,
    watch as files_watch, workflows,
};

/// How many changes may wait; units wait their turn when it is full.
const INPUTS: usize = 256;
/// How many changes a slow listener may fall behind before it misses some.
const CHANGES: usize = 256;
/// Units say goodbye within their own limit; this is for what may never happen.
const LONGEST_END: Duration = Duration::from_secs(10);

/// What the engine is given.
#[derive(Debug)]
pub struct Options {
    /// Reaches MCP servers.
    pub connect: Arc<dyn Connector>,
    /// Starts the programs of CLI tools.
    pub launcher: Launcher,
    /// What CLI definitions are expanded from.
    pub environment: Arc<Environment>,
    /// CLI definitions that are served, where installed, as long as there is no folder `clis`.
    pub bundled: Vec<CliConfig>,
    /// Whether tools that are known to destroy things may run.
    pub destructive: DestructiveTools,
    /// How long things take.
    pub timing: Timing,
    /// How many calls one backend gets at once.
    pub calls_at_once: usize,
    /// Logs people in at servers that want it.
    pub logins: Option<Arc<dyn LoginService>>,
}

impl Options {
    /// The usual.
    pub fn new(connect: Arc<dyn Connector>, launcher: Launcher, environment: Environment) -> Self {
        Self {
            connect,
            launcher,
            environment: Arc::new(environment),
            bundled: Vec::new(),
            destructive: DestructiveTools::Blocked,
            timing: Timing::default(),
            calls_at_once: 64,
            logins: None,
        }
    }
}

/// The running engine.
#[derive(Debug)]
pub struct Engine {
    handle: Handle,
    changes: broadcast::Sender<Change>,
    endpoint: watch::Sender<Option<String>>,
    tasks: TaskTracker,
}

impl Engine {
    /// Starts with what `files` say; they are what `store` was just read as. Returns at once: servers
    /// are connected one beside the other afterwards.
    pub fn start(store: Store, files: Files, options: Options) -> Self {
        let Options {
            connect,
            launcher,
            environment,
            bundled,
            destructive,
            timing,
            calls_at_once,
            logins,
        } = options;
        if let Err(error) = store.prepare() {
            tracing::warn!("cannot write to {}: {error}", store.root().display());
        }
        if files.settings.kubernetes {
            tracing::warn!("`kubernetes: true` has no effect: resources are files");
        }
        let (store, tasks) = (Arc::new(store), TaskTracker::new());
        let journal = Journal::start(store.root(), &tasks);
        let (inputs, received) = mpsc::channel(INPUTS);
        let (state, states) = watch::channel(Arc::new(GatewaySnapshot::default()));
        let (view, views) = watch::channel(Arc::new(View::default()));
        let (changes, _) = broadcast::channel(CHANGES);
        let (endpoint, endpoints) = watch::channel(None);
        let executions = Arc::new(workflows::Executions::new(store.root(), tasks.clone()));
        let services = Services::new(services::Deps {
            store: Arc::clone(&store),
            journal: journal.clone(),
            view: views.clone(),
            state: states.clone(),
            inputs: inputs.downgrade(),
            tasks: tasks.clone(),
            timing,
        });
        let principals = Principals::new(principals::Deps {
            connect: Arc::clone(&connect),
            logins,
            timing,
            calls_at_once,
            view: views.clone(),
            inputs: inputs.downgrade(),
            changes: changes.clone(),
            journal: journal.clone(),
            tasks: tasks.clone(),
        });
        tasks.spawn(principals::sweep_idle(Arc::downgrade(&principals), views.clone()));
        let handle = Handle {
            principals,
            inputs: inputs.clone(),
            state: states,
            view: views.clone(),
            journal: journal.clone(),
            services: services.clone(),
            endpoint: endpoints,
            destructive,
            metrics: CallMetrics::default(),
            executions,
        };
        let workflows = workflows::Deps::of(&handle);
        workflows::take_up(&workflows, &files.definitions(), &tasks);
        let outputs = Outputs { state, view, changes: changes.clone() };
        let deps = reconcile::Deps {
            store: Arc::clone(&store),
            journal,
            services,
            launcher,
            environment,
            bundled: bundled.into_iter().map(Arc::new).collect(),
            destructive,
            calls_at_once,
            workflows,
        };
        let supervisor = Supervisor::new(connect, timing, inputs.downgrade(), tasks.clone());
        let state = with_core_tools(&handle);
        let reconciler = Reconciler::new(deps, outputs, supervisor, state, files);
        tasks.spawn(reconciler.run(received));
        tasks.spawn(files_watch::watch(Arc::clone(&store), inputs, timing));
        tasks.spawn(status_files::keep(store, views, timing.file_debounce));
        Self { handle, changes, endpoint, tasks }
    }

    /// What calls are routed by, from now on.
    pub fn state(&self) -> watch::Receiver<Arc<GatewaySnapshot>> {
        self.handle.state.clone()
    }

    /// The servers and how they are doing, from now on.
    pub fn view(&self) -> watch::Receiver<Arc<View>> {
        self.handle.view.clone()
    }

    /// Who has what for themselves.
    pub fn principals(&self) -> Arc<Principals> {
        Arc::clone(&self.handle.principals)
    }

    /// Where changes of what clients can list are told.
    pub fn changes(&self) -> broadcast::Sender<Change> {
        self.changes.clone()
    }

    /// Has tools embedded as they come, until the engine ends.
    pub fn embed(&self, embeddings: Arc<ToolEmbeddings>) {
        self.tasks.spawn(embeddings.follow(self.state()));
    }

    /// What happened.
    pub fn journal(&self) -> &Journal {
        &self.handle.journal
    }

    /// The metrics of calls, which `core_stats` reads.
    pub fn metrics(&self) -> CallMetrics {
        self.handle.metrics.clone()
    }

    /// Notes where clients reach the gateway, for those who ask about it.
    pub fn listening(&self, endpoint: impl Into<String>) {
        self.endpoint.send_replace(Some(endpoint.into()));
    }

    /// Answers those who wait for something to happen: nothing more will.
    pub fn prepare_end(&self) {
        self.handle.journal.end_following();
    }

    /// Ends everything: services are stopped, servers are let go and said goodbye to, then the last words are written.
    /// Calls should be over by then, and the launcher be shut down after.
    pub async fn shut_down(self) {
        self.handle.services.end().await;
        let (answer, answered) = oneshot::channel();
        if self.handle.inputs.send(Input::ShutDown(answer)).await.is_ok() {
            drop(answered.await);
        }
        self.handle.principals.close();
        self.handle.journal.close().await;
        self.tasks.close();
        if timeout(LONGEST_END, self.tasks.wait()).await.is_err() {
            tracing::warn!("{} tasks did not end in time", self.tasks.len());
        }
    }
}

/// The state before any file is read: the gateway's own tools.
fn with_core_tools(handle: &Handle) -> GatewaySnapshot {
    let (source, backend) = core_tools::offered(handle.clone());
    let name = source.backend.clone();
    let catalog = CatalogSnapshot::with_collisions(NameCollision::FirstWins).with(source);
    GatewaySnapshot { catalog, backends: [(name, backend)].into(), ..GatewaySnapshot::default() }
}
