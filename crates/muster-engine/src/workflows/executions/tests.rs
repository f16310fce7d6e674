//! Tests of records that other gateways read and write too.

use std::{io, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use muster_core::{backend::BoxFuture, call::Caller, credentials::Principal, lock::Lock};
use muster_workflow::{
    JsonObject, Workflow, definition,
    record::{JournalTime, RunRecord, RunState, RunSummary},
};
use serde_json::{Value as Json, json};
use tempfile::TempDir;
use tokio_util::task::TaskTracker;

use super::{Executions, GetError, Origin, Query};
use crate::execution_store::ExecutionStore;

/// The records that gateways have stored.
#[derive(Debug, Default)]
struct Stored {
    records: Lock<Vec<RunRecord>>,
    /// Whether the store cannot be read.
    is_away: Lock<bool>,
}

impl ExecutionStore for Stored {
    fn store(&self, record: RunRecord) {
        let mut records = self.records.lock();
        records.retain(|known| known.execution_id != record.execution_id);
        records.push(record);
    }

    fn release(&self, _: &str) {}

    fn list(&self) -> Vec<RunSummary> {
        self.records.lock().iter().map(RunRecord::summary).collect()
    }

    fn get<'a>(&'a self, id: &'a str) -> BoxFuture<'a, io::Result<Option<RunRecord>>> {
        let found = self.records.lock().iter().find(|known| known.execution_id == id).cloned();
        let is_away = *self.is_away.lock();
        Box::pin(std::future::ready(match is_away {
            true => Err(io::Error::other("away")),
            false => Ok(found),
        }))
    }
}

struct Gateway {
    executions: Arc<Executions>,
    _folder: TempDir,
}

impl Gateway {
    fn new(stored: &Arc<Stored>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let stored = Arc::<Stored>::clone(stored);
        let executions = Executions::new(folder.path(), TaskTracker::new());
        Self { executions: Arc::new(executions.stored_in(Some(stored))), _folder: folder }
    }

    async fn list(&self, query: Query) -> Vec<(String, RunState)> {
        let (found, total) = self.executions.list(Query { limit: 50, ..query }).await;
        assert_eq!(found.len(), total);
        found.into_iter().map(|found| (found.execution_id, found.status)).collect()
    }
}

fn record(id: &str, seconds_ago: i64, status: RunState) -> RunRecord {
    let began = Timestamp::now() - SignedDuration::from_secs(seconds_ago);
    let at = JournalTime { text: began.to_string(), ms: 0 };
    RunRecord { status, ..RunRecord::begun(id.to_owned(), "w".to_owned(), JsonObject::new(), &at) }
}

fn user(name: &str) -> Caller {
    Caller::authenticated(Arc::new(Principal {
        id: name.into(),
        issuer: "https://idp".into(),
        subject: name.into(),
        email: None,
        name: None,
        groups: Arc::default(),
        login: name.into(),
        identity: None,
        client: None,
    }))
}

#[tokio::test]
async fn a_gateway_stores_how_its_executions_begin_and_end() {
    let stored = Arc::new(Stored::default());
    let gateway = Gateway::new(&stored);
    let spec = json!({"steps": [{"id": "a", "tool": "t"}]});
    let workflow = Workflow::new("w", "ns", definition::read(&spec).unwrap().spec);
    let (caller, input) = (Caller::local(), JsonObject::new());
    let begun = gateway.executions.begin(&workflow, input, (&caller, None), Origin::Saved).await;
    let live = begun.unwrap();
    let id = live.id().to_owned();
    let other = Gateway::new(&stored);
    assert_eq!(other.list(Query::default()).await, [(id.clone(), RunState::Inprogress)]);
    live.end(&[], json!({"ok": true}), None).await;
    assert_eq!(other.list(Query::default()).await, [(id.clone(), RunState::Completed)]);
    assert_eq!(gateway.list(Query::default()).await, [(id.clone(), RunState::Completed)]);
    let read = other.executions.get(&id, &caller).await.unwrap();
    assert_eq!(read.result, json!({"ok": true}));
}

#[tokio::test]
async fn the_executions_of_all_gateways_are_one_list() {
    let stored = Arc::new(Stored::default());
    let gateway = Gateway::new(&stored);
    // Ended here, and left here: another gateway has continued it.
    for (id, ago, status) in [("own", 40, RunState::Completed), ("left", 30, RunState::Inprogress)]
    {
        std::fs::create_dir_all(&gateway.executions.folder).unwrap();
        gateway.executions.put(&record(id, ago, status)).unwrap();
    }
    stored.store(record("left", 30, RunState::Failed));
    stored.store(record("theirs", 20, RunState::Inprogress));
    // The stored record lags behind.
    stored.store(record("own", 40, RunState::Inprogress));
    let owner = Some("ann".to_owned());
    stored.store(RunRecord { owner: owner.clone(), ..record("private", 10, RunState::Completed) });
    let entry = |id: &str, state| (id.to_owned(), state);
    let public = [
        entry("theirs", RunState::Inprogress),
        entry("left", RunState::Failed),
        entry("own", RunState::Completed),
    ];
    assert_eq!(gateway.list(Query::default()).await, public);
    let of_ann = gateway.list(Query { owner, ..Query::default() }).await;
    assert_eq!(of_ann.first(), Some(&entry("private", RunState::Completed)));
    assert_eq!(of_ann[1..], public);
    let failed = Query { state: Some(RunState::Failed), ..Query::default() };
    assert_eq!(gateway.list(failed).await, [entry("left", RunState::Failed)]);
    let page = Query { limit: 1, offset: 1, ..Query::default() };
    let (page, total) = gateway.executions.list(page).await;
    assert_eq!((page[0].execution_id.as_str(), total), ("left", 3));
    let get = async |caller: &Caller| gateway.executions.get("private", caller).await;
    assert!(matches!(get(&user("eve")).await, Err(GetError::Unknown(_))));
    assert_eq!(get(&user("ann")).await.unwrap().execution_id, "private");
}

#[tokio::test]
async fn what_cannot_be_read_elsewhere_is_read_here() {
    let stored = Arc::new(Stored::default());
    let gateway = Gateway::new(&stored);
    std::fs::create_dir_all(&gateway.executions.folder).unwrap();
    let left = record("left", 30, RunState::Inprogress);
    gateway.executions.put(&left).unwrap();
    *stored.is_away.lock() = true;
    let read = gateway.executions.get("left", &Caller::local()).await.unwrap();
    assert_eq!((read.status, read.result), (RunState::Interrupted, Json::Null));
    let unknown = gateway.executions.get("other", &Caller::local()).await;
    assert!(matches!(unknown, Err(GetError::Unreadable { .. })), "{unknown:?}");
}
