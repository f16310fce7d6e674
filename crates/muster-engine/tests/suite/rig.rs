//! An engine over a directory of its own.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use muster_core::{
    backend::{CallContext, ResourceOperation, ResourceRequest, ToolCaller as _},
    call::{Call, CallError, Caller, Checking, Outcome, Role},
    caller_directory::CallerDirectory,
    client::{ClientHandle, Continuation, NoClient},
    json::raw,
    name::{BackendName, ToolName},
    shared::ReplicaLink,
};
use muster_engine::{
    cli_offer::BundledCli,
    engine::{Engine, EngineOptions},
    store::{ConfigStore, Files},
    timing::EngineTiming,
    view::{ServerEntry, View},
};
use muster_exec::{environment::Environment, launcher::Launcher};
use muster_gateway::dispatch::Dispatcher;
use serde_json::Value;
use tempfile::TempDir;
use tokio::time::timeout;

use crate::fake::Fake;

/// Everything a test needs.
pub(crate) struct Rig {
    pub(crate) dir: TempDir,
    pub(crate) fake: Fake,
    pub(crate) engine: Option<Engine>,
    pub(crate) dispatcher: Arc<Dispatcher>,
    bundled: Vec<BundledCli>,
    directory: Option<Arc<dyn CallerDirectory>>,
    replica: Option<Arc<dyn ReplicaLink>>,
    timing: EngineTiming,
}

