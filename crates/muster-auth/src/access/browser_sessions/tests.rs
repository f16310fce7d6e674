//! Codes, cookies, and the users they are valid for.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use muster_core::{
    backend::BoxFuture,
    call::{Caller, Role},
    credentials::{Admission, Authenticator, Peer},
    shared::{LogLimits, SharedState, Subscription},
};
use rustix::process::geteuid;

use super::{BrowserSessions, CODE_TTL, MAX_SESSIONS, SESSION_TTL};
use crate::{
    clock::Clock,
    store::{KeyValueStore, MemoryShared, StoreError, StoreFuture},
};

/// Treats `Bearer good` as an operator and everything else as an agent.
#[derive(Debug, Default)]
struct Guard {
    is_revoked: AtomicBool,
}

impl Authenticator for Guard {
    fn authenticate<'a>(
        &'a self,
        headers: &'a HeaderMap,
        _: &'a Peer,
    ) -> BoxFuture<'a, Result<Admission, Response<Bytes>>> {
        let is_good =
            headers.get(header::AUTHORIZATION).is_some_and(|value| value == "Bearer good");
        let is_operator = is_good && !self.is_revoked.load(Ordering::Relaxed);
        let role = if is_operator { Role::Operator } else { Role::Agent };
        Box::pin(std::future::ready(Ok(Admission { role, ..Admission::default() })))
    }

    fn still_admits<'a>(&'a self, _: &'a Caller) -> BoxFuture<'a, bool> {
        Box::pin(std::future::ready(true))
    }
}

/// Shared state that can be unavailable.
#[derive(Debug)]
struct Flaky {
    state: MemoryShared,
    is_down: Arc<AtomicBool>,
}

impl Flaky {
    fn via<'a, T: Send + 'a>(
        &'a self,
        work: impl FnOnce(&'a MemoryShared) -> StoreFuture<'a, T>,
    ) -> StoreFuture<'a, T> {
        match self.is_down.load(Ordering::Relaxed) {
            true => Box::pin(std::future::ready(Err(StoreError::Unavailable("down".to_owned())))),
            false => work(&self.state),
        }
    }
}

impl KeyValueStore for Flaky {
    fn get<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Option<Vec<u8>>> {
        self.via(|state| state.get(key))
    }

    fn put<'a>(&'a self, key: &'a str, value: Vec<u8>, ttl: Duration) -> StoreFuture<'a, ()> {
        self.via(|state| state.put(key, value, ttl))
    }

    fn replace<'a>(&'a self, key: &'a str, value: Vec<u8>, ttl: Duration) -> StoreFuture<'a, bool> {
        self.via(|state| state.replace(key, value, ttl))
    }

    fn claim<'a>(&'a self, key: &'a str, value: Vec<u8>, ttl: Duration) -> StoreFuture<'a, bool> {
        self.via(|state| state.claim(key, value, ttl))
    }

    fn take<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Option<Vec<u8>>> {
        self.via(|state| state.take(key))
    }

    fn remove<'a>(&'a self, key: &'a str) -> StoreFuture<'a, ()> {
        self.via(|state| state.remove(key))
    }

    fn is_shared(&self) -> bool {
        true
    }
}

impl SharedState for Flaky {
    fn touch<'a>(&'a self, key: &'a str, ttl: Duration) -> StoreFuture<'a, Option<Vec<u8>>> {
        self.via(|state| state.touch(key, ttl))
    }

