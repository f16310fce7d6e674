//! Clients that are described by a document, fetched over TLS.

use std::sync::Arc;

use muster_auth::store::Memory;
use muster_net::{AddressPolicy, TrustStore};
use serde_json::json;
use tokio_util::task::TaskTracker;

use crate::{
    tls::Secure,
    world::{REDIRECT, World, outcome, text_of},
};

/// A gateway that lets documents be on this machine, believing `trust`.
async fn world(trust: TrustStore) -> World {
    let near = |config: &mut muster_auth::server::ServerConfig| {
        config.cimd = Some(AddressPolicy::Loopback);
    };
    let world = World::made(near, trust, |clock| Arc::new(Memory::new(clock))).await;
    world.server.find_provider().await;
    world
}

#[tokio::test]
async fn a_client_is_who_its_document_says() {
    let tasks = TaskTracker::new();
    let site = Secure::start(&tasks).await;
    let id = format!("{}/client.json", site.base);
    let trust = || TrustStore::system().with_pem(site.authority.as_bytes()).unwrap();
    let mut world = world(trust()).await;
    world.client.clone_from(&id);
    let document =
        json!({"client_id": id, "client_name": "Described", "redirect_uris": [REDIRECT]});
    *site.says.lock().unwrap() = document.to_string();
    let fields = world.authorize_fields();
    let page = text_of(&world.authorize(&fields).await);
    assert!(page.contains("Described") && page.contains(&id), "{page}");
    assert!(world.login().await.is_ok());
    // It is kept for a while, and not asked for again.
    assert_eq!(site.asked.lock().unwrap().len(), 1);
    assert!(site.asked.lock().unwrap()[0].starts_with("GET /client.json HTTP/1.1\r\n"));
}

#[tokio::test]
async fn a_document_must_be_behind_a_certificate_that_is_believed() {
    let tasks = TaskTracker::new();
    let site = Secure::start(&tasks).await;
    let mut world = world(TrustStore::system()).await;
    world.client = format!("{}/client.json", site.base);
    let fields = world.authorize_fields();
    let got = outcome(&world.authorize(&fields).await);
    let begin = "400 invalid_client: the client's metadata document cannot be fetched: no TLS with";
    assert!(got.starts_with(begin), "{got}");
    assert!(site.asked.lock().unwrap().is_empty());
}
