//! Definitions in a store that is not a folder, and not always available.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use muster_config::kinds::DefinitionKind;
use muster_core::{
    backend::{BoxFuture, ToolCaller as _},
    call::{Call, Checking, Outcome},
    client::NoClient,
    json::raw,
    name::ToolName,
};
use muster_engine::{
    engine::{Engine, EngineOptions},
    store::{ConfigStore, DefinitionStore, Files, StoredText, TextEdit, WriteError},
};
use muster_exec::{environment::Environment, launcher::Launcher};
use muster_gateway::dispatch::Dispatcher;
use serde_json::json;
use tokio::time::{Instant, timeout};

use crate::{fake::Fake, rig::operator};

/// One server, in a store that does not answer writes.
#[derive(Debug, Default)]
struct RemoteStore {
    cannot_list: AtomicBool,
    cannot_read: AtomicBool,
}

fn failure<T>(fails: &AtomicBool, value: T) -> io::Result<T> {
    match fails.load(Ordering::Relaxed) {
        true => Err(io::Error::other("not available")),
        false => Ok(value),
    }
}

impl DefinitionStore for RemoteStore {
    fn list(&self, kind: DefinitionKind) -> io::Result<Option<Vec<PathBuf>>> {
        let paths = match kind {
            DefinitionKind::McpServer => vec![self.place(kind).join("a")],
            _ => Vec::new(),
        };
        failure(&self.cannot_list, Some(paths))
    }

    fn read(&self, _: &Path) -> io::Result<StoredText> {
        let text = "url: http://h/mcp\n".to_owned();
        failure(&self.cannot_read, StoredText { text, generation: Some(7), secret_changes: 0 })
    }

    fn place(&self, kind: DefinitionKind) -> PathBuf {
        Path::new("remote").join(kind.plural())
    }

    fn create<'a>(
        &'a self,
        _: DefinitionKind,
        _: &'a str,
        _: String,
    ) -> BoxFuture<'a, Result<(), WriteError>> {
        Box::pin(std::future::pending())
    }

    fn change<'a>(&'a self, _: &'a Path, _: TextEdit) -> BoxFuture<'a, Result<(), WriteError>> {
        Box::pin(std::future::pending())
    }

    fn delete<'a>(&'a self, _: &'a Path) -> BoxFuture<'a, Result<(), WriteError>> {
        Box::pin(std::future::pending())
    }
}

#[test]
fn generations_stay_with_what_was_read_before() {
    let dir = tempfile::tempdir().unwrap();
    let remote = Arc::new(RemoteStore::default());
    let definitions = Arc::clone(&remote) as Arc<dyn DefinitionStore>;
    let store = ConfigStore::new(dir.path()).with_definitions(definitions);
    let before = store.load(&Files::default());
    assert_eq!(before.generations.values().collect::<Vec<_>>(), [&7]);
    for fails in [&remote.cannot_read, &remote.cannot_list] {
        fails.store(true, Ordering::Relaxed);
        let now = store.load(&before);
        fails.store(false, Ordering::Relaxed);
        assert!(now.servers.contains_key("a"), "{:?}", now.problems);
        assert_eq!(now.generations, before.generations);
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_stops_answering_does_not_stop_the_gateway() {
    let dir = tempfile::tempdir().unwrap();
    let store = ConfigStore::new(dir.path()).with_definitions(Arc::<RemoteStore>::default());
    let files = store.load(&Files::default());
    let environment = Environment::new(Vec::<(String, String)>::new(), "");
    let options = EngineOptions::new(Arc::new(Fake::default()), Launcher::new(), environment);
    let engine = Engine::start(store, files, options);
    let dispatcher = Dispatcher::new(engine.state());
    let call = async |tool: &str, args: serde_json::Value| {
        let call = Call::new(ToolName::new(tool), raw(&args), Checking::Strict);
        dispatcher.call(&operator(), &NoClient::shared(), call).await.unwrap()
    };
    let start = Instant::now();
    let server = json!({"name": "b", "type": "streamable-http", "url": "http://h/mcp"});
    let created = timeout(Duration::from_secs(60), call("core_mcpserver_create", server));
    let Outcome::Text { text, failed: true, .. } = created.await.unwrap() else { panic!() };
    assert_eq!(
        text,
        "Failed to create MCP server: the configuration was not written within 5 s; the change may still be made"
    );
    assert_eq!(start.elapsed().as_secs(), 5);
    let mut views = engine.view();
    let is_up = |view: &muster_engine::view::View| view.servers["a"].status.condition.is_up();
    drop(views.wait_for(|view| is_up(view)).await.unwrap());
}
