//! Tokens after a login: refresh, revocation, validation, and their errors.

use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use http::HeaderMap;
use muster_core::{credentials::Authenticator as _, logins::LoginError};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{
    idp::{FakeProvider, Gate, ScriptedResponse, Signer, unsigned},
    shared::SharedStore,
    world::{World, json_of, outcome, peer},
};

const INVALID: &str = "401 invalid_token: Token validation failed";
const UNAVAILABLE: &str =
    "503 temporarily_unavailable: the identity provider is not available (retry)";
const PLAIN: &str = "alice <alice@example.com> []";
const ALICE: &str = "alice <alice@example.com> [\"staff\"]";

type Fault = fn(&FakeProvider);

fn error(status: u16, code: &str) -> ScriptedResponse {
    ScriptedResponse::Json(status, json!({"error": code}))
}

/// Responses of the provider to a refresh: the client's error, and whether its old refresh token still works
/// afterwards.
const REFRESHES: &[(&str, Fault, &str, bool)] = &[
    (
        "500",
        |idp| idp.respond("/token", ScriptedResponse::Text(500, String::new())),
        UNAVAILABLE,
        true,
    ),
    ("silence", |idp| idp.respond("/token", ScriptedResponse::Silence), UNAVAILABLE, true),
    ("broken off", |idp| idp.respond("/token", ScriptedResponse::Break), UNAVAILABLE, true),
    (
        "temporarily_unavailable",
        |idp| idp.respond("/token", error(400, "temporarily_unavailable")),
        UNAVAILABLE,
        true,
    ),
    (
        "a page",
        |idp| idp.respond("/token", ScriptedResponse::Text(200, "<h1>".into())),
        UNAVAILABLE,
        true,
    ),
    ("someone else", |idp| idp.claim("sub", json!("mallory")), UNAVAILABLE, false),
    (
        "revoked",
        |idp| idp.respond("/token", error(400, "invalid_grant")),
        "400 invalid_grant: the identity provider ended the login; log in again",
        false,
    ),
    (
        "our client is gone",
        |idp| idp.respond("/token", error(401, "invalid_client")),
        "400 invalid_grant: the identity provider ended the login; log in again",
        false,
    ),
    (
        "no new refresh token",
        |idp| idp.change("/token", json!({"refresh_token": null})),
        "200",
        false,
    ),
    ("no new ID token", |idp| idp.change("/token", json!({"id_token": null})), "200", false),
];

#[tokio::test]
async fn refreshing_a_login() {
    for (name, fault, expected, still_valid) in REFRESHES {
        let mut world = World::new().await;
        let tokens = world.login().await.unwrap();
        world.advance(600);
        fault(&world.idp);
        assert_eq!(outcome(&world.refresh(&tokens).await), *expected, "{name}");
        world.idp.reset();
        let second = outcome(&world.refresh(&tokens).await);
        assert_eq!(second == "200", *still_valid, "{name}: {second}");
    }
}

#[tokio::test]
async fn fresh_provider_tokens_are_not_refreshed() {
    let mut world = World::new().await;
    let tokens = world.login().await.unwrap();
    let before = world.idp.requests_to("/token");
    let tokens = json_of(&world.refresh(&tokens).await);
    assert_eq!(world.idp.requests_to("/token"), before);
    world.advance(600);
    assert_eq!(world.refresh(&tokens).await.status(), 200);
    assert_eq!(world.idp.requests_to("/token"), before + 1);
    let sent = world.idp.sent.lock().unwrap().join("\n");
    assert!(sent.contains("refresh_token=upstream-refresh-1"), "{sent}");
}

#[tokio::test]
async fn a_refresh_token_works_once() {
    let mut world = World::new().await;
    let first = world.login().await.unwrap();
    let second = json_of(&world.refresh(&first).await);
    assert_eq!(world.who(second["access_token"].as_str().unwrap()).await, ALICE);
    assert_eq!(
        outcome(&world.refresh(&first).await),
        "400 invalid_grant: the refresh token was already used; log in again"
    );
    assert_eq!(
        outcome(&world.refresh(&second).await),
        "400 invalid_grant: the refresh token is not valid"
    );
    assert_eq!(world.who(second["access_token"].as_str().unwrap()).await, INVALID);
}