    fn swap<'a>(
        &'a self,
        key: &'a str,
        expected: &'a [u8],
        value: Vec<u8>,
        ttl: Duration,
    ) -> StoreFuture<'a, bool> {
        self.via(|state| state.swap(key, expected, value, ttl))
    }

    fn release<'a>(&'a self, key: &'a str, expected: &'a [u8]) -> StoreFuture<'a, bool> {
        self.via(|state| state.release(key, expected))
    }

    fn add<'a>(&'a self, key: &'a str, amount: u64, ttl: Duration) -> StoreFuture<'a, u64> {
        self.via(|state| state.add(key, amount, ttl))
    }

    fn append<'a>(
        &'a self,
        log: &'a str,
        position: u64,
        entry: Vec<u8>,
        limits: LogLimits,
    ) -> StoreFuture<'a, bool> {
        self.via(|state| state.append(log, position, entry, limits))
    }

    fn entries<'a>(
        &'a self,
        log: &'a str,
        after: u64,
        limit: usize,
    ) -> StoreFuture<'a, Vec<(u64, Vec<u8>)>> {
        self.via(|state| state.entries(log, after, limit))
    }

    fn renew<'a>(&'a self, log: &'a str, ttl: Duration) -> StoreFuture<'a, bool> {
        self.via(|state| state.renew(log, ttl))
    }

    fn join<'a>(&'a self, set: &'a str, member: &'a str, ttl: Duration) -> StoreFuture<'a, ()> {
        self.via(|state| state.join(set, member, ttl))
    }

    fn leave<'a>(&'a self, set: &'a str, member: &'a str) -> StoreFuture<'a, ()> {
        self.via(|state| state.leave(set, member))
    }

    fn members<'a>(&'a self, set: &'a str) -> StoreFuture<'a, Vec<String>> {
        self.via(|state| state.members(set))
    }

    fn publish<'a>(&'a self, channel: &'a str, message: Vec<u8>) -> StoreFuture<'a, ()> {
        self.via(|state| state.publish(channel, message))
    }

    fn subscribe<'a>(&'a self, channels: &'a [String]) -> StoreFuture<'a, Box<dyn Subscription>> {
        self.via(|state| state.subscribe(channels))
    }
}

struct Rig {
    guard: Arc<Guard>,
    sessions: BrowserSessions,
    now: Arc<AtomicU64>,
}

impl Rig {
    fn new() -> Self {
        let (guard, now) = (Arc::new(Guard::default()), Arc::new(AtomicU64::new(1_000)));
        let clock = Clock::new({
            let now = Arc::clone(&now);
            move || now.load(Ordering::Relaxed)
        });
        let sessions = BrowserSessions::new(Arc::<Guard>::clone(&guard), clock).unwrap();
        Self { guard, sessions, now }
    }

    /// Two replicas that share a storage, which is down while the flag is set.
    fn replicas() -> ([Self; 2], Arc<AtomicBool>) {
        let is_down = Arc::<AtomicBool>::default();
        let clock = Clock::new(|| 1_000);
        let state =
            Arc::new(Flaky { state: MemoryShared::new(clock), is_down: Arc::clone(&is_down) });
        let replicas = [(); 2].map(|()| {
            let Self { guard, sessions, now } = Self::new();
            Self { guard, sessions: sessions.shared_in(Arc::<Flaky>::clone(&state)), now }
        });
        (replicas, is_down)
    }

    fn pass(&self, seconds: u64) {
        self.now.fetch_add(seconds, Ordering::Relaxed);
    }

    async fn code(&self, host: &str) -> String {
        let headers = headers(&[("host", host), ("authorization", "Bearer good")]);
        self.sessions.begin(&headers, &own()).await.unwrap().reveal().clone()
    }

    async fn cookie(&self, host: &str) -> String {
        let code = self.code(host).await;
        let set = self.sessions.redeem(&code, &headers(&[("host", host)]), &own()).await.unwrap();
        set.unwrap().split(';').next().unwrap().to_owned()
    }

    async fn admits(&self, cookie: &str, peer: &Peer) -> Result<(), StatusCode> {
        let headers = headers(&[("host", "localhost:8090"), ("cookie", cookie)]);
        self.sessions.admit(&headers, peer).await.map(drop).map_err(|refusal| refusal.status())
    }
}

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let value = |value: &str| HeaderValue::from_str(value).unwrap();
    pairs.iter().map(|(name, text)| (header::HeaderName::from_static(name), value(text))).collect()
}

fn peer(remote: &str, user: Option<u32>) -> Peer {
    let peer = Peer::new(remote.parse().unwrap(), "127.0.0.1:8090".parse().unwrap());
    assert_eq!(peer.user(|_, _| user), user);
    peer
}

fn own() -> Peer {
    peer("127.0.0.1:5", Some(geteuid().as_raw()))
}

