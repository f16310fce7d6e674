//! The engine behind `muster serve`: starts and shuts down everything in order.

use std::{sync::Arc, time::Duration};

use muster_core::{
    backend::boxed,
    call::{Caller, Role},
    caller_directory::CallerDirectory,
    catalog::{CatalogSnapshot, NameCollision},
    connect::Connector,
    logins::LoginService,
    policy::DestructiveTools,
    request::Change,
    shared::ReplicaLink,
};
use muster_exec::{environment::Environment, launcher::Launcher};
use muster_gateway::{
    dispatch::GatewaySnapshot, embeddings::ToolEmbeddings, step_runner::StepRunner,
};
use muster_telemetry::Telemetry;
use tokio::{
    sync::{broadcast, mpsc, oneshot, watch},
    time::timeout,
};
use tokio_util::task::TaskTracker;

use crate::{
    cli_offer::BundledCli,
    core_tools,
    events::EventJournal,
    execution_store::ExecutionStore,
    handle::Handle,
    leased_servers::{self, LeasedServers},
    reconcile::{self, Input, Outputs, Reconciler},
    resource_status,
    server_logs::ServerLogs,
    services::{self, Services},
    status_files,
    store::{ConfigStore, Files},
    supervisor::Supervisor,
    timing::EngineTiming,
    user_connections::{self, UserConnections},
    view::View,
    watch as files_watch, workflows,
    workflows::UnsavedRuns,
};

/// The capacity of the reconciler's queue; units wait when it is full.
const INPUTS: usize = 256;
/// The change notifications that a slow client may fall behind before it misses some.
const CHANGES: usize = 256;
/// The shutdown timeout. Units have their own close timeout; this one guards against bugs.
const LONGEST_END: Duration = Duration::from_secs(10);

/// The dependencies and limits of the engine.
#[derive(Debug)]
pub struct EngineOptions {
    /// Connects MCP servers.
    pub connect: Arc<dyn Connector>,
    /// Starts the programs of CLI tools.
    pub launcher: Launcher,
    /// The environment that CLI definitions are expanded with.
    pub environment: Arc<Environment>,
    /// CLI definitions that are offered, if installed, as far as the settings allow.
    pub bundled: Vec<BundledCli>,
    /// Whether destructive tools may run.
    pub destructive: DestructiveTools,
    /// Timeouts, backoff and debounce intervals.
    pub timing: EngineTiming,
    /// The number of calls that one backend runs at once.
    pub max_concurrent_calls: usize,
    /// Logs callers in to servers that require it.
    pub logins: Option<Arc<dyn LoginService>>,
    /// The observer of calls, whose counters core tools show.
    pub telemetry: Telemetry,
    /// This replica of the gateway, if there are several.
    pub replica: Option<Arc<dyn ReplicaLink>>,
    /// The directory of callers that may use the gateway.
    pub directory: Option<Arc<dyn CallerDirectory>>,
    /// The store of execution records that other gateways read.
    pub executions: Option<Arc<dyn ExecutionStore>>,
}