#[tokio::test]
async fn concurrent_refreshes_have_one_winner() {
    let mut world = World::new().await;
    let tokens = world.login().await.unwrap();
    world.advance(600);
    let before = world.idp.requests_to("/token");
    let world = Arc::new(world);
    let mut all = JoinSet::new();
    for _ in 0..20 {
        let (world, tokens) = (Arc::clone(&world), tokens.clone());
        all.spawn(async move { world.refresh(&tokens).await });
    }
    let ends: Vec<String> = all.join_all().await.iter().map(outcome).collect();
    assert_eq!(ends.iter().filter(|end| *end == "200").count(), 1, "{ends:?}");
    assert_eq!(world.idp.requests_to("/token"), before + 1);
}

#[tokio::test]
async fn logins_expire() {
    let mut world = World::new().await;
    let tokens = world.login().await.unwrap();
    let access = tokens["access_token"].as_str().unwrap();
    world.advance(24 * 3600 + 1);
    assert_eq!(
        outcome(&world.refresh(&tokens).await),
        "400 invalid_grant: the refresh token is not valid"
    );
    assert_eq!(world.who(access).await, INVALID);
}

#[tokio::test]
async fn access_tokens_expire_sooner() {
    let mut world = World::new().await;
    let tokens = world.login().await.unwrap();
    assert_eq!(tokens["expires_in"], 1800);
    world.advance(1801);
    assert_eq!(world.who(tokens["access_token"].as_str().unwrap()).await, INVALID);
    assert_eq!(world.refresh(&tokens).await.status(), 200);
}

#[tokio::test]
async fn revocation() {
    let mut world = World::new().await;
    let tokens = world.login().await.unwrap();
    let access = tokens["access_token"].as_str().unwrap();
    assert_eq!(world.who(access).await, ALICE);
    let client = world.client.clone();
    let revoke = async |token: &str, client: &str| {
        outcome(&world.form("/oauth/revoke", &[("client_id", client), ("token", token)]).await)
    };
    assert_eq!(revoke("made-up", &client).await, "200");
    let wish =
        json!({"redirect_uris": ["https://b.example/"], "token_endpoint_auth_method": "none"});
    let other = json_of(&world.post_json("/oauth/register", &wish, &[]).await);
    assert_eq!(revoke(access, other["client_id"].as_str().unwrap()).await, "200");
    assert_eq!(world.who(access).await, ALICE, "another client cannot revoke it");
    assert_eq!(revoke(access, &client).await, "200");
    assert_eq!(world.who(access).await, INVALID);
    let tokens = json_of(&world.refresh(&tokens).await);
    assert_eq!(revoke(tokens["refresh_token"].as_str().unwrap(), &client).await, "200");
    assert_eq!(world.who(tokens["access_token"].as_str().unwrap()).await, INVALID);
    assert_eq!(
        outcome(&world.refresh(&tokens).await),
        "400 invalid_grant: the refresh token is not valid"
    );
}

/// Responses of the provider about an opaque token.
const OPAQUE: &[(&str, Fault, &str)] = &[
    ("fine", |_| {}, PLAIN),
    ("401", |idp| idp.respond("/userinfo", error(401, "invalid_token")), INVALID),
    (
        "403 without words",
        |idp| idp.respond("/userinfo", ScriptedResponse::Text(403, String::new())),
        INVALID,
    ),
    (
        "500",
        |idp| idp.respond("/userinfo", ScriptedResponse::Text(500, String::new())),
        UNAVAILABLE,
    ),
    (
        "429",
        |idp| idp.respond("/userinfo", ScriptedResponse::Text(429, String::new())),
        UNAVAILABLE,
    ),
    ("silence", |idp| idp.respond("/userinfo", ScriptedResponse::Silence), UNAVAILABLE),
    ("a page", |idp| idp.respond("/userinfo", ScriptedResponse::Text(200, "<h1>".into())), INVALID),
    ("nobody", |idp| idp.change("/userinfo", json!({"sub": null})), INVALID),
    ("the empty name", |idp| idp.change("/userinfo", json!({"sub": ""})), INVALID),
];