#[tokio::test]
async fn a_code_is_good_once_and_for_a_minute() {
    let rig = Rig::new();
    let none = HeaderMap::new();
    let refused = rig.sessions.begin(&headers(&[("host", "localhost")]), &own()).await;
    assert_eq!(refused.unwrap_err().status(), StatusCode::FORBIDDEN, "an agent gets no code");
    let code = rig.code("localhost:8090").await;
    let set = rig.sessions.redeem(&code, &none, &own()).await.unwrap().unwrap();
    assert!(set.starts_with("muster-console-8090="), "{set}");
    assert!(set.ends_with("; Path=/console; Max-Age=43200; HttpOnly; SameSite=Strict"), "{set}");
    assert_eq!(rig.sessions.redeem(&code, &none, &own()).await.unwrap(), None);
    assert_eq!(rig.sessions.redeem("guess", &none, &own()).await.unwrap(), None);
    let late = rig.code("localhost:8090").await;
    rig.pass(CODE_TTL);
    assert_eq!(rig.sessions.redeem(&late, &none, &own()).await.unwrap(), None);
    let code = rig.code("gate.example").await;
    let set = rig
        .sessions
        .redeem(&code, &headers(&[("x-forwarded-proto", "https")]), &own())
        .await
        .unwrap();
    assert!(set.unwrap().ends_with("; Secure"));
}

#[tokio::test]
async fn a_cookie_is_admitted_by_the_credentials_behind_it() {
    let rig = Rig::new();
    let cookie = rig.cookie("localhost:8090").await;
    assert_eq!(rig.admits(&format!("a=b; {cookie}; c=d"), &own()).await, Ok(()));
    assert_eq!(rig.admits("muster-console-8090=x", &own()).await, Err(StatusCode::FORBIDDEN));
    assert_eq!(rig.admits("", &own()).await, Err(StatusCode::FORBIDDEN));
    rig.guard.is_revoked.store(true, Ordering::Relaxed);
    assert_eq!(rig.admits(&cookie, &own()).await, Err(StatusCode::FORBIDDEN), "it was revoked");
    rig.guard.is_revoked.store(false, Ordering::Relaxed);
    rig.pass(SESSION_TTL);
    assert_eq!(rig.admits(&cookie, &own()).await, Err(StatusCode::FORBIDDEN), "it has expired");
    let cookie = rig.cookie("localhost:8090").await;
    let sent = headers(&[("cookie", &cookie)]);
    assert!(rig.sessions.end(&sent, &own()).await.unwrap().contains("Max-Age=0"));
    assert_eq!(rig.admits(&cookie, &own()).await, Err(StatusCode::FORBIDDEN), "it was ended");
}

/// Another user of the machine can receive the cookie by running a server on another port.
#[tokio::test]
async fn a_local_session_serves_the_gateways_own_user_only() {
    let rig = Rig::new();
    let other = || peer("127.0.0.1:6", Some(geteuid().as_raw() + 1));
    for host in ["localhost:8090", "127.0.0.1", "[::1]:8090"] {
        let cookie = rig.cookie(host).await;
        assert_eq!(rig.admits(&cookie, &own()).await, Ok(()), "{host}");
        for peer in [other(), peer("127.0.0.1:6", None), peer("192.0.2.1:6", None)] {
            let refused = rig.admits(&cookie, &peer).await;
            assert_eq!(refused, Err(StatusCode::FORBIDDEN), "{host} {peer:?}");
        }
        let code = rig.code(host).await;
        assert_eq!(
            rig.sessions.redeem(&code, &HeaderMap::new(), &other()).await.unwrap(),
            None,
            "{host}"
        );
    }
    let remote = rig.cookie("gate.example").await;
    assert_eq!(rig.admits(&remote, &peer("192.0.2.1:6", None)).await, Ok(()));
}

