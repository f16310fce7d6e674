//! The line that names the servers behind the search, and its change notifications.

use std::sync::Arc;

use muster_core::{
    backend::BoxFuture,
    catalog::{BackendInfo, CatalogSource, Offer},
    name::BackendName,
    request::{Change, ChangeStream, RequestHandler as _, ServerCapabilities, ServerInfo},
};
use muster_gateway::{
    dispatch::Dispatcher,
    front::Front,
    surface::{Surface as _, meta::Meta},
};
use tokio::sync::broadcast;

use crate::gateway::{Gateway, block_on, plain};

const SCHEMA: &str = r#"{"type":"object"}"#;

fn server(name: &str, words: &str, tools: &[&str]) -> CatalogSource {
    let about = BackendInfo {
        title: Arc::from(name),
        description: Arc::from(words),
        category: None,
        tags: Arc::from([]),
    };
    let tools = tools.iter().map(|tool| plain(name, tool, "Does it", SCHEMA)).collect();
    CatalogSource::new(BackendName::new(name), about, Offer { tools, ..Offer::default() })
}

/// The bytes of `tools/list`.
fn listed(gateway: &Gateway) -> String {
    let tools = gateway.meta.tools(&gateway.state.borrow());
    tools.iter().map(|tool| tool.get()).collect::<Vec<_>>().join("\n")
}

fn put(gateway: &Gateway, source: CatalogSource) {
    gateway.change(|state| state.catalog = state.catalog.with(source));
}

#[test]
fn a_server_that_comes_and_goes_changes_no_byte() {
    let gateway = Gateway::new();
    put(&gateway, server("hub", "Issues. And more", &[]));
    let before = listed(&gateway);
    assert!(before.contains(" Behind it: hub (Issues)."), "{before}");
    for tools in [&["a", "b"][..], &[], &["a"], &["c"]] {
        put(&gateway, server("hub", "Issues. And more", tools));
        assert_eq!(listed(&gateway), before);
    }
    put(&gateway, server("files", "", &[]));
    assert!(listed(&gateway).contains(" Behind it: files, hub (Issues)."));
}

#[test]
fn clients_are_notified_only_when_the_line_changes() {
    let gateway = Gateway::new();
    put(&gateway, server("hub", "Issues", &[]));
    let (tell, _) = broadcast::channel(8);
    let identity = ServerInfo { name: "n".into(), version: "v".into(), instructions: None };
    let dispatcher = Arc::new(Dispatcher::new(gateway.state.subscribe()));
    let meta = Box::new(Meta::default());
    let front = Front::new(identity, ServerCapabilities::default(), meta, dispatcher, tell.clone());
    let mut changes = front.changes();
    let mut next = || block_on(heard(&mut changes));

    put(&gateway, server("hub", "Issues", &["a"]));
    tell.send(Change::Tools).unwrap();
    tell.send(Change::Prompts).unwrap();
    assert_eq!(next(), Some(Change::Prompts), "the meta-tools are the same");

    put(&gateway, server("files", "Local files", &[]));
    tell.send(Change::Tools).unwrap();
    assert_eq!(next(), Some(Change::Tools));
    tell.send(Change::Tools).unwrap();
    tell.send(Change::Prompts).unwrap();
    assert_eq!(next(), Some(Change::Prompts), "once is enough");
}

fn heard(changes: &mut Box<dyn ChangeStream>) -> BoxFuture<'_, Option<Change>> {
    changes.next()
}