#[tokio::test]
async fn opaque_tokens_of_the_provider() {
    for (name, fault, expected) in OPAQUE {
        let world = World::new().await;
        fault(&world.idp);
        assert_eq!(world.who("opaque").await, *expected, "{name}");
        let before = world.idp.requests_to("/userinfo");
        assert_eq!(world.who("opaque").await, *expected, "{name}");
        // The provider can revoke a valid token at any moment; an invalid one is cached.
        assert_eq!(world.idp.requests_to("/userinfo") > before, *expected != INVALID, "{name}");
    }
}

#[tokio::test]
async fn signed_tokens() {
    let world = World::new().await;
    let idp = &world.idp;
    let valid = || claims_for(idp, "kubectl");
    let with = |name: &str, value: Value| {
        let mut claims = valid();
        claims[name] = value;
        idp.signer.sign(&claims)
    };
    let header = |name: &str, value: Value| idp.signer.sign_with(&json!({name: value}), &valid());
    let trusted = |audience: &str| {
        let mut claims = idp.valid_claims();
        claims["iss"] = json!(format!("{}/other", idp.issuer));
        claims["aud"] = json!(audience);
        idp.signer.sign(&claims)
    };
    idp.respond(
        "/other/.well-known/openid-configuration",
        ScriptedResponse::Json(
            200,
            json!({"issuer": format!("{}/other", idp.issuer), "jwks_uri": format!("{}/jwks", idp.issuer)}),
        ),
    );
    let now = idp.now.load(Ordering::SeqCst);
    for (name, token, expected) in [
        ("for a trusted audience", idp.signer.sign(&valid()), ALICE),
        ("for the gateway's own client id", with("aud", json!("muster")), INVALID),
        ("for another audience", with("aud", json!("someone")), INVALID),
        ("expired", with("exp", json!(now - 100)), INVALID),
        ("unsigned", unsigned("none", &valid()), INVALID),
        ("signed by a shared secret", unsigned("HS256", &valid()), INVALID),
        ("with an unknown critical header", header("crit", json!(["exp"])), INVALID),
        ("logout token", header("typ", json!("logout+jwt")), INVALID),
        (
            "logout token with the full type",
            header("typ", json!("application/Logout+JWT")),
            INVALID,
        ),
        ("JWT type", header("typ", json!("JWT")), ALICE),
        ("by another key", Signer::new("one").sign(&valid()), INVALID),
        ("of an unknown issuer", with("iss", json!("https://evil.example")), INVALID),
        ("of a trusted issuer", trusted("gateway"), ALICE),
        ("of a trusted issuer for our provider's client", trusted("muster"), INVALID),
    ] {
        assert_eq!(world.who(&token).await, expected, "{name}");
    }
    // The same subject at another issuer is another principal.
    let ours = world.authenticate(&idp.signer.sign(&valid())).await.unwrap();
    let theirs = world.authenticate(&trusted("gateway")).await.unwrap();
    assert_ne!(ours.id, theirs.id);
    // Servers with `forwardToken` get it as it is.
    assert!(theirs.identity.is_some());
}

#[tokio::test]
async fn a_forwarded_id_token_does_not_authenticate() {
    let mut world = World::new().await;
    let tokens = world.login().await.unwrap();
    let principal = world.authenticate(tokens["access_token"].as_str().unwrap()).await.unwrap();
    let forwarded = principal.identity.clone().unwrap().id_token().await.unwrap().unwrap();
    let forwarded = forwarded.reveal();
    let before = world.idp.requests_to("/userinfo");
    let (signed, signature) = forwarded.rsplit_once('.').unwrap();
    let (head, claims) = signed.split_once('.').unwrap();
    // 64 bytes leave four bits of the last character unused, which lenient decoders ignore.
    let mut other = forwarded.to_owned();
    let last = other.pop().and_then(|last| char::from_u32(u32::from(last) + 1));
    other.extend(last);
    let json = format!(
        r#"{{"x":".{claims}.","payload":"{claims}","protected":"{head}","signature":"{signature}"}}"#
    );
    for token in
        [forwarded.to_owned(), other, format!("{forwarded}="), format!("{forwarded}.x.y"), json]
    {
        let error = world.who(&token).await;
        assert!(error.starts_with("401 invalid_token"), "{token}: {error}");
    }
    // The provider, which may be more lenient, is not asked either.
    assert_eq!(world.idp.requests_to("/userinfo"), before);
    // The operator can allow it.
    let mut world = World::with(|config| config.trusted_audiences.push("muster".to_owned())).await;
    world.server.discover_provider().await;
    let tokens = world.login().await.unwrap();
    let principal = world.authenticate(tokens["access_token"].as_str().unwrap()).await.unwrap();
    let forwarded = principal.identity.clone().unwrap().id_token().await.unwrap().unwrap();
    assert_eq!(world.who(forwarded.reveal()).await, ALICE);
}

