//! Authorized requests: each carries the current token, and a rejected token is replaced once.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use muster_core::{
    backend::BoxFuture,
    connect::{ConnectError, Connection, ConnectionEvent, ConnectionObserver, Connector as _},
    credentials::BearerToken,
    logins::{AccessTokenSource, LoginError},
};

use super::{
    harness::{connector, http, request},
    http_server::{HttpServer, Reply, legacy, modern},
};

/// Gives tokens by number; after a refusal the next one, up to the last.
#[derive(Debug)]
struct Numbered {
    now: AtomicUsize,
    last: usize,
}

impl AccessTokenSource for Numbered {
    fn token(&self) -> BoxFuture<'_, Result<BearerToken, LoginError>> {
        let token = BearerToken::new(format!("token-{}", self.now.load(Ordering::Relaxed)));
        Box::pin(std::future::ready(Ok(token)))
    }

    fn replace_rejected<'a>(
        &'a self,
        token: &'a BearerToken,
        challenge: Option<&'a str>,
    ) -> BoxFuture<'a, Result<BearerToken, LoginError>> {
        Box::pin(async move {
            assert!(
                challenge.is_some_and(|said| said.starts_with("Bearer error=")),
                "{challenge:?}"
            );
            let now = self.now.load(Ordering::Relaxed);
            assert_eq!(token.reveal(), format!("token-{now}"));
            if now == self.last {
                return Err(LoginError::Required);
            }
            self.now.fetch_add(1, Ordering::Relaxed);
            self.token().await
        })
    }
}

#[derive(Debug)]
struct NoEvents;

impl ConnectionObserver for NoEvents {
    fn on_event(&self, _: ConnectionEvent) {}
}

async fn connect(url: &str, last: usize) -> Result<Arc<dyn Connection>, ConnectError> {
    let access = Arc::new(Numbered { now: AtomicUsize::new(1), last });
    let endpoint = http(url);
    let connected =
        connector().connect(request(&endpoint, Some(access), Arc::new(NoEvents))).await?;
    connected.list().await?;
    Ok(connected)
}

/// A server that takes one token only.
async fn guarded(is_modern: bool, good: &'static str, refusal: (u16, &'static str)) -> HttpServer {
    HttpServer::start(move |request| {
        let refuse = |request: &super::http_server::ReceivedRequest| {
            let good = request.header("authorization") == Some(good);
            (!good).then(|| Reply::Document(refusal.0, refusal.1, String::new()))
        };
        if is_modern { modern(request, refuse) } else { legacy(request, refuse) }
    })
    .await
}

const INVALID: (u16, &str) = (401, "www-authenticate: Bearer error=\"invalid_token\"\r\n");
const MORE: (u16, &str) =
    (403, "www-authenticate: Bearer error=\"insufficient_scope\", scope=\"a\"\r\n");

#[tokio::test]
async fn a_rejected_token_is_replaced_once() {
    for is_modern in [false, true] {
        for refusal in [INVALID, MORE] {
            let web = guarded(is_modern, "Bearer token-2", refusal).await;
            connect(&web.url, 9).await.unwrap();
            let refused = web
                .requests()
                .iter()
                .filter(|request| request.header("authorization") == Some("Bearer token-1"))
                .count();
            assert_eq!(refused, 1, "{is_modern} {refusal:?}");
        }
    }
}

#[tokio::test]
async fn no_request_is_repeated_forever() {
    let web = guarded(true, "Bearer token-9", INVALID).await;
    let error = connect(&web.url, 9).await.map(drop).unwrap_err();
    assert!(matches!(error, ConnectError::Unauthorized { .. }), "{error:?}");
    assert_eq!(web.requests().len(), 2);
}

#[tokio::test]
async fn without_another_token_a_login_is_required() {
    let web = guarded(false, "Bearer token-2", INVALID).await;
    match connect(&web.url, 1).await.map(drop).unwrap_err() {
        ConnectError::Unauthorized { challenge } => {
            assert_eq!(challenge.as_deref(), Some("Bearer error=\"invalid_token\""));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(web.requests().len(), 1);
}

#[tokio::test]
async fn a_forbidden_request_is_not_repeated() {
    let web = guarded(false, "Bearer token-2", (403, "")).await;
    let error = connect(&web.url, 9).await.map(drop).unwrap_err();
    assert!(matches!(error, ConnectError::Permanent(_)), "{error:?}");
    let other = web
        .requests()
        .iter()
        .any(|request| request.header("authorization") != Some("Bearer token-1"));
    assert!(!other);
}
