//! Resources as definitions: read, watched, and reported when they are invalid.

use std::{path::Path, sync::atomic::Ordering};

use muster_engine::store::{ConfigStore, DefinitionStore, Files};
use serde_json::json;

use crate::fake::FakeServer;

/// The names of the servers, after the next change.
async fn servers_after_change(
    store: &ConfigStore,
    definitions: &dyn DefinitionStore,
) -> Vec<String> {
    definitions.changed().await;
    store.load(&Files::default()).servers.into_keys().collect()
}

#[tokio::test]
async fn definitions_follow_the_cluster() {
    let server = FakeServer::start().await;
    let api = &server.api;
    api.put("mcpservers", "one", &json!({"type": "streamable-http", "url": "http://h/mcp"}));
    api.put("cliconfigs", "git", &json!({"command": "git", "tools": []}));
    api.put("toolpolicies", "open", &json!({"default": "enabled"}));
    let cluster = server.connect().await;
    let (folder, definitions) = (tempfile::tempdir().unwrap(), cluster.definitions());
    // A folder beside them is not read.
    std::fs::create_dir_all(folder.path().join("mcpservers")).unwrap();
    std::fs::write(folder.path().join("mcpservers/file.yaml"), "url: http://h/mcp\n").unwrap();
    let store = ConfigStore::new(folder.path()).with_definitions(cluster.definitions());
    let files = store.load(&Files::default());
    assert_eq!(files.problems, []);
    assert_eq!(files.servers.keys().collect::<Vec<_>>(), ["one"]);
    assert_eq!(files.servers["one"].server.namespace, "ns");
    assert_eq!(files.generations[Path::new("mcpservers/one")], 1);
    let git = &files.clis.unwrap()[Path::new("cliconfigs/git")];
    assert_eq!(git.name, "git");
    assert_eq!(files.policies.len(), 1);
    definitions.changed().await;

    api.put("mcpservers", "two", &json!({"type": "sse", "url": "http://h/sse"}));
    assert_eq!(servers_after_change(&store, &*definitions).await, ["one", "two"]);
    api.delete("mcpservers", "one");
    assert_eq!(servers_after_change(&store, &*definitions).await, ["two"]);
    cluster.shut_down().await;
}

#[tokio::test]
async fn an_invalid_resource_is_reported_and_harms_no_other() {
    let server = FakeServer::start().await;
    server.api.put("mcpservers", "bad", &json!({"type": "carrier-pigeon", "url": "http://h"}));
    server.api.put("mcpservers", "good", &json!({"type": "sse", "url": "http://h/sse"}));
    let cluster = server.connect().await;
    let folder = tempfile::tempdir().unwrap();
    let store = ConfigStore::new(folder.path()).with_definitions(cluster.definitions());
    let files = store.load(&Files::default());
    assert_eq!(files.servers.keys().collect::<Vec<_>>(), ["good"]);
    let problems: Vec<String> = files.problems.iter().map(ToString::to_string).collect();
    assert!(problems[0].starts_with("mcpservers/bad: spec: "), "{problems:?}");
    // The status of an invalid resource needs its generation too.
    assert_eq!(files.generations[Path::new("mcpservers/bad")], 1);
    cluster.shut_down().await;
}

#[tokio::test]
async fn a_broken_watch_goes_on_where_it_was() {
    let server = FakeServer::start().await;
    let cluster = server.connect().await;
    let (folder, definitions) = (tempfile::tempdir().unwrap(), cluster.definitions());
    let store = ConfigStore::new(folder.path()).with_definitions(cluster.definitions());
    definitions.changed().await;
    let lists = server.api.lists.load(Ordering::SeqCst);
    server.api.break_watches();
    server.api.put("mcpservers", "one", &json!({"type": "sse", "url": "http://h/sse"}));
    assert_eq!(servers_after_change(&store, &*definitions).await, ["one"]);
    assert_eq!(server.api.lists.load(Ordering::SeqCst), lists, "nothing is listed again");

    server.api.put("mcpservers", "two", &json!({"type": "sse", "url": "http://h/sse"}));
    assert_eq!(servers_after_change(&store, &*definitions).await, ["one", "two"]);
    server.api.delete("mcpservers", "one");
    assert_eq!(servers_after_change(&store, &*definitions).await, ["two"]);
    // What happened while nobody watched is found by a list.
    server.api.put("toolsets", "set", &json!({"tools": ["x"]}));
    server.api.forget();
    server.api.break_watches();
    definitions.changed().await;
    assert_eq!(store.load(&Files::default()).toolsets.keys().collect::<Vec<_>>(), ["set"]);
    cluster.shut_down().await;
}

#[tokio::test]
async fn a_kind_that_is_not_installed_has_no_definitions() {
    let server = FakeServer::start().await;
    server.api.unknown.lock().extend(["toolpolicies", "cliconfigs"]);
    let cluster = server.connect().await;
    let folder = tempfile::tempdir().unwrap();
    let store = ConfigStore::new(folder.path()).with_definitions(cluster.definitions());
    let files = store.load(&Files::default());
    assert_eq!((files.problems.len(), files.policies.len()), (0, 0));
    assert!(files.clis.is_none());
    cluster.shut_down().await;
}

#[tokio::test]
async fn a_list_that_is_not_found_takes_no_definition_away() {
    let server = FakeServer::start().await;
    let api = &server.api;
    api.put("toolpolicies", "closed", &json!({"default": "disabled"}));
    let cluster = server.connect().await;
    let (folder, definitions) = (tempfile::tempdir().unwrap(), cluster.definitions());
    let store = ConfigStore::new(folder.path()).with_definitions(cluster.definitions());
    definitions.changed().await;
    // A proxy in between does not know the path for a while.
    let mut discoveries = api.discoveries();
    api.hidden.lock().push("toolpolicies");
    // Something else happens, so that the version of their watch can be forgotten.
    api.put("toolsets", "set", &json!({"tools": ["x"]}));
    definitions.changed().await;
    api.forget();
    api.break_watches();
    discoveries.wait_for(|count| *count > 0).await.unwrap();
    // Asked again: the first answer has been taken in.
    discoveries.wait_for(|count| *count > 1).await.unwrap();
    assert_eq!(store.load(&Files::default()).policies.len(), 1);
    api.hidden.lock().clear();
    api.put("toolpolicies", "other", &json!({"default": "disabled"}));
    definitions.changed().await;
    assert_eq!(store.load(&Files::default()).policies.len(), 2);
    // The kind is deleted, by the word of the API server itself.
    api.unknown.lock().push("toolpolicies");
    api.put("toolsets", "set", &json!({"tools": ["y"]}));
    definitions.changed().await;
    api.forget();
    api.break_watches();
    definitions.changed().await;
    assert_eq!(store.load(&Files::default()).policies.len(), 0);
    cluster.shut_down().await;
}

#[tokio::test]
async fn a_namespace_is_a_dns_label() {
    let server = FakeServer::start().await;
    for namespace in ["", "a/b", "../x", "A", "-a", "a-", "a.b", "a?b"] {
        let refused = server.connect_to(namespace).await.unwrap_err();
        assert!(refused.to_string().contains("cannot be a namespace"), "{namespace}: {refused}");
    }
}