/// The claims of a valid ID token for an audience.
fn claims_for(idp: &FakeProvider, audience: &str) -> Value {
    let mut claims = idp.valid_claims();
    claims["aud"] = json!(audience);
    claims
}

#[tokio::test]
async fn a_key_is_used_with_its_algorithm_only() {
    let world = World::new().await;
    let idp = &world.idp;
    let token = idp.signer.sign(&claims_for(idp, "kubectl"));
    let mut key = idp.signer.jwk();
    key["alg"] = json!("ES384");
    idp.change("/jwks", json!({"keys": [key]}));
    assert_eq!(world.who(&token).await, INVALID);
}

#[tokio::test]
async fn a_logout_revokes_the_providers_tokens() {
    let mut world = World::undiscovered().await;
    let at = |path: &str| json!(format!("{}{path}", world.idp.issuer));
    let more = json!({"revocation_endpoint": at("/revoke")});
    world.idp.change("/.well-known/openid-configuration", more);
    world.server.discover_provider().await;
    let tokens = world.login().await.unwrap();
    let client = world.client.clone();
    let revoke = async |token: &str| {
        outcome(&world.form("/oauth/revoke", &[("client_id", &client), ("token", token)]).await)
    };
    // Revoking an access token does not end the login.
    assert_eq!(revoke(tokens["access_token"].as_str().unwrap()).await, "200");
    assert_eq!(world.idp.requests_to("/revoke"), 0);
    assert_eq!(revoke(tokens["refresh_token"].as_str().unwrap()).await, "200");
    let sent = world.idp.sent.lock().unwrap().pop().unwrap();
    assert!(sent.starts_with("token=upstream-refresh-"), "{sent}");
    assert!(sent.contains("token_type_hint=refresh_token"), "{sent}");
    // An unavailable provider does not prevent a logout.
    let mut world = world;
    let tokens = world.login().await.unwrap();
    world.idp.respond("/revoke", ScriptedResponse::Silence);
    let refresh = tokens["refresh_token"].as_str().unwrap();
    let fields = [("client_id", world.client.as_str()), ("token", refresh)];
    assert_eq!(outcome(&world.form("/oauth/revoke", &fields).await), "200");
    assert_eq!(world.who(tokens["access_token"].as_str().unwrap()).await, INVALID);
}

#[tokio::test]
async fn an_unavailable_provider_does_not_end_a_login() {
    let mut world = World::new().await;
    let tokens = world.login().await.unwrap();
    let principal = world.authenticate(tokens["access_token"].as_str().unwrap()).await.unwrap();
    let id_tokens = principal.identity.clone().unwrap();
    world.advance(600);
    for response in [
        ScriptedResponse::Silence,
        ScriptedResponse::Break,
        ScriptedResponse::Text(503, String::new()),
    ] {
        world.idp.respond("/token", response);
        let error = id_tokens.id_token().await.unwrap_err();
        let away = LoginError::Unavailable("the identity provider is not available".to_owned());
        assert_eq!(error, away);
    }
    world.idp.reset();
    assert!(id_tokens.id_token().await.unwrap().is_some());
    world.advance(600);
    world.idp.respond("/token", error(400, "invalid_grant"));
    assert_eq!(id_tokens.id_token().await, Ok(None));
}

