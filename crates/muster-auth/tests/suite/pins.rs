//! The operator's settings for issuers: pinned issuers, and which issuer may see which secret.

use std::{
    fs,
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use muster_auth::client::OAuthClientOptions;
use muster_core::{
    backend::BoxFuture,
    credentials::{BearerToken, IdTokenSource, Principal},
    logins::{LoginError, LoginSubject, ProtectedServer},
    server_auth::{AuthorizationServer, SecretRef, TokenExchange},
};
use muster_net::{AddressPolicy, TrustStore};
use serde_json::json;

use crate::{
    client_world::{Canned, World, person, token_text},
    idp::b64,
    tls::TlsServer,
};

fn pinned(world: &World, issuer: &str, scopes: &str) -> ProtectedServer {
    let mut site = world.site("/mcp");
    let issuer = issuer.replace("$base", &world.issuer.base);
    let pin = AuthorizationServer { issuer, scopes: scopes.to_owned() };
    site.auth.authorization_server = Some(pin);
    site
}

#[tokio::test]
async fn the_issuer_of_a_server_can_be_pinned() {
    let world = World::new().await;
    // The server's own metadata is not requested.
    let elsewhere =
        json!({"resource": "$base/mcp", "authorization_servers": ["https://evil.example"]});
    let path = "/.well-known/oauth-protected-resource/mcp";
    world.issuer.respond_with(path, Canned(200, "", elsewhere.to_string()));
    let site = pinned(&world, "$base", "one two");
    let asked = world.begin("alice", &site).await.unwrap();
    assert_eq!((asked["scope"].as_str(), &asked["resource"]), ("one two", &site.url));
    assert!(world.issuer.requests(path).is_empty());
    assert_eq!(world.log_in("alice", &site, &[]).await, "access-1");
    assert_eq!(world.logins.issuer(&site).issuer, world.issuer.base);
    // Without pinned scopes, those of the challenge are requested.
    let mut site = pinned(&world, "$base", "");
    site.challenge = Some("Bearer scope=\"wanted\"".to_owned());
    assert_eq!(world.begin("alice", &site).await.unwrap()["scope"], "wanted");
}

#[tokio::test]
async fn a_pinned_issuer_must_identify_itself() {
    let world = World::new().await;
    world.issuer.set_metadata("issuer", json!("https://other.example"));
    let site = pinned(&world, "$base", "");
    let got = world.log_in("alice", &site, &[]).await.replace(&world.issuer.base, "$base");
    assert_eq!(
        got,
        "no URL: the issuer `$base` describes itself as `https://other.example`: it may be an impostor"
    );
    let site = pinned(&world, "ftp://x", "");
    let got = world.log_in("alice", &site, &[]).await;
    assert!(got.ends_with("`ftp://x` is not an issuer URL"), "{got}");
}

#[tokio::test]
async fn a_client_secret_is_sent_to_its_issuer_only() {
    let with = async |issuer: fn(&World) -> String| {
        let world = World::new().await;
        let options = OAuthClientOptions {
            client_id: "registered".to_owned(),
            client_secret: Some("canary".to_owned().into()),
            client_issuer: issuer(&world),
            ..OAuthClientOptions::new("http://localhost:8090/")
        };
        let world = world.second_gateway_as(options, TrustStore::system());
        assert_eq!(world.log_in("alice", &world.site("/mcp"), &[]).await, "access-1");
        let asked = world.issuer.requests("/token").pop().unwrap();
        (asked.form.get("client_id").cloned(), asked.authorization)
    };
    let basic = "Basic cmVnaXN0ZXJlZDpjYW5hcnk=".to_owned();
    assert_eq!(with(|_| String::new()).await, (None, Some(basic.clone())));
    assert_eq!(with(|world| world.issuer.base.clone()).await, (None, Some(basic)));
    // At other issuers the gateway registers.
    let elsewhere = with(|_| "https://other.example".to_owned()).await;
    assert_eq!(elsewhere, (Some("client-1".to_owned()), None));
}

/// A token with claims and an invalid signature.
fn token(issuer: &str, subject: &str) -> String {
    let claims = json!({"iss": issuer, "sub": subject, "exp": 9_999_999_999_u64});
    format!("{}.{}.c2ln", b64(b"{\"alg\":\"ES256\"}"), b64(claims.to_string().as_bytes()))
}

#[derive(Debug)]
struct FixedIdToken(Option<String>);

impl IdTokenSource for FixedIdToken {
    fn id_token(&self) -> BoxFuture<'_, Result<Option<BearerToken>, LoginError>> {
        Box::pin(std::future::ready(Ok(self.0.as_deref().map(BearerToken::new))))
    }
}

/// A user whose login to the gateway is from `issuer`.
fn user_of(issuer: &str, id_token: Option<String>) -> LoginSubject {
    let principal = Principal {
        id: "alice".into(),
        issuer: issuer.into(),
        subject: "alice".into(),
        email: None,
        name: None,
        groups: Arc::from([]),
        login: "login".into(),
        identity: Some(Arc::new(FixedIdToken(id_token))),
        client: None,
    };
    LoginSubject { owner: person("alice").owner, principal: Some(Arc::new(principal)) }
}

