//! Codes, cookies and whose they are.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use muster_core::{
    backend::BoxFuture,
    call::{Caller, Role},
    credentials::{Admission, Authenticator, Peer},
};
use rustix::process::geteuid;

use super::{BrowserSessions, CODE_TTL, MAX_SESSIONS, SESSION_TTL};
use crate::clock::Clock;

/// Takes `Bearer good` for an operator, and all others for agents.
#[derive(Debug, Default)]
struct Guard {
    is_revoked: std::sync::atomic::AtomicBool,
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
        set.split(';').next().unwrap().to_owned()
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
    let set = rig.sessions.redeem(&code, &none, &own()).await.unwrap();
    assert!(set.starts_with("muster-console-8090="), "{set}");
    assert!(set.ends_with("; Path=/console; Max-Age=43200; HttpOnly; SameSite=Strict"), "{set}");
    assert_eq!(rig.sessions.redeem(&code, &none, &own()).await, None);
    assert_eq!(rig.sessions.redeem("guess", &none, &own()).await, None);
    let late = rig.code("localhost:8090").await;
    rig.pass(CODE_TTL);
    assert_eq!(rig.sessions.redeem(&late, &none, &own()).await, None);
    let code = rig.code("gate.example").await;
    let set = rig.sessions.redeem(&code, &headers(&[("x-forwarded-proto", "https")]), &own()).await;
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
    assert!(rig.sessions.end(&sent, &own()).await.contains("Max-Age=0"));
    assert_eq!(rig.admits(&cookie, &own()).await, Err(StatusCode::FORBIDDEN), "it was ended");
}

/// Another user of the machine receives the cookie with a server on another port.
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
        assert_eq!(rig.sessions.redeem(&code, &HeaderMap::new(), &other()).await, None, "{host}");
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
