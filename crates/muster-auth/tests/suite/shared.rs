//! Two gateways with shared storage, and cancelled requests.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use muster_auth::{
    clock::Clock,
    store::{KeyValueStore, MemoryStore, StoreError},
};
use muster_core::{backend::BoxFuture, logins::LoginError};
use serde_json::json;
use tokio::task::JoinSet;

use crate::client_world::{Canned, Issuer, World, person, token_text};

type StoreFuture<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// A shared store whose claims can be made to fail.
#[derive(Debug)]
pub(crate) struct SharedStore {
    inner: MemoryStore,
    /// Whether claims fail.
    pub(crate) claims_fail: AtomicBool,
    /// Whether the indexes of logins cannot be read.
    index_fails: AtomicBool,
}

impl SharedStore {
    pub(crate) fn new(clock: Clock) -> Arc<Self> {
        let (claims_fail, index_fails) = <(AtomicBool, AtomicBool)>::default();
        Arc::new(Self { inner: MemoryStore::new(clock), claims_fail, index_fails })
    }
}

impl KeyValueStore for SharedStore {
    fn get<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Option<Vec<u8>>> {
        if key.starts_with("backend/logins/") && self.index_fails.load(Ordering::SeqCst) {
            let error = StoreError::Unavailable("it is down".to_owned());
            return Box::pin(std::future::ready(Err(error)));
        }
        self.inner.get(key)
    }

    fn put<'a>(&'a self, key: &'a str, value: Vec<u8>, ttl: Duration) -> StoreFuture<'a, ()> {
        self.inner.put(key, value, ttl)
    }

    fn replace<'a>(&'a self, key: &'a str, value: Vec<u8>, ttl: Duration) -> StoreFuture<'a, bool> {
        self.inner.replace(key, value, ttl)
    }

    fn claim<'a>(&'a self, key: &'a str, value: Vec<u8>, ttl: Duration) -> StoreFuture<'a, bool> {
        if self.claims_fail.load(Ordering::SeqCst) {
            let error = StoreError::Unavailable("it is down".to_owned());
            return Box::pin(std::future::ready(Err(error)));
        }
        self.inner.claim(key, value, ttl)
    }

    fn take<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Option<Vec<u8>>> {
        self.inner.take(key)
    }

    fn remove<'a>(&'a self, key: &'a str) -> StoreFuture<'a, ()> {
        self.inner.remove(key)
    }

    fn is_shared(&self) -> bool {
        true
    }
}

/// Two gateways with shared storage, and a user who is logged in.
async fn two_gateways() -> (World, World) {
    let one = World::sharing().await;
    let other = one.second_gateway();
    assert_eq!(one.log_in("alice", &one.site("/mcp"), &[]).await, "access-1");
    (one, other)
}