#[tokio::test]
async fn forms_of_each_session_have_a_token_of_their_own() {
    let rig = Rig::new();
    let mut tokens = Vec::new();
    for _ in 0..2 {
        let sent = headers(&[("cookie", &rig.cookie("localhost").await)]);
        tokens.push(rig.sessions.admit(&sent, &own()).await.unwrap().form_token.unwrap());
    }
    assert_ne!(tokens.first(), tokens.last());
    let program = headers(&[("authorization", "Bearer good")]);
    assert_eq!(rig.sessions.admit(&program, &own()).await.unwrap().form_token, None);
}

#[tokio::test]
async fn the_oldest_session_makes_room() {
    let rig = Rig::new();
    let first = rig.cookie("localhost").await;
    rig.pass(1);
    for _ in 1..MAX_SESSIONS {
        rig.cookie("localhost").await;
    }
    assert_eq!(rig.admits(&first, &own()).await, Ok(()));
    rig.cookie("localhost").await;
    assert_eq!(rig.admits(&first, &own()).await, Err(StatusCode::FORBIDDEN));
}

#[tokio::test]
async fn any_replica_lists_and_ends_a_session() {
    let ([one, other], _) = Rig::replicas();
    let (first, second) = (one.cookie("gate.example").await, other.cookie("localhost").await);
    for replica in [&one, &other] {
        assert_eq!(replica.admits(&first, &own()).await, Ok(()));
        let listed = replica.sessions.list().await.unwrap();
        assert_eq!(listed.len(), 2);
        assert_eq!(listed.iter().filter(|session| session.is_local).count(), 1);
    }
    let listed = other.sessions.list().await.unwrap();
    let remote = listed.into_iter().find(|session| !session.is_local).unwrap();
    assert_eq!(other.sessions.end_by_id("guess").await.ok(), Some(false));
    assert_eq!(other.sessions.end_by_id(&remote.id).await.ok(), Some(true));
    assert_eq!(other.sessions.end_by_id(&remote.id).await.ok(), Some(false));
    assert_eq!(one.admits(&first, &own()).await, Err(StatusCode::FORBIDDEN), "it was ended");
    assert_eq!(one.admits(&second, &own()).await, Ok(()));
    assert_eq!(one.sessions.list().await.unwrap().len(), 1);
}

#[tokio::test]
async fn the_oldest_session_makes_room_at_all_replicas() {
    let ([one, other], _) = Rig::replicas();
    let first = one.cookie("localhost").await;
    one.pass(1);
    other.pass(1);
    for _ in 1..MAX_SESSIONS {
        other.cookie("localhost").await;
    }
    assert_eq!(one.admits(&first, &own()).await, Ok(()));
    other.cookie("localhost").await;
    assert_eq!(one.admits(&first, &own()).await, Err(StatusCode::FORBIDDEN));
    assert_eq!(one.sessions.list().await.unwrap().len(), MAX_SESSIONS);
}

/// A failed lookup must not count as a logout.
#[tokio::test]
async fn an_outage_of_the_storage_is_not_a_missing_session() {
    let ([one, _], is_down) = Rig::replicas();
    let (cookie, code) = (one.cookie("localhost").await, one.code("localhost").await);
    is_down.store(true, Ordering::Relaxed);
    let unavailable = StatusCode::SERVICE_UNAVAILABLE;
    assert_eq!(one.admits(&cookie, &own()).await, Err(unavailable));
    let redeemed = one.sessions.redeem(&code, &HeaderMap::new(), &own()).await;
    assert_eq!(redeemed.unwrap_err().status(), unavailable);
    let ended = one.sessions.end(&headers(&[("cookie", &cookie)]), &own()).await;
    assert_eq!(ended.unwrap_err().status(), unavailable);
    assert!(one.sessions.list().await.is_err());
    is_down.store(false, Ordering::Relaxed);
    assert_eq!(one.admits(&cookie, &own()).await, Ok(()), "it was not ended");
}

#[tokio::test]
async fn replicas_have_one_form_token_for_callers_without_a_session() {
    let ([one, other], _) = Rig::replicas();
    let token = async |replica: &Rig| replica.sessions.form_token().await.unwrap();
    assert_eq!(token(&one).await, token(&other).await);
    assert_eq!(token(&one).await, token(&one).await);
    assert_ne!(token(&other).await, other.sessions.shared_form_token);
}