impl EngineOptions {
    /// The defaults.
    pub fn new(connect: Arc<dyn Connector>, launcher: Launcher, environment: Environment) -> Self {
        Self {
            connect,
            launcher,
            environment: Arc::new(environment),
            bundled: Vec::new(),
            destructive: DestructiveTools::Blocked,
            timing: EngineTiming::default(),
            max_concurrent_calls: 64,
            logins: None,
            telemetry: Telemetry::default(),
            replica: None,
            directory: None,
            executions: None,
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

/// Prepares the folders.
fn prepare(store: &ConfigStore) {
    if let Err(error) = store.prepare() {
        tracing::warn!("cannot write to {}: {error}", store.root().display());
    }
}

impl Engine {
    /// Starts the engine from `files`, which were just read from `store`. Returns at once; servers connect concurrently
    /// afterwards.
    #[expect(clippy::too_many_lines, reason = "each part is made from the ones before it")]
    pub fn start(store: ConfigStore, files: Files, options: EngineOptions) -> Self {
        let EngineOptions {
            connect,
            launcher,
            environment,
            bundled,
            destructive,
            timing,
            max_concurrent_calls,
            logins,
            telemetry,
            replica,
            directory,
            executions: stored,
        } = options;
        prepare(&store);
        let (store, tasks) = (Arc::new(store), TaskTracker::new());
        store.forget_services(&files);
        let journal = EventJournal::start(store.state(), &tasks);
        let (inputs, received) = mpsc::channel(INPUTS);
        let (state, states) = watch::channel(Arc::new(GatewaySnapshot::default()));
        let (view, views) = watch::channel(Arc::new(View::default()));
        let (changes, _) = broadcast::channel(CHANGES);
        let (endpoint, endpoints) = watch::channel(None);
        let executions = workflows::Executions::new(store.state(), tasks.clone());
        let executions = Arc::new(executions.shared_by(replica.clone()).stored_in(stored));
        let services = Services::new(services::Deps {
            store: Arc::clone(&store),
            journal: journal.clone(),
            view: views.clone(),
            state: states.clone(),
            inputs: inputs.downgrade(),
            tasks: tasks.clone(),
            timing,
            telemetry: telemetry.clone(),
        });
        let user_connections = UserConnections::new(user_connections::Deps {
            connect: Arc::clone(&connect),
            logins,
            timing,
            max_concurrent_calls,
            view: views.clone(),
            inputs: inputs.downgrade(),
            changes: changes.clone(),
            journal: journal.clone(),
            tasks: tasks.clone(),
        });
        tasks.spawn(boxed(user_connections::sweep_idle(
            Arc::downgrade(&user_connections),
            views.clone(),
        )));
        let logs = ServerLogs::default();
        let leased = replica.map(|link| {
            LeasedServers::new(leased_servers::Deps {
                link,
                tasks: tasks.clone(),
                inputs: inputs.downgrade(),
                view: views.clone(),
                logs: logs.clone(),
            })
        });
        let handle = Handle {
            user_connections,
            inputs: inputs.clone(),
            state: states,
            view: views.clone(),
            journal: journal.clone(),
            services: services.clone(),
            endpoint: endpoints,
            destructive,
            telemetry,
            executions,
            logs,
            leased,
            directory,
            store: Arc::clone(&store),
        };
        let workflows = workflows::Deps::of(&handle);
        workflows::resume_unfinished(&workflows, &files, &views, &tasks);
        let outputs = Outputs { state, view, changes: changes.clone() };
        let deps = reconcile::Deps {
            store: Arc::clone(&store),
            journal,
            services,
            launcher,
            environment,
            bundled,
            destructive,
            max_concurrent_calls,
            workflows,
            tasks: tasks.clone(),
        };
        let supervisor = Supervisor::new(connect, timing, &handle, tasks.clone());
        let state = with_core_tools(&handle);
        let reconciler = Reconciler::new(deps, outputs, supervisor, state, files);
        tasks.spawn(boxed(reconciler.run(received)));
        tasks.spawn(boxed(files_watch::watch(Arc::clone(&store), inputs, timing)));
        keep_statuses(store, &handle, timing, &tasks);
        Self { handle, changes, endpoint, tasks }
    }

    /// The state that calls are routed by.
    pub fn state(&self) -> watch::Receiver<Arc<GatewaySnapshot>> {
        self.handle.state.clone()
    }

    /// The servers and their status.
    pub fn view(&self) -> watch::Receiver<Arc<View>> {
        self.handle.view.clone()
    }

    /// The connections that belong to single callers.
    pub fn user_connections(&self) -> Arc<UserConnections> {
        Arc::clone(&self.handle.user_connections)
    }

    /// The runner of unsaved workflows.
    pub fn step_runner(&self) -> Arc<dyn StepRunner> {
        Arc::new(UnsavedRuns::new(self.handle.clone()))
    }

    /// The change notifications for clients.
    pub fn changes(&self) -> broadcast::Sender<Change> {
        self.changes.clone()
    }

    /// Embeds tools in the background until shutdown.
    pub fn embed(&self, embeddings: Arc<ToolEmbeddings>) {
        self.tasks.spawn(boxed(embeddings.follow(self.state())));
    }

    /// The journal of events.
    pub fn journal(&self) -> &EventJournal {
        &self.handle.journal
    }

    /// Returns a function that decides whether a caller may change the gateway: by admission, or by a policy.
    pub fn roles(&self) -> impl Fn(&Caller) -> Role + Send + Sync + 'static {
        let handle = self.handle.clone();
        move |caller| handle.role_of(caller)
    }

    /// Whether a workflow is running.
    pub async fn has_running_workflows(&self) -> bool {
        self.handle.executions.are_running().await
    }

    /// Sets the URL that `core_service_*` shows.
    pub fn listening(&self, endpoint: impl Into<String>) {
        self.endpoint.send_replace(Some(endpoint.into()));
    }

    /// Returns a function that interrupts running workflows, so that the next gateway resumes them. Call it before
    /// their calls are cut off.
    pub fn interrupter(&self) -> Arc<dyn Fn() + Send + Sync> {
        let executions = Arc::clone(&self.handle.executions);
        Arc::new(move || executions.interrupt())
    }

    /// Ends the calls that follow events, which would delay the shutdown.
    pub fn prepare_end(&self) {
        self.handle.journal.end_following();
    }

    /// Shuts down: stops services, disconnects servers, then flushes the journal. Calls should have finished before,
    /// and the launcher should be shut down afterwards.
    pub async fn shut_down(self) {
        // Interrupt executions first: their servers are about to be disconnected.
        self.handle.executions.interrupt();
        self.handle.services.end().await;
        if let Some(leased) = &self.handle.leased {
            leased.drain().await;
        }
        let (answer, answered) = oneshot::channel();
        if self.handle.inputs.send(Input::ShutDown(answer)).await.is_ok() {
            drop(answered.await);
        }
        self.handle.user_connections.close();
        self.handle.journal.close().await;
        self.handle.telemetry.flush().await;
        self.tasks.close();
        if timeout(LONGEST_END, self.tasks.wait()).await.is_err() {
            tracing::warn!("{} tasks did not end in time", self.tasks.len());
        }
    }
}

/// Keeps writing the statuses of servers, and those of all definitions if the store has a place for them.
fn keep_statuses(
    store: Arc<ConfigStore>,
    handle: &Handle,
    timing: EngineTiming,
    tasks: &TaskTracker,
) {
    let (views, pause) = (handle.view.clone(), timing.status_write_interval);
    if store.definitions().status().is_some() {
        let (store, views) = (Arc::clone(&store), views.clone());
        tasks.spawn(boxed(resource_status::keep(store, views, handle.state.clone(), pause)));
    }
    tasks.spawn(boxed(status_files::keep(store, views, pause)));
}

/// The snapshot before any file is read: the gateway's own tools.
fn with_core_tools(handle: &Handle) -> GatewaySnapshot {
    let (source, backend) = core_tools::offered(handle.clone());
    let name = source.backend.clone();
    let catalog = CatalogSnapshot::with_collisions(NameCollision::FirstWins).with(source);
    GatewaySnapshot { catalog, backends: [(name, backend)].into(), ..GatewaySnapshot::default() }
}