#[tokio::test]
async fn an_id_token_is_forwarded_only_within_its_issuer() {
    let world = World::new().await;
    let id = token(&world.issuer.base, "alice");
    let response =
        json!({"access_token": "a", "expires_in": 3600, "refresh_token": "r", "id_token": id});
    world.issuer.respond_with("/token", Canned(200, "", response.to_string()));
    assert_eq!(world.log_in("alice", &world.site("/mcp"), &[]).await, "a");
    let mut site = world.site("/sso");
    site.auth.forward_token = true;
    let got = async |person: &LoginSubject| match world.logins.access(person, &site).await {
        Ok(access) => token_text(access.token().await),
        Err(error) => error.to_string(),
    };
    let none = "no ID token available for forwarding";
    // The ID token of a login at a server is used elsewhere only if it is from the same issuer.
    assert_eq!(got(&user_of("https://dex.example", None)).await, none);
    assert_eq!(got(&user_of(&world.issuer.base, None)).await, id);
    let own = token("https://dex.example", "alice");
    assert_eq!(got(&user_of("https://dex.example", Some(own.clone()))).await, own);
    // Without logins to the gateway there is no other ID token.
    assert_eq!(got(&person("alice")).await, id);
}

#[tokio::test]
async fn the_page_names_the_user_who_gets_the_login() {
    let world = World::new().await;
    let alice = user_of("https://dex.example", None);
    let asked = world.begin_as(&alice, &world.site("/mcp")).await.unwrap();
    // An attacker may have sent the URL to another user.
    assert_eq!(
        world.open(&[("state", &asked["state"]), ("code", "good")]).await,
        "200 Signed in: You are signed in to mcp. alice uses this sign-in from now on; if that is not \
         you, revoke it at the provider. You can close this window."
    );
}

#[tokio::test]
async fn token_exchange_uses_the_configured_credentials() {
    let world = World::new().await;
    let remote = TlsServer::start(world.tasks()).await;
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("creds");
    fs::create_dir(&secret).unwrap();
    fs::write(secret.join("client-id"), "exchanger\n").unwrap();
    fs::write(secret.join("client-secret"), "canary\n").unwrap();
    let options = OAuthClientOptions {
        secrets: Some(folder.path().to_owned()),
        policy: AddressPolicy::Loopback,
        ..OAuthClientOptions::new("http://localhost:8090/")
    };
    let trust = TrustStore::system().with_pem(remote.authority.as_bytes()).unwrap();
    let world = world.second_gateway_as(options, trust);
    let exchanged = token(&remote.base, "alice");
    let response = json!({"access_token": exchanged, "token_type": "bearer", "expires_in": 300});
    *remote.document.lock().unwrap() = response.to_string();
    let mut site = world.site("/sso");
    let named = |name: &str| SecretRef { name: name.to_owned(), ..SecretRef::default() };
    site.auth.token_exchange = Some(TokenExchange {
        enabled: true,
        dex_token_endpoint: format!("{}/token", remote.base),
        connector_id: "here".to_owned(),
        client_credentials_secret_ref: Some(named("creds")),
        ..TokenExchange::default()
    });
    let own = token("https://dex.example", "alice");
    let alice = user_of("https://dex.example", Some(own));
    let access = world.logins.access(&alice, &site).await.unwrap();
    assert_eq!(token_text(access.token().await), exchanged);
    let asked = remote.requests.lock().unwrap().pop().unwrap();
    assert!(asked.contains("authorization: Basic ZXhjaGFuZ2VyOmNhbmFyeQ=="), "{asked}");
    let exchange = site.auth.token_exchange.as_mut().unwrap();
    exchange.client_credentials_secret_ref = Some(named("nope"));
    let error = world.logins.access(&alice, &site).await.unwrap_err();
    let LoginError::Refused(reason) = error else { panic!("{error}") };
    assert!(reason.contains("nope/client-id"), "{reason}");
}

#[test]
fn expired_and_refused_tokens_are_exchanged_again() {
    let (done, end) = mpsc::channel();
    // On its own thread, so that a deadlock fails the test instead of hanging it.
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(exchange_three_times());
        done.send(()).unwrap();
    });
    end.recv_timeout(Duration::from_secs(20)).unwrap();
}

async fn exchange_three_times() {
    let world = World::new().await;
    let remote = TlsServer::start(world.tasks()).await;
    let options = OAuthClientOptions {
        policy: AddressPolicy::Loopback,
        ..OAuthClientOptions::new("http://localhost:8090/")
    };
    let trust = TrustStore::system().with_pem(remote.authority.as_bytes()).unwrap();
    let world = world.second_gateway_as(options, trust);
    let gives = |subject: &str| {
        let token = token(&remote.base, subject);
        let response = json!({"access_token": token, "token_type": "bearer", "expires_in": 300});
        *remote.document.lock().unwrap() = response.to_string();
        token
    };
    let mut site = world.site("/sso");
    site.auth.token_exchange = Some(TokenExchange {
        enabled: true,
        dex_token_endpoint: format!("{}/token", remote.base),
        connector_id: "here".to_owned(),
        ..TokenExchange::default()
    });
    let first = gives("first");
    let alice = user_of("https://dex.example", Some(token("https://dex.example", "alice")));
    let access = world.logins.access(&alice, &site).await.unwrap();
    assert_eq!(token_text(access.token().await), first);
    // It expires soon.
    let second = gives("second");
    world.advance(290);
    assert_eq!(token_text(access.token().await), second);
    // The server refuses it.
    let third = gives("third");
    assert_eq!(token_text(access.replace_rejected(&BearerToken::new(second), None).await), third);
    assert_eq!(remote.requests.lock().unwrap().len(), 3);
}

#[tokio::test]
async fn an_untrusted_certificate_is_refused() {
    let world = World::new().await;
    let remote = TlsServer::start(world.tasks()).await;
    let site = pinned(&world, &remote.base, "");
    let got = world.log_in("alice", &site, &[]).await;
    assert!(got.contains("no TLS with `localhost`"), "{got}");
}
