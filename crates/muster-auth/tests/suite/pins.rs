//! What whoever runs the gateway says about issuers: whom a server trusts, and who may see which secret.

use std::{
    fs,
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use muster_auth::client::Options;
use muster_core::{
    backend::BoxFuture,
    credentials::{BearerToken, IdTokenSource, Principal},
    logins::{LoginError, LoginSubject, ProtectedServer},
    server_auth::{AuthorizationServer, SecretRef, TokenExchange},
};
use muster_net::{AddressPolicy, TrustStore};
use serde_json::json;

use crate::{
    client_world::{Canned, World, person, shown},
    idp::b64,
    tls::Secure,
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
    // The server names somebody else, or nobody: it is not even asked.
    let elsewhere =
        json!({"resource": "$base/mcp", "authorization_servers": ["https://evil.example"]});
    let path = "/.well-known/oauth-protected-resource/mcp";
    world.issuer.answers(path, Canned(200, "", elsewhere.to_string()));
    let site = pinned(&world, "$base", "one two");
    let asked = world.begin("alice", &site).await.unwrap();
    assert_eq!((asked["scope"].as_str(), &asked["resource"]), ("one two", &site.url));
    assert!(world.issuer.asked(path).is_empty());
    assert_eq!(world.log_in("alice", &site, &[]).await, "access-1");
    assert_eq!(world.logins.issuer(&site).issuer, world.issuer.base);
    // What the server wants counts if nothing was pinned.
    let mut site = pinned(&world, "$base", "");
    site.challenge = Some("Bearer scope=\"wanted\"".to_owned());
    assert_eq!(world.begin("alice", &site).await.unwrap()["scope"], "wanted");
}

#[tokio::test]
async fn a_pinned_issuer_must_be_who_it_is() {
    let world = World::new().await;
    world.issuer.says("issuer", json!("https://other.example"));
    let site = pinned(&world, "$base", "");
    let got = world.log_in("alice", &site, &[]).await.replace(&world.issuer.base, "$base");
    assert_eq!(
        got,
        "no address: the issuer `$base` describes itself as `https://other.example`: someone may pretend \
         to be it"
    );
    let site = pinned(&world, "ftp://x", "");
    let got = world.log_in("alice", &site, &[]).await;
    assert!(got.ends_with("`ftp://x` is no issuer"), "{got}");
}

#[tokio::test]
async fn a_secret_is_shown_to_the_issuer_that_gave_it() {
    let with = async |issuer: fn(&World) -> String| {
        let world = World::new().await;
        let options = Options {
            client_id: "registered".to_owned(),
            client_secret: Some("canary".to_owned().into()),
            client_issuer: issuer(&world),
            ..Options::new("http://localhost:8090/")
        };
        let world = world.beside_as(options, TrustStore::system());
        assert_eq!(world.log_in("alice", &world.site("/mcp"), &[]).await, "access-1");
        let asked = world.issuer.asked("/token").pop().unwrap();
        (asked.form.get("client_id").cloned(), asked.authorization)
    };
    let basic = "Basic cmVnaXN0ZXJlZDpjYW5hcnk=".to_owned();
    assert_eq!(with(|_| String::new()).await, (None, Some(basic.clone())));
    assert_eq!(with(|world| world.issuer.base.clone()).await, (None, Some(basic)));
    // Elsewhere the gateway registers itself.
    let elsewhere = with(|_| "https://other.example".to_owned()).await;
    assert_eq!(elsewhere, (Some("client-1".to_owned()), None));
}

/// A token that says who it is about, and is signed by nobody.
fn token(issuer: &str, subject: &str) -> String {
    let claims = json!({"iss": issuer, "sub": subject, "exp": 9_999_999_999_u64});
    format!("{}.{}.c2ln", b64(b"{\"alg\":\"ES256\"}"), b64(claims.to_string().as_bytes()))
}

#[derive(Debug)]
struct Shows(Option<String>);

impl IdTokenSource for Shows {
    fn id_token(&self) -> BoxFuture<'_, Result<Option<BearerToken>, LoginError>> {
        Box::pin(std::future::ready(Ok(self.0.as_deref().map(BearerToken::new))))
    }
}

/// Someone whom `issuer` vouches for.
fn vouched(issuer: &str, shows: Option<String>) -> LoginSubject {
    let principal = Principal {
        id: "alice".into(),
        issuer: issuer.into(),
        subject: "alice".into(),
        email: None,
        name: None,
        groups: Arc::from([]),
        login: "login".into(),
        identity: Some(Arc::new(Shows(shows))),
    };
    LoginSubject { owner: person("alice").owner, principal: Some(Arc::new(principal)) }
}