#[tokio::test]
async fn two_gateways_share_one_refresh() {
    let (one, other) = two_gateways().await;
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
async fn two_gateways_share_a_refresh_without_a_new_refresh_token() {
    let (one, other) = two_gateways().await;
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
async fn a_logout_at_one_gateway_reaches_the_other() {
    let (one, other) = two_gateways().await;
    let site = one.site("/mcp");
    let at_other = other.access("alice", &site).await.unwrap();
    assert_eq!(token_text(at_other.token().await), "access-1");
    one.logins.forget(&person("alice"), &site).await;
    one.advance(6);
    assert_eq!(token_text(at_other.token().await), "no token: Required");
}

#[tokio::test]
async fn a_logout_during_a_refresh_at_another_gateway_wins() {
    let (one, other) = two_gateways().await;
    let site = one.site("/mcp");
    one.issuer.set_metadata("revocation_endpoint", json!("$base/revoke"));
    assert_eq!(one.log_in("alice", &site, &[]).await, "access-2");
    let at_other = other.access("alice", &site).await.unwrap();
    one.advance(4000);
    let gate = one.issuer.hold("/token");
    let mut refreshing = JoinSet::new();
    refreshing.spawn(async move { token_text(at_other.token().await) });
    gate.arrived.notified().await;
    one.logins.forget(&person("alice"), &site).await;
    gate.open.notify_one();
    assert_eq!(refreshing.join_all().await, ["no token: Required"]);
    for world in [&one, &other] {
        assert_eq!(world.access("alice", &site).await.unwrap_err(), LoginError::Required);
    }
    let asked = one.issuer.requests("/revoke");
    let revoked: Vec<&str> = asked.iter().map(|asked| asked.form["token"].as_str()).collect();
    assert!(revoked.contains(&"refresh-2") && revoked.contains(&"refresh-3"), "{revoked:?}");
}

/// A login at one gateway while another refreshes the tokens of the same issuer: neither overwrites the other.
#[tokio::test]
async fn a_login_during_a_refresh_at_another_gateway_loses_no_token() {
    let (one, other) = two_gateways().await;
    let (site, second) = (one.site("/mcp"), one.site("/other"));
    let at_other = other.access("alice", &site).await.unwrap();
    one.advance(4000);
    let gate = one.issuer.hold("/token");
    let mut work = JoinSet::new();
    work.spawn(async move { token_text(at_other.token().await) });
    gate.arrived.notified().await;
    let requests = one.issuer.requests("/token").len();
    let logging_in = one.log_in("alice", &second, &[]);
    let opened = async {
        while one.issuer.requests("/token").len() == requests {
            tokio::task::yield_now().await;
        }
        gate.open.notify_one();
    };
    assert_eq!(tokio::join!(logging_in, opened).0, "access-3");
    assert_eq!(work.join_all().await, ["access-2"]);
    one.advance(6);
    for world in [&one, &other] {
        for (site, token) in [(&site, "access-2"), (&second, "access-3")] {
            let access = world.access("alice", site).await.unwrap();
            assert_eq!(token_text(access.token().await), token);
        }
    }
    assert_eq!(one.issuer.refreshes(), 1);
}

/// A gateway that has not heard of a login at another one refreshes: the tokens of that login stay.
#[tokio::test]
async fn a_refresh_keeps_the_tokens_of_a_login_at_another_gateway() {
    let (one, other) = two_gateways().await;
    let (site, second) = (one.site("/mcp"), one.site("/other"));
    let at_other = other.access("alice", &site).await.unwrap();
    one.advance(3500);
    assert_eq!(token_text(at_other.token().await), "access-2");
    assert_eq!(one.log_in("alice", &second, &[]).await, "access-3");
    // Within the time in which the cached grant counts as current.
    let refused = at_other.token().await.unwrap();
    one.issuer.expect_refresh_token("refresh-2");
    let next = at_other.replace_rejected(&refused, None).await;
    assert_eq!(token_text(next), "access-4");
    let access = one.access("alice", &second).await.unwrap();
    assert_eq!(token_text(access.token().await), "access-3");
}

#[tokio::test]
async fn an_index_that_cannot_be_read_is_not_overwritten() {
    let mut store = None;
    let one = World::with(|clock| {
        let shared = SharedStore::new(clock);
        store = Some(Arc::clone(&shared));
        shared
    })
    .await;
    let store = store.unwrap();
    let tasks = one.tasks().clone();
    let elsewhere = Issuer::start(&tasks).await;
    let (site, second) = (one.site("/mcp"), elsewhere.site("/mcp"));
    assert_eq!(one.log_in("alice", &site, &[]).await, "access-1");
    let state = one.begin("alice", &second).await.unwrap()["state"].clone();
    let other = one.second_gateway();
    store.index_fails.store(true, Ordering::SeqCst);
    let page = other.open(&[("state", &state), ("code", "good")]).await;
    assert!(page.starts_with("200"), "{page}");
    store.index_fails.store(false, Ordering::SeqCst);
    other.logins.forget_all(&person("alice")).await;
    for site in [&site, &second] {
        assert_eq!(other.access("alice", site).await.unwrap_err(), LoginError::Required);
    }
}

#[tokio::test]
async fn forget_all_ends_every_login_of_a_user() {
    let (one, _) = two_gateways().await;
    let (site, other) = (one.site("/mcp"), one.site("/other"));
    one.access("alice", &other).await.unwrap();
    assert_eq!(one.log_in("bob", &site, &[]).await, "access-3");
    one.logins.forget_all(&person("alice")).await;
    for site in [&site, &other] {
        assert_eq!(one.access("alice", site).await.unwrap_err(), LoginError::Required);
    }
    assert!(one.access("bob", &site).await.is_ok(), "logins of other users stay");
}

#[tokio::test]
async fn a_cancelled_request_does_not_lose_a_refreshed_token() {
    let (one, _) = two_gateways().await;
    let site = one.site("/mcp");
    let access = one.access("alice", &site).await.unwrap();
    for round in 2..30 {
        one.advance(4000);
        let mut cancelled = JoinSet::new();
        let source = Arc::clone(&access);
        cancelled.spawn(async move { drop(source.token().await) });
        while one.issuer.refreshes() < round - 1 {
            tokio::task::yield_now().await;
        }
        // The issuer has received the request, and its response is on the way.
        cancelled.abort_all();
        while cancelled.join_next().await.is_some() {}
        assert_eq!(token_text(access.token().await), format!("access-{round}"));
        assert_eq!(one.issuer.refreshes(), round - 1);
    }
}
