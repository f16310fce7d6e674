//! Servers connected for one caller in the background.

use std::time::Duration;

use muster_core::call::{Caller, Outcome};
use serde_json::json;

use crate::{isolation::World, people::known, rig::operator};

const BACKOFF: Duration = Duration::from_secs(6 * 60);

/// A caller becomes active after some time, and all background work finishes.
async fn becomes_active(world: &World, who: &Caller, after: Duration) -> usize {
    tokio::time::advance(after).await;
    world.dispatcher.touch(who).await;
    // The paused clock advances only when every task is idle.
    tokio::time::sleep(Duration::from_millis(1)).await;
    world.guarded.connected("one")
}

#[tokio::test(start_paused = true)]
async fn failed_connections_are_retried() {
    let (world, alice) = (World::new().await, known("alice"));
    world.guarded.admit("alice", "one");
    world.guarded.be_away(true);
    assert_eq!(becomes_active(&world, &alice, Duration::ZERO).await, 0);
    world.guarded.be_away(false);
    // Not retried with every request.
    assert_eq!(becomes_active(&world, &alice, Duration::from_secs(60)).await, 0);
    assert_eq!(becomes_active(&world, &alice, BACKOFF).await, 1);
    world.call(&alice, "x_one_only-alice", json!({})).await.unwrap();
    assert_eq!(becomes_active(&world, &alice, BACKOFF).await, 1);
    // A lost connection is restored.
    world.guarded.revoke("alice", "one");
    world.call(&alice, "x_one_only-alice", json!({})).await.unwrap_err();
    world.guarded.admit("alice", "one");
    assert_eq!(becomes_active(&world, &alice, Duration::from_secs(60)).await, 1);
    assert_eq!(becomes_active(&world, &alice, BACKOFF).await, 2);
    world.call(&alice, "x_one_only-alice", json!({})).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_logged_out_caller_is_not_reconnected() {
    let (world, alice) = (World::new().await, known("alice"));
    world.guarded.admit("alice", "one");
    assert_eq!(becomes_active(&world, &alice, Duration::ZERO).await, 1);
    world.call(&alice, "core_auth_logout", json!({"server": "one"})).await.unwrap();
    world.guarded.admit("alice", "one");
    for _ in 0..3 {
        assert_eq!(becomes_active(&world, &alice, BACKOFF).await, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn call_timeouts_hold_for_connections_of_one_caller() {
    let (world, alice) = (World::new().await, known("alice"));
    let path = world.dir.path().join("mcpservers/one.yaml");
    std::fs::write(path, "url: https://one/new\ncallTimeout: 7\n").unwrap();
    drop(world.call(&operator(), "core_config_reload", json!({})).await.unwrap());
    world.settled().await;
    world.guarded.admit("alice", "one");
    let said = world.call(&alice, "core_auth_login", json!({"server": "one"})).await.unwrap();
    assert!(matches!(said, Outcome::Text { failed: false, .. }), "{said:?}");
    world.guarded.fall_silent();
    let error = world.call(&alice, "x_one_only-alice", json!({})).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "backend `one` is not available: it did not answer within 7 s, which is the `callTimeout` of this \
         server"
    );
}
