//! Two gateways that share what they keep, and callers who leave in the middle.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use muster_auth::{
    clock::Clock,
    store::{Memory, Store, StoreError},
};
use muster_core::{backend::BoxFuture, logins::LoginError};
use serde_json::json;
use tokio::task::JoinSet;

use crate::client_world::{Canned, World, person, token_text};

type Outcome<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// A store that others change, too, and that can be made to lose its tongue.
#[derive(Debug)]
pub(crate) struct Shared {
    inner: Memory,
    /// Whether nothing can be claimed.
    pub(crate) deaf: AtomicBool,
}

impl Shared {
    pub(crate) fn new(clock: Clock) -> Arc<Self> {
        Arc::new(Self { inner: Memory::new(clock), deaf: AtomicBool::new(false) })
    }
}

impl Store for Shared {
    fn get<'a>(&'a self, name: &'a str) -> Outcome<'a, Option<Vec<u8>>> {
        self.inner.get(name)
    }

    fn put<'a>(&'a self, name: &'a str, value: Vec<u8>, keep: Duration) -> Outcome<'a, ()> {
        self.inner.put(name, value, keep)
    }

    fn replace<'a>(&'a self, name: &'a str, value: Vec<u8>, keep: Duration) -> Outcome<'a, bool> {
        self.inner.replace(name, value, keep)
    }

    fn claim<'a>(&'a self, name: &'a str, value: Vec<u8>, keep: Duration) -> Outcome<'a, bool> {
        if self.deaf.load(Ordering::SeqCst) {
            let gone = StoreError::Away("it is deaf".to_owned());
            return Box::pin(std::future::ready(Err(gone)));
        }
        self.inner.claim(name, value, keep)
    }

    fn take<'a>(&'a self, name: &'a str) -> Outcome<'a, Option<Vec<u8>>> {
        self.inner.take(name)
    }

    fn remove<'a>(&'a self, name: &'a str) -> Outcome<'a, ()> {
        self.inner.remove(name)
    }

    fn is_shared(&self) -> bool {
        true
    }
}

/// Someone who is logged in, at two gateways that share their storage.
async fn two() -> (World, World) {
    let one = World::sharing().await;
    let other = one.second_gateway();
    assert_eq!(one.log_in("alice", &one.site("/mcp"), &[]).await, "access-1");
    (one, other)
}

#[tokio::test]
async fn two_gateways_renew_a_token_once() {
    let (one, other) = two().await;
    let site = one.site("/mcp");
    let at_one = one.access("alice", &site).await.unwrap();
    let at_other = other.access("alice", &site).await.unwrap();
    assert_eq!(token_text(at_other.token().await), "access-1");
    for round in 2..12 {
        one.advance(4000);
        let mut calls = JoinSet::new();
        for number in 0..100 {
            let access = Arc::clone(if number % 2 == 0 { &at_one } else { &at_other });
            calls.spawn(async move { token_text(access.token().await) });
        }
        while let Some(token) = calls.join_next().await {
            assert_eq!(token.unwrap(), format!("access-{round}"));
        }
        assert_eq!(one.issuer.refreshes(), round - 1);
    }
}

#[tokio::test]
async fn also_if_the_refresh_token_stays_the_same() {
    let (one, other) = two().await;
    let site = one.site("/mcp");
    let at_one = one.access("alice", &site).await.unwrap();
    let at_other = other.access("alice", &site).await.unwrap();
    one.advance(4000);
    let response = json!({"access_token": "again", "expires_in": 3600});
    one.issuer.respond_with("/token", Canned(200, "", response.to_string()));
    assert_eq!(token_text(at_one.token().await), "again");
    assert_eq!(token_text(at_other.token().await), "again");
    assert_eq!(one.issuer.refreshes(), 1);
}

#[tokio::test]
async fn a_logout_at_one_gateway_is_seen_by_the_other() {
    let (one, other) = two().await;
    let site = one.site("/mcp");
    let at_other = other.access("alice", &site).await.unwrap();
    assert_eq!(token_text(at_other.token().await), "access-1");
    one.logins.forget(&person("alice"), &site).await;
    one.advance(6);
    assert_eq!(token_text(at_other.token().await), "no token: Required");
}

#[tokio::test]
async fn a_logout_at_one_gateway_while_the_other_renews_stays() {
    let (one, other) = two().await;
    let site = one.site("/mcp");
    one.issuer.set_metadata("revocation_endpoint", json!("$base/revoke"));
    assert_eq!(one.log_in("alice", &site, &[]).await, "access-2");
    let at_other = other.access("alice", &site).await.unwrap();
    one.advance(4000);
    let gate = one.issuer.hold("/token");
    let mut renewing = JoinSet::new();
    renewing.spawn(async move { token_text(at_other.token().await) });
    gate.asked.notified().await;
    one.logins.forget(&person("alice"), &site).await;
    gate.open.notify_one();
    assert_eq!(renewing.join_all().await, ["no token: Required"]);
    for world in [&one, &other] {
        assert_eq!(world.access("alice", &site).await.unwrap_err(), LoginError::Required);
    }
    let asked = one.issuer.requests("/revoke");
    let revoked: Vec<&str> = asked.iter().map(|asked| asked.form["token"].as_str()).collect();
    assert!(revoked.contains(&"refresh-2") && revoked.contains(&"refresh-3"), "{revoked:?}");
}

#[tokio::test]
async fn everything_is_forgotten_at_once() {
    let (one, _) = two().await;
    let (site, other) = (one.site("/mcp"), one.site("/other"));
    one.access("alice", &other).await.unwrap();
    assert_eq!(one.log_in("bob", &site, &[]).await, "access-3");
    one.logins.forget_all(&person("alice")).await;
    for site in [&site, &other] {
        assert_eq!(one.access("alice", site).await.unwrap_err(), LoginError::Required);
    }
    assert!(one.access("bob", &site).await.is_ok(), "what others have stays");
}

#[tokio::test]
async fn who_leaves_while_a_token_is_renewed_loses_nothing() {
    let (one, _) = two().await;
    let site = one.site("/mcp");
    let access = one.access("alice", &site).await.unwrap();
    for round in 2..30 {
        one.advance(4000);
        let mut leaving = JoinSet::new();
        let asking = Arc::clone(&access);
        leaving.spawn(async move { drop(asking.token().await) });
        while one.issuer.refreshes() < round - 1 {
            tokio::task::yield_now().await;
        }
        // The issuer has been asked, and its answer is on the way.
        leaving.abort_all();
        while leaving.join_next().await.is_some() {}
        assert_eq!(token_text(access.token().await), format!("access-{round}"));
        assert_eq!(one.issuer.refreshes(), round - 1);
    }
}