#[tokio::test]
async fn a_refresh_does_not_revive_a_login_that_has_ended() {
    let mut world = World::with(|config| config.provider.timeout = Duration::from_secs(20)).await;
    let at = json!(format!("{}/revoke", world.idp.issuer));
    world.idp.change("/.well-known/openid-configuration", json!({"revocation_endpoint": at}));
    world.server.discover_provider().await;
    let tokens = world.login().await.unwrap();
    let access = tokens["access_token"].as_str().unwrap();
    let id_tokens = world.authenticate(access).await.unwrap().identity.clone().unwrap();
    world.advance(600);
    let gate = Arc::new(Gate::default());
    world.idp.respond("/token", ScriptedResponse::Held(Arc::clone(&gate)));
    let mut refreshing = JoinSet::new();
    let source = Arc::clone(&id_tokens);
    refreshing.spawn(async move { source.id_token().await.unwrap().is_some() });
    gate.arrived.notified().await;
    // The user logs out while the provider refreshes.
    let refresh = tokens["refresh_token"].as_str().unwrap();
    let fields = [("client_id", world.client.as_str()), ("token", refresh)];
    assert_eq!(outcome(&world.form("/oauth/revoke", &fields).await), "200");
    gate.open.notify_one();
    assert_eq!(refreshing.join_all().await, [false]);
    assert_eq!(world.who(access).await, INVALID);
    // The old and the new refresh token are revoked.
    let sent = world.idp.sent.lock().unwrap().clone();
    let revoked = sent.iter().filter(|body| body.starts_with("token=upstream-refresh-"));
    let revoked: BTreeSet<&String> = revoked.collect();
    assert_eq!(revoked.len(), 2, "{sent:?}");
}

#[tokio::test]
async fn a_crash_during_a_refresh_leaves_the_old_token_valid() {
    let stored = Arc::new(std::sync::OnceLock::new());
    let slot = Arc::clone(&stored);
    let mut world = World::with_store(move |clock| {
        let store = SharedStore::new(clock);
        slot.set(Arc::clone(&store)).unwrap();
        store
    })
    .await;
    let store = stored.get().unwrap();
    world.server.discover_provider().await;
    let tokens = world.login().await.unwrap();
    store.claims_fail.store(true, Ordering::SeqCst);
    assert_eq!(world.refresh(&tokens).await.status(), 503);
    store.claims_fail.store(false, Ordering::SeqCst);
    assert_eq!(world.refresh(&tokens).await.status(), 200);
    assert!(outcome(&world.refresh(&tokens).await).contains("already used"));
}

#[tokio::test]
async fn invalid_authorization_headers() {
    let world = World::new().await;
    for (lines, expected) in [
        (vec![], "401 invalid_token: Missing Authorization header"),
        (vec!["Basic eDp5"], "401 invalid_token: Invalid Authorization header format"),
        (vec!["Bearer"], "401 invalid_token: Invalid Authorization header format"),
        (vec!["Bearer  "], "401 invalid_token: Invalid Authorization header format"),
        (vec!["Bearer a b"], "401 invalid_token: Invalid Authorization header format"),
        (vec!["Bearer a", "Bearer b"], "401 invalid_token: Invalid Authorization header format"),
    ] {
        let mut headers = HeaderMap::new();
        for line in &lines {
            headers.append("authorization", line.parse().unwrap());
        }
        let reply = world.server.authenticate(&headers, &peer()).await.unwrap_err();
        assert_eq!(outcome(&reply), expected, "{lines:?}");
        let challenge = reply.headers()["www-authenticate"].to_str().unwrap();
        assert!(
            challenge.starts_with(
                "Bearer resource_metadata=\"https://gate.example/.well-known/oauth-protected-resource\", \
                 scope=\"openid profile email groups\", error=\"invalid_token\""
            ),
            "{challenge}"
        );
    }
}

#[tokio::test]
async fn invalid_opaque_tokens_do_not_flood_the_provider() {
    let world = World::new().await;
    assert_eq!(world.who("opaque-valid").await, PLAIN);
    let lookups = world.idp.requests_to("/userinfo");
    let mut limited = 0;
    for number in 0..500 {
        let error = world.who(&format!("invalid-{number}")).await;
        limited += usize::from(error.contains("too many invalid tokens"));
        assert!(error == INVALID || error.ends_with("(retry)"), "{error}");
    }
    let lookups = world.idp.requests_to("/userinfo") - lookups;
    assert!(lookups < 60 && limited > 400, "{lookups} lookups, {limited} limited");
    // A token that was valid before is still looked up.
    assert_eq!(world.who("opaque-valid").await, PLAIN);
}