impl Rig {
    /// An engine over these files.
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        Self::with(Fake::default(), files)
    }

    /// An engine over these files and scripted servers.
    pub(crate) fn with(fake: Fake, files: &[(&str, &str)]) -> Self {
        Self::bundling(Vec::new(), fake, files)
    }

    /// An engine over these files, which it reaches by a link.
    pub(crate) fn linked(link: &Path, files: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            put(dir.path().join(name), text);
        }
        std::os::unix::fs::symlink(dir.path(), link).unwrap();
        let (fake, bundled, directory) = (Fake::default(), Vec::new(), None);
        let timing = EngineTiming::default();
        let engine = engine(link.to_owned(), &fake, &bundled, directory.clone(), None, timing);
        let dispatcher = Arc::new(Dispatcher::new(engine.state()));
        let (replica, engine) = (None, Some(engine));
        Self { dir, fake, engine, dispatcher, bundled, directory, replica, timing }
    }

    pub(crate) fn bundling(bundled: Vec<BundledCli>, fake: Fake, files: &[(&str, &str)]) -> Self {
        Self::made(bundled, None, None, EngineTiming::default(), fake, files)
    }

    /// An engine that is a replica.
    pub(crate) fn replica(link: Arc<dyn ReplicaLink>, fake: Fake, files: &[(&str, &str)]) -> Self {
        Self::made(Vec::new(), None, Some(link), EngineTiming::default(), fake, files)
    }

    /// An engine that knows these callers.
    pub(crate) fn admitting(
        directory: Arc<dyn CallerDirectory>,
        fake: Fake,
        files: &[(&str, &str)],
    ) -> Self {
        Self::made(Vec::new(), Some(directory), None, EngineTiming::default(), fake, files)
    }

    /// An engine with these intervals.
    pub(crate) fn timed(timing: EngineTiming, fake: Fake, files: &[(&str, &str)]) -> Self {
        Self::made(Vec::new(), None, None, timing, fake, files)
    }

    fn made(
        bundled: Vec<BundledCli>,
        directory: Option<Arc<dyn CallerDirectory>>,
        replica: Option<Arc<dyn ReplicaLink>>,
        timing: EngineTiming,
        fake: Fake,
        files: &[(&str, &str)],
    ) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            put(dir.path().join(name), text);
        }
        let (root, known) = (dir.path().to_owned(), directory.clone());
        let engine = engine(root, &fake, &bundled, known, replica.clone(), timing);
        let dispatcher = Arc::new(Dispatcher::new(engine.state()));
        let engine = Some(engine);
        Self { dir, fake, engine, dispatcher, bundled, directory, replica, timing }
    }

    /// Restarts the gateway over the same files.
    pub(crate) async fn again(&mut self) {
        self.engine.take().unwrap().shut_down().await;
        let (root, directory) = (self.dir.path().to_owned(), self.directory.clone());
        let replica = self.replica.clone();
        let engine = engine(root, &self.fake, &self.bundled, directory, replica, self.timing);
        self.dispatcher = Arc::new(Dispatcher::new(engine.state()));
        self.engine = Some(engine);
    }

    pub(crate) fn engine(&self) -> &Engine {
        self.engine.as_ref().unwrap()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn put(&self, name: &str, text: &str) {
        put(self.path(name), text);
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// Calls a tool.
    pub(crate) async fn try_call(&self, tool: &str, args: Value) -> Result<Outcome, CallError> {
        self.call_for(&NoClient::shared(), tool, args).await
    }

    /// Calls a tool for a client.
    pub(crate) async fn call_for(
        &self,
        client: &Arc<dyn ClientHandle>,
        tool: &str,
        args: Value,
    ) -> Result<Outcome, CallError> {
        let call = Call::new(ToolName::new(tool), raw(&args), Checking::Strict);
        self.dispatcher.call(&operator(), client, call).await
    }

    /// Sends a server a request that is not a tool call.
    pub(crate) async fn request(
        &self,
        server: &str,
        operation: ResourceOperation,
    ) -> Result<Outcome, CallError> {
        let state = self.engine().state().borrow().clone();
        let (client, caller) = (NoClient::shared(), operator());
        let cx =
            CallContext { client: &client, caller: &caller, tools: &*self.dispatcher, sent: None };
        let request =
            ResourceRequest { operation, meta: None, continuation: Continuation::default() };
        state.backends[&BackendName::new(server)].request(cx, request).await
    }

    /// Calls a tool: the text of its reply, with `E: ` before an error.
    pub(crate) async fn call(&self, tool: &str, args: Value) -> String {
        match self.try_call(tool, args).await.unwrap() {
            Outcome::Text { text, failed: true, .. } => format!("E: {text}"),
            Outcome::Text { text, .. } => text,
            outcome => panic!("{outcome:?}"),
        }
    }

    /// Calls a tool that replies with an object.
    pub(crate) async fn ask(&self, tool: &str, args: Value) -> Value {
        let text = self.call(tool, args).await;
        serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}"))
    }

    /// The names of all tools but core tools.
    pub(crate) fn tools(&self) -> Vec<String> {
        let state = self.dispatcher.snapshot(&Caller::local());
        let names = state
            .catalog
            .sorted()
            .filter(|entry| state.policy.shows(entry))
            .map(|entry| entry.name.to_string());
        names.filter(|name| !name.starts_with("core_")).collect()
    }

    /// Waits until `done`.
    #[track_caller]
    pub(crate) fn until(&self, done: impl Fn(&View) -> bool) -> impl Future<Output = Arc<View>> {
        let mut views = self.engine().view();
        let place = std::panic::Location::caller();
        async move {
            let long = Duration::from_secs(24 * 60 * 60);
            let found = timeout(long, views.wait_for(|view| done(view))).await;
            let found = found.unwrap_or_else(|_| panic!("never, at {place}"));
            Arc::clone(&found.unwrap())
        }
    }

    /// Waits until there is a tool of this name.
    pub(crate) async fn until_listed(&self, tool: &str) {
        let mut state = self.engine().state();
        drop(state.wait_for(|state| state.catalog.get(tool).is_some()).await.unwrap());
    }

    /// Waits until a server is in this condition.
    #[track_caller]
    pub(crate) fn until_is(
        &self,
        name: &str,
        word: &str,
    ) -> impl Future<Output = Arc<ServerEntry>> {
        let (owned, word) = (name.to_owned(), word.to_owned());
        let name = owned.clone();
        let done = move |view: &View| {
            view.servers.get(&owned).is_some_and(|known| known.status.condition.as_str() == word)
        };
        let waiting = self.until(done);
        async move { Arc::clone(&waiting.await.servers[&name]) }
    }
}

/// The operator of a gateway, as the rig calls its tools.
pub(crate) fn operator() -> Caller {
    Caller { role: Role::Operator, ..Caller::local() }
}

fn put(path: PathBuf, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    // Atomically, as editors do.
    let beside = path.with_file_name(".edit");
    fs::write(&beside, text).unwrap();
    fs::rename(beside, path).unwrap();
}

fn engine(
    root: PathBuf,
    fake: &Fake,
    bundled: &[BundledCli],
    directory: Option<Arc<dyn CallerDirectory>>,
    replica: Option<Arc<dyn ReplicaLink>>,
    timing: EngineTiming,
) -> Engine {
    let store = ConfigStore::new(root);
    let files = store.load(&Files::default());
    let environment = [("PATH", "/usr/bin:/bin")].map(|(k, v)| (k.to_owned(), v.to_owned()));
    let options = EngineOptions::new(
        Arc::new(fake.clone()),
        Launcher::new(),
        Environment::new(environment, ""),
    );
    let bundled = bundled.to_vec();
    Engine::start(store, files, EngineOptions { bundled, timing, directory, replica, ..options })
}

pub(crate) const REMOTE: &str = "url: http://h/mcp\n";
pub(crate) const LOCAL: &str = "command: server\n";
