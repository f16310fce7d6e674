//! Definitions and statuses written to the cluster.

use std::path::Path;

use muster_config::kinds::DefinitionKind;
use muster_engine::store::{DefinitionStatus, StatusCondition, WriteError};
use serde_json::json;

use crate::fake::FakeServer;

const TEXT: &str = "\
apiVersion: muster.giantswarm.io/v1alpha1
kind: MCPServer
metadata:
  name: one
  namespace: default
  annotations:
    a: b
spec:
  type: sse
  url: http://h/sse
";

#[tokio::test]
async fn what_was_written_is_read_at_once() {
    let server = FakeServer::start().await;
    let cluster = server.connect().await;
    let store = cluster.definitions();
    let path = Path::new("mcpservers/one");
    store.create(DefinitionKind::McpServer, "one", TEXT.to_owned()).await.unwrap();
    assert!(store.read(path).unwrap().text.contains("url: http://h/sse"));
    let object = server.api.get("mcpservers", "one").unwrap();
    assert_eq!(object["metadata"]["namespace"], "ns");
    assert_eq!(object["metadata"]["annotations"], json!({"a": "b"}));
    assert_eq!(object["kind"], "MCPServer");
    let again = store.create(DefinitionKind::McpServer, "one", TEXT.to_owned()).await;
    assert!(matches!(again, Err(WriteError::Exists(_))), "{again:?}");

    let edit = |text: &str| Some(text.replace("http://h/sse", "http://other/sse"));
    store.change(path, Box::new(edit)).await.unwrap();
    assert!(store.read(path).unwrap().text.contains("http://other/sse"));
    let object = server.api.get("mcpservers", "one").unwrap();
    assert_eq!(object["spec"], json!({"type": "sse", "url": "http://other/sse"}));
    // Metadata is the cluster's.
    assert_eq!(object["metadata"]["annotations"], json!({"a": "b"}));

    store.delete(path).await.unwrap();
    assert_eq!(store.list(DefinitionKind::McpServer).unwrap(), Some(Vec::new()));
    let gone = store.delete(path).await;
    assert!(matches!(gone, Err(WriteError::Gone(_))), "{gone:?}");
    cluster.shut_down().await;
}

#[tokio::test]
async fn an_edit_is_made_for_one_text() {
    let server = FakeServer::start().await;
    let cluster = server.connect().await;
    let store = cluster.definitions();
    let path = Path::new("mcpservers/one");
    store.create(DefinitionKind::McpServer, "one", TEXT.to_owned()).await.unwrap();
    // Somebody else edits it between the read and the write.
    let api = std::sync::Arc::clone(&server.api);
    let edit = move |text: &str| {
        api.put("mcpservers", "one", &json!({"type": "sse", "url": "http://theirs/sse"}));
        Some(text.replace("http://h/sse", "http://ours/sse"))
    };
    let changed = store.change(path, Box::new(edit)).await;
    assert!(matches!(changed, Err(WriteError::Changed(_))), "{changed:?}");
    let object = server.api.get("mcpservers", "one").unwrap();
    assert_eq!(object["spec"]["url"], "http://theirs/sse");
    // An edit of what it was not made for does nothing.
    let unmeant = store.change(path, Box::new(|_: &str| None)).await;
    assert!(matches!(unmeant, Err(WriteError::Changed(_))), "{unmeant:?}");
    assert!(store.read(path).unwrap().text.contains("http://theirs/sse"));
    cluster.shut_down().await;
}

#[tokio::test]
async fn only_the_object_that_was_meant_is_deleted() {
    let server = FakeServer::start().await;
    let cluster = server.connect().await;
    let (store, path) = (cluster.definitions(), Path::new("mcpservers/one"));
    store.create(DefinitionKind::McpServer, "one", TEXT.to_owned()).await.unwrap();
    // Somebody else replaces it before the gateway knows.
    server.api.hold_events(true);
    server.api.delete("mcpservers", "one");
    server.api.put("mcpservers", "one", &json!({"type": "sse", "url": "http://theirs/sse"}));
    let refused = store.delete(path).await;
    assert!(matches!(refused, Err(WriteError::Changed(_))), "{refused:?}");
    assert!(server.api.get("mcpservers", "one").is_some());
    server.api.hold_events(false);
    while !store.read(path).is_ok_and(|found| found.text.contains("http://theirs/sse")) {
        store.changed().await;
    }
    store.delete(path).await.unwrap();
    assert!(server.api.get("mcpservers", "one").is_none());
    cluster.shut_down().await;
}

#[tokio::test]
async fn names_that_could_be_paths_are_refused() {
    let server = FakeServer::start().await;
    let cluster = server.connect().await;
    let store = cluster.definitions();
    let long = "a".repeat(254);
    for name in ["../x", "A", "a/b", "", "a?b", ".a", "a.", "-a", "a-", "a..b", "a.-b", &long] {
        let refused = store.create(DefinitionKind::McpServer, name, TEXT.to_owned()).await;
        let error = refused.unwrap_err().to_string();
        assert!(error.contains("cannot be the name of a resource"), "{error}");
    }
    cluster.shut_down().await;
}

#[tokio::test]
async fn the_leader_writes_statuses_on_change_only() {
    let server = FakeServer::start().await;
    for name in ["one", "two"] {
        server.api.put("mcpservers", name, &json!({"type": "sse", "url": "http://h/sse"}));
    }
    let cluster = server.connect().await;
    let store = cluster.definitions();
    let path = Path::new("mcpservers/one");
    let status = DefinitionStatus {
        generation: Some(1),
        fields: json!({"state": "Connected"}).as_object().unwrap().clone(),
        conditions: vec![StatusCondition {
            kind: "Ready",
            holds: true,
            reason: "Connected",
            message: String::new(),
        }],
    };
    let mut writes = server.api.status_writes();
    store.status().unwrap().report(path, status.clone());
    writes.wait_for(|count| *count == 1).await.unwrap();
    let object = server.api.get("mcpservers", "one").unwrap();
    assert_eq!(object["status"]["state"], "Connected");
    assert_eq!(object["status"]["conditions"][0]["observedGeneration"], 1);

    // The same status is not written again. Statuses are written in the order of their paths, so it was looked at when
    // the other resource has its status.
    let version = object["metadata"]["resourceVersion"].clone();
    store.status().unwrap().report(path, status.clone());
    store.status().unwrap().report(Path::new("mcpservers/two"), status.clone());
    writes.wait_for(|count| *count == 2).await.unwrap();
    assert_eq!(server.api.get("mcpservers", "two").unwrap()["status"]["state"], "Connected");
    let object = server.api.get("mcpservers", "one").unwrap();
    assert_eq!(object["metadata"]["resourceVersion"], version);
    // The next one is.
    let failed = json!({"state": "Failed"}).as_object().unwrap().clone();
    store.status().unwrap().report(path, DefinitionStatus { fields: failed, ..status });
    writes.wait_for(|count| *count == 3).await.unwrap();
    assert_eq!(server.api.get("mcpservers", "one").unwrap()["status"]["state"], "Failed");
    let lease = server.api.lease().unwrap();
    assert!(lease["spec"]["holderIdentity"].as_str().unwrap().starts_with("pod_"));
    cluster.shut_down().await;
    // The next gateway need not wait.
    assert_eq!(server.api.lease().unwrap()["spec"]["holderIdentity"], "");
}
