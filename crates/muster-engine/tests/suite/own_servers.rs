//! Servers connected for one caller in the background.

use std::time::Duration;

use muster_core::call::{Caller, Outcome};
use serde_json::json;

use crate::{isolation::World, people::known, rig::operator};

const WHILE: Duration = Duration::from_secs(6 * 60);

/// A caller becomes active after some time, and all background work finishes.
async fn shows_up(world: &World, who: &Caller, after: Duration) -> usize {
    tokio::time::advance(after).await;
    world.dispatcher.touch(who);
    // The paused clock advances only when every task is idle.
    tokio::time::sleep(Duration::from_millis(1)).await;
    world.guarded.connected("one")
}

#[tokio::test(start_paused = true)]
async fn what_did_not_work_is_tried_again() {
    let (world, alice) = (World::new().await, known("alice"));
    world.guarded.admit("alice", "one");
    world.guarded.be_away(true);
    assert_eq!(shows_up(&world, &alice, Duration::ZERO).await, 0);
    world.guarded.be_away(false);
    // Not retried with every request.
    assert_eq!(shows_up(&world, &alice, Duration::from_secs(60)).await, 0);
    assert_eq!(shows_up(&world, &alice, WHILE).await, 1);
    world.call(&alice, "x_one_only-alice", json!({})).await.unwrap();
    assert_eq!(shows_up(&world, &alice, WHILE).await, 1);
    // A lost connection is restored.
    world.guarded.revoke("alice", "one");
    world.call(&alice, "x_one_only-alice", json!({})).await.unwrap_err();
    world.guarded.admit("alice", "one");
    assert_eq!(shows_up(&world, &alice, Duration::from_secs(60)).await, 1);
    assert_eq!(shows_up(&world, &alice, WHILE).await, 2);
    world.call(&alice, "x_one_only-alice", json!({})).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_logged_out_caller_is_not_reconnected() {
    let (world, alice) = (World::new().await, known("alice"));
    world.guarded.admit("alice", "one");
    assert_eq!(shows_up(&world, &alice, Duration::ZERO).await, 1);
    world.call(&alice, "core_auth_logout", json!({"server": "one"})).await.unwrap();
    world.guarded.admit("alice", "one");
    for _ in 0..3 {
        assert_eq!(shows_up(&world, &alice, WHILE).await, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_of_one_person_takes_no_longer_than_it_may() {
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
