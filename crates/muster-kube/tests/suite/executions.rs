//! Records of executions, written by one gateway and read by another.

use muster_engine::execution_store::ExecutionStore;
use muster_workflow::{
    JsonObject,
    record::{JournalTime, RunRecord, RunState},
};
use serde_json::{Value as Json, json};

use crate::fake::{FakeApi, FakeServer};

fn begun(id: &str) -> RunRecord {
    let at = JournalTime { text: "2026-02-04T10:00:00Z".to_owned(), ms: 0 };
    let input = JsonObject::from_iter([("app".to_owned(), json!("shop"))]);
    RunRecord::begun(id.to_owned(), "deploy".to_owned(), input, &at)
}

fn completed(id: &str) -> RunRecord {
    let completed_at = Some("2026-02-04T10:00:05Z".to_owned());
    RunRecord { status: RunState::Completed, completed_at, ..begun(id) }
}

fn failed(id: &str, error: &str) -> RunRecord {
    RunRecord { status: RunState::Failed, error: Some(error.to_owned()), ..begun(id) }
}

/// Waits until the resource of an execution is as wanted.
async fn stored(api: &FakeApi, id: &str, is_wanted: impl Fn(&Json) -> bool) -> Json {
    loop {
        if let Some(object) = api.get("workflowexecutions", id)
            && is_wanted(&object)
        {
            return object;
        }
        tokio::task::yield_now().await;
    }
}

fn is(status: &str) -> impl Fn(&Json) -> bool {
    move |object| object["spec"]["status"] == status
}

/// Waits until a gateway lists this state.
async fn listed(executions: &dyn ExecutionStore, id: &str, state: RunState) {
    let is_listed = || {
        let known = executions.list().into_iter();
        known.into_iter().any(|known| known.execution_id == id && known.status == state)
    };
    while !is_listed() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_record_is_read_by_every_gateway_while_the_execution_runs_and_after() {
    let server = FakeServer::start().await;
    let (one, other) = (server.connect().await, server.connect().await);
    let (writes, reads) = (one.executions(), other.executions());
    writes.store(begun("run-1"));
    listed(&*reads, "run-1", RunState::Inprogress).await;
    let object = server.api.get("workflowexecutions", "run-1").unwrap();
    assert_eq!(
        object["metadata"]["labels"],
        json!({
            "muster.giantswarm.io/status": "inprogress",
            "muster.giantswarm.io/workflow": "deploy",
        })
    );
    writes.store(completed("run-1"));
    listed(&*reads, "run-1", RunState::Completed).await;
    assert_eq!(reads.get("run-1").await.unwrap(), Some(completed("run-1")));
    assert_eq!(reads.get("unknown").await.unwrap(), None);
    assert_eq!(reads.get("../mcpservers/a").await.unwrap(), None, "an id is no path");
    // A late word of a gateway that had only seemed dead.
    reads.store(begun("run-1"));
    reads.store(failed("run-2", "e"));
    stored(&server.api, "run-2", is("failed")).await;
    assert_eq!(reads.get("run-1").await.unwrap(), Some(completed("run-1")));
    one.shut_down().await;
    other.shut_down().await;
}

#[tokio::test]
async fn an_execution_that_was_interrupted_may_be_continued_by_another_gateway() {
    let server = FakeServer::start().await;
    let (one, other) = (server.connect().await, server.connect().await);
    one.executions().store(begun("run"));
    one.executions().store(RunRecord {
        status: RunState::Interrupted,
        ..failed("run", "interrupted: the gateway ended between two steps")
    });
    stored(&server.api, "run", is("failed")).await;
    let known = other.executions().get("run").await.unwrap().unwrap();
    assert_eq!(known.status, RunState::Interrupted);
    other.executions().store(begun("run"));
    stored(&server.api, "run", is("inprogress")).await;
    other.executions().store(completed("run"));
    stored(&server.api, "run", is("completed")).await;
    one.shut_down().await;
    other.shut_down().await;
}

#[tokio::test]
async fn what_waits_is_written_when_the_gateway_ends() {
    let server = FakeServer::start().await;
    let cluster = server.connect().await;
    let executions = cluster.executions();
    for number in 0..20 {
        executions.store(begun(&format!("run-{number}")));
        executions.store(completed(&format!("run-{number}")));
    }
    cluster.shut_down().await;
    for number in 0..20 {
        let object = server.api.get("workflowexecutions", &format!("run-{number}")).unwrap();
        assert_eq!(object["spec"]["status"], "completed");
    }
}

#[tokio::test]
async fn a_record_that_was_deleted_is_not_listed() {
    let server = FakeServer::start().await;
    let cluster = server.connect().await;
    let executions = cluster.executions();
    executions.store(completed("run"));
    listed(&*executions, "run", RunState::Completed).await;
    server.api.delete("workflowexecutions", "run");
    while !executions.list().is_empty() {
        tokio::task::yield_now().await;
    }
    cluster.shut_down().await;
}