#[tokio::test]
async fn an_identity_is_not_passed_on_by_whom_it_was_not_meant_for() {
    let world = World::new().await;
    let id = token(&world.issuer.base, "alice");
    let given =
        json!({"access_token": "a", "expires_in": 3600, "refresh_token": "r", "id_token": id});
    world.issuer.answers("/token", Canned(200, "", given.to_string()));
    assert_eq!(world.log_in("alice", &world.site("/mcp"), &[]).await, "a");
    let mut site = world.site("/sso");
    site.auth.forward_token = true;
    let got = async |person: &LoginSubject| match world.logins.access(person, &site).await {
        Ok(access) => shown(access.token().await),
        Err(error) => error.to_string(),
    };
    let none = "no ID token available for forwarding";
    // The login at one server is no proof at another, unless the same issuer made both.
    assert_eq!(got(&vouched("https://dex.example", None)).await, none);
    assert_eq!(got(&vouched(&world.issuer.base, None)).await, id);
    let own = token("https://dex.example", "alice");
    assert_eq!(got(&vouched("https://dex.example", Some(own.clone()))).await, own);
    // Where nobody logs in to the gateway there is nothing else to show.
    assert_eq!(got(&person("alice")).await, id);
}

#[tokio::test]
async fn the_page_says_whose_login_it_has_become() {
    let world = World::new().await;
    let alice = vouched("https://dex.example", None);
    let asked = world.begin_as(&alice, &world.site("/mcp")).await.unwrap();
    // Somebody else was made to open the address.
    assert_eq!(
        world.open(&[("state", &asked["state"]), ("code", "good")]).await,
        "200 Signed in: You are signed in to mcp. It is alice who uses this sign-in from now on; if that is \
         not you, take it back at the provider. You can close this window and go on."
    );
}

#[tokio::test]
async fn tokens_are_exchanged_with_the_credentials_that_are_named() {
    let world = World::new().await;
    let remote = Secure::start(world.tasks()).await;
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("creds");
    fs::create_dir(&secret).unwrap();
    fs::write(secret.join("client-id"), "exchanger\n").unwrap();
    fs::write(secret.join("client-secret"), "canary\n").unwrap();
    let options = Options {
        secrets: Some(folder.path().to_owned()),
        reach: AddressPolicy::Loopback,
        ..Options::new("http://localhost:8090/")
    };
    let trust = TrustStore::system().with_pem(remote.authority.as_bytes()).unwrap();
    let world = world.beside_as(options, trust);
    let exchanged = token(&remote.base, "alice");
    let given = json!({"access_token": exchanged, "token_type": "bearer", "expires_in": 300});
    *remote.says.lock().unwrap() = given.to_string();
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
    let alice = vouched("https://dex.example", Some(own));
    let access = world.logins.access(&alice, &site).await.unwrap();
    assert_eq!(shown(access.token().await), exchanged);
    let asked = remote.asked.lock().unwrap().pop().unwrap();
    assert!(asked.contains("authorization: Basic ZXhjaGFuZ2VyOmNhbmFyeQ=="), "{asked}");
    let exchange = site.auth.token_exchange.as_mut().unwrap();
    exchange.client_credentials_secret_ref = Some(named("nope"));
    let error = world.logins.access(&alice, &site).await.unwrap_err();
    let LoginError::Refused(reason) = error else { panic!("{error}") };
    assert!(reason.contains("nope/client-id"), "{reason}");
}

#[test]
fn tokens_are_exchanged_again_when_they_end() {
    let (done, end) = mpsc::channel();
    // On a thread of its own, so that an exchange that waits for itself is seen.
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(exchange_three_times());
        done.send(()).unwrap();
    });
    end.recv_timeout(Duration::from_secs(20)).unwrap();
}

async fn exchange_three_times() {
    let world = World::new().await;
    let remote = Secure::start(world.tasks()).await;
    let options =
        Options { reach: AddressPolicy::Loopback, ..Options::new("http://localhost:8090/") };
    let trust = TrustStore::system().with_pem(remote.authority.as_bytes()).unwrap();
    let world = world.beside_as(options, trust);
    let gives = |subject: &str| {
        let token = token(&remote.base, subject);
        let given = json!({"access_token": token, "token_type": "bearer", "expires_in": 300});
        *remote.says.lock().unwrap() = given.to_string();
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
    let alice = vouched("https://dex.example", Some(token("https://dex.example", "alice")));
    let access = world.logins.access(&alice, &site).await.unwrap();
    assert_eq!(shown(access.token().await), first);
    // It is about to end.
    let second = gives("second");
    world.later(290);
    assert_eq!(shown(access.token().await), second);
    // It is not taken any more.
    let third = gives("third");
    assert_eq!(shown(access.replace_rejected(&BearerToken::new(second), None).await), third);
    assert_eq!(remote.asked.lock().unwrap().len(), 3);
}

#[tokio::test]
async fn a_stranger_behind_tls_is_not_believed() {
    let world = World::new().await;
    let remote = Secure::start(world.tasks()).await;
    let site = pinned(&world, &remote.base, "");
    let got = world.log_in("alice", &site, &[]).await;
    assert!(got.contains("no TLS with `localhost`"), "{got}");
}
