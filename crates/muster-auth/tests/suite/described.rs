//! Client metadata documents over TLS.

use std::sync::Arc;

use muster_auth::store::MemoryStore;
use muster_net::{AddressPolicy, TrustStore};
use serde_json::json;
use tokio_util::task::TaskTracker;

use crate::{
    tls::TlsServer,
    world::{REDIRECT, World, outcome, text_of},
};

/// A gateway that allows documents on this machine.
async fn world(trust: TrustStore) -> World {
    let local = |config: &mut muster_auth::server::ServerConfig| {
        config.client_documents = Some(AddressPolicy::Loopback);
    };
    let world = World::build(local, trust, |clock| Arc::new(MemoryStore::new(clock))).await;
    world.server.discover_provider().await;
    world
}

#[tokio::test]
async fn a_client_is_described_by_its_document() {
    let tasks = TaskTracker::new();
    let site = TlsServer::start(&tasks).await;
    let id = format!("{}/client.json", site.base);
    let trust = || TrustStore::system().with_pem(site.authority.as_bytes()).unwrap();
    let mut world = world(trust()).await;
    world.client.clone_from(&id);
    let document =
        json!({"client_id": id, "client_name": "Described", "redirect_uris": [REDIRECT]});
    *site.document.lock().unwrap() = document.to_string();
    let fields = world.authorize_fields();
    let page = text_of(&world.authorize(&fields).await);
    assert!(page.contains("Described") && page.contains(&id), "{page}");
    assert!(world.login().await.is_ok());
    // The document is cached.
    assert_eq!(site.requests.lock().unwrap().len(), 1);
    assert!(site.requests.lock().unwrap()[0].starts_with("GET /client.json HTTP/1.1\r\n"));
}

#[tokio::test]
async fn an_untrusted_certificate_is_refused() {
    let tasks = TaskTracker::new();
    let site = TlsServer::start(&tasks).await;
    let mut world = world(TrustStore::system()).await;
    world.client = format!("{}/client.json", site.base);
    let fields = world.authorize_fields();
    let got = outcome(&world.authorize(&fields).await);
    let expected =
        "400 invalid_client: the client's metadata document cannot be fetched: no TLS with";
    assert!(got.starts_with(expected), "{got}");
    assert!(site.requests.lock().unwrap().is_empty());
}
