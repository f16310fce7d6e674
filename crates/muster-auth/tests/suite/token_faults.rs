//! What may go wrong with tokens after a login, and what comes of it.

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
    idp::{Gate, Idp, Say, Signer, unsigned},
    shared::Shared,
    world::{World, json_of, outcome},
};

const BAD: &str = "401 invalid_token: Token validation failed";
const LATER: &str =
    "503 temporarily_unavailable: the identity provider is not available, come again";
const PLAIN: &str = "alice <alice@example.com> []";
const ALICE: &str = "alice <alice@example.com> [\"staff\"]";

type Fault = fn(&Idp);

fn error(status: u16, code: &str) -> Say {
    Say::Json(status, json!({"error": code}))
}

/// The provider's answers when a login is renewed: what the client is told, and whether its old token
/// still works when all is well again.
const RENEWALS: &[(&str, Fault, &str, bool)] = &[
    ("500", |idp| idp.say("/token", Say::Text(500, String::new())), LATER, true),
    ("silence", |idp| idp.say("/token", Say::Silence), LATER, true),
    ("broken off", |idp| idp.say("/token", Say::Break), LATER, true),
    (
        "temporarily_unavailable",
        |idp| idp.say("/token", error(400, "temporarily_unavailable")),
        LATER,
        true,
    ),
    ("a page", |idp| idp.say("/token", Say::Text(200, "<h1>".into())), LATER, true),
    ("someone else", |idp| idp.claim("sub", json!("mallory")), LATER, false),
    (
        "revoked",
        |idp| idp.say("/token", error(400, "invalid_grant")),
        "400 invalid_grant: the identity provider ended the login; log in again",
        false,
    ),
    (
        "our client is gone",
        |idp| idp.say("/token", error(401, "invalid_client")),
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
async fn renewing_a_login() {
    for (name, fault, expected, again) in RENEWALS {
        let mut world = World::new().await;
        let tokens = world.login().await.unwrap();
        world.pass(600);
        fault(&world.idp);
        assert_eq!(outcome(&world.refresh(&tokens).await), *expected, "{name}");
        world.idp.well();
        let second = outcome(&world.refresh(&tokens).await);
        assert_eq!(second == "200", *again, "{name}: {second}");
    }
}

#[tokio::test]
async fn a_provider_that_is_fresh_is_not_asked() {
    let mut world = World::new().await;
    let tokens = world.login().await.unwrap();
    let asked = world.idp.times("/token");
    let tokens = json_of(&world.refresh(&tokens).await);
    assert_eq!(world.idp.times("/token"), asked);
    world.pass(600);
    assert_eq!(world.refresh(&tokens).await.status(), 200);
    assert_eq!(world.idp.times("/token"), asked + 1);
    let sent = world.idp.sent.lock().unwrap().join("\n");
    assert!(sent.contains("refresh_token=upstream-refresh-1"), "{sent}");
}

#[tokio::test]
async fn a_refresh_token_is_good_for_one_use() {
    let mut world = World::new().await;
    let first = world.login().await.unwrap();
    let second = json_of(&world.refresh(&first).await);
    assert_eq!(world.who(second["access_token"].as_str().unwrap()).await, ALICE);
    assert_eq!(
        outcome(&world.refresh(&first).await),
        "400 invalid_grant: the refresh token was used before; log in again"
    );
    assert_eq!(
        outcome(&world.refresh(&second).await),
        "400 invalid_grant: the refresh token is not valid"
    );
    assert_eq!(world.who(second["access_token"].as_str().unwrap()).await, BAD);
}

#[tokio::test]
async fn of_many_who_renew_at_once_one_wins_and_none_stays() {
    let mut world = World::new().await;
    let tokens = world.login().await.unwrap();
    world.pass(600);
    let asked = world.idp.times("/token");
    let world = Arc::new(world);
    let mut all = JoinSet::new();
    for _ in 0..20 {
        let (world, tokens) = (Arc::clone(&world), tokens.clone());
        all.spawn(async move { world.refresh(&tokens).await });
    }
    let ends: Vec<String> = all.join_all().await.iter().map(outcome).collect();
    assert_eq!(ends.iter().filter(|end| *end == "200").count(), 1, "{ends:?}");
    assert_eq!(world.idp.times("/token"), asked + 1);
}

#[tokio::test]
async fn logins_end() {
    let mut world = World::new().await;
    let tokens = world.login().await.unwrap();
    let access = tokens["access_token"].as_str().unwrap();
    world.pass(24 * 3600 + 1);
    assert_eq!(
        outcome(&world.refresh(&tokens).await),
        "400 invalid_grant: the refresh token is not valid"
    );
    assert_eq!(world.who(access).await, BAD);
}

#[tokio::test]
async fn access_tokens_end_sooner() {
    let mut world = World::new().await;
    let tokens = world.login().await.unwrap();
    assert_eq!(tokens["expires_in"], 1800);
    world.pass(1801);
    assert_eq!(world.who(tokens["access_token"].as_str().unwrap()).await, BAD);
    assert_eq!(world.refresh(&tokens).await.status(), 200);
}

#[tokio::test]
async fn tokens_taken_back() {
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
    assert_eq!(world.who(access).await, ALICE, "another client's word means nothing");
    assert_eq!(revoke(access, &client).await, "200");
    assert_eq!(world.who(access).await, BAD);
    let tokens = json_of(&world.refresh(&tokens).await);
    assert_eq!(revoke(tokens["refresh_token"].as_str().unwrap(), &client).await, "200");
    assert_eq!(world.who(tokens["access_token"].as_str().unwrap()).await, BAD);
    assert_eq!(
        outcome(&world.refresh(&tokens).await),
        "400 invalid_grant: the refresh token is not valid"
    );
}

/// What the provider says about a token that only it can read.
const OPAQUE: &[(&str, Fault, &str)] = &[
    ("fine", |_| {}, PLAIN),
    ("401", |idp| idp.say("/userinfo", error(401, "invalid_token")), BAD),
    ("403 without words", |idp| idp.say("/userinfo", Say::Text(403, String::new())), BAD),
    ("500", |idp| idp.say("/userinfo", Say::Text(500, String::new())), LATER),
    ("429", |idp| idp.say("/userinfo", Say::Text(429, String::new())), LATER),
    ("silence", |idp| idp.say("/userinfo", Say::Silence), LATER),
    ("a page", |idp| idp.say("/userinfo", Say::Text(200, "<h1>".into())), BAD),
    ("nobody", |idp| idp.change("/userinfo", json!({"sub": null})), BAD),
    ("the empty name", |idp| idp.change("/userinfo", json!({"sub": ""})), BAD),
];

#[tokio::test]
async fn tokens_of_the_provider() {
    for (name, fault, expected) in OPAQUE {
        let world = World::new().await;
        fault(&world.idp);
        assert_eq!(world.who("opaque").await, *expected, "{name}");
        let asked = world.idp.times("/userinfo");
        assert_eq!(world.who("opaque").await, *expected, "{name}");
        // What the provider lets in it may take back at any moment; what is bad stays so for a while.
        assert_eq!(world.idp.times("/userinfo") > asked, *expected != BAD, "{name}");
    }
}

#[tokio::test]
async fn signed_tokens() {
    let world = World::new().await;
    let idp = &world.idp;
    let right = || claims_for(idp, "kubectl");
    let with = |name: &str, value: Value| {
        let mut claims = right();
        claims[name] = value;
        idp.signer.sign(&claims)
    };
    let header = |name: &str, value: Value| idp.signer.sign_with(&json!({name: value}), &right());
    let trusted = |audience: &str| {
        let mut claims = idp.right_claims();
        claims["iss"] = json!(format!("{}/other", idp.issuer));
        claims["aud"] = json!(audience);
        idp.signer.sign(&claims)
    };
    idp.say(
        "/other/.well-known/openid-configuration",
        Say::Json(
            200,
            json!({"issuer": format!("{}/other", idp.issuer), "jwks_uri": format!("{}/jwks", idp.issuer)}),
        ),
    );
    let now = idp.now.load(Ordering::SeqCst);
    for (name, token, expected) in [
        ("for a trusted audience", idp.signer.sign(&right()), ALICE),
        ("for our own client, as logins have it", with("aud", json!("muster")), BAD),
        ("for someone else", with("aud", json!("someone")), BAD),
        ("expired", with("exp", json!(now - 100)), BAD),
        ("by nobody", unsigned("none", &right()), BAD),
        ("by a secret", unsigned("HS256", &right()), BAD),
        ("with a header that nobody understands", header("crit", json!(["exp"])), BAD),
        ("of a logout", header("typ", json!("logout+jwt")), BAD),
        ("of a logout, in full", header("typ", json!("application/Logout+JWT")), BAD),
        ("of the usual kind", header("typ", json!("JWT")), ALICE),
        ("by another key", Signer::new("one").sign(&right()), BAD),
        ("of an unknown issuer", with("iss", json!("https://evil.example")), BAD),
        ("of a trusted issuer", trusted("gateway"), ALICE),
        ("of a trusted issuer for our provider's client", trusted("muster"), BAD),
    ] {
        assert_eq!(world.who(&token).await, expected, "{name}");
    }
    // The same name at another issuer is another person.
    let ours = world.admit(&idp.signer.sign(&right())).await.unwrap();
    let theirs = world.admit(&trusted("gateway")).await.unwrap();
    assert_ne!(ours.id, theirs.id);
    assert!(theirs.identity.is_none(), "a token of another issuer is no proof at the provider");
}

#[tokio::test]
async fn what_a_server_was_shown_lets_it_in_nowhere() {
    let mut world = World::new().await;
    let tokens = world.login().await.unwrap();
    let principal = world.admit(tokens["access_token"].as_str().unwrap()).await.unwrap();
    let shown = principal.identity.clone().unwrap().id_token().await.unwrap().unwrap();
    let shown = shown.reveal();
    let asked = world.idp.times("/userinfo");
    let (signed, signature) = shown.rsplit_once('.').unwrap();
    let (head, claims) = signed.split_once('.').unwrap();
    // 64 bytes leave four bits of the last letter unused, which lenient readers do not look at.
    let mut other = shown.to_owned();
    let last = other.pop().and_then(|last| char::from_u32(u32::from(last) + 1));
    other.extend(last);
    let json = format!(
        r#"{{"x":".{claims}.","payload":"{claims}","protected":"{head}","signature":"{signature}"}}"#
    );
    for token in [shown.to_owned(), other, format!("{shown}="), format!("{shown}.x.y"), json] {
        let refusal = world.who(&token).await;
        assert!(refusal.starts_with("401 invalid_token"), "{token}: {refusal}");
    }
    // Nor is a provider asked about it that may be more lenient than we are.
    assert_eq!(world.idp.times("/userinfo"), asked);
    // Who wants it otherwise says so.
    let mut world = World::with(|config| config.trusted_audiences.push("muster".to_owned())).await;
    world.server.find_provider().await;
    let tokens = world.login().await.unwrap();
    let principal = world.admit(tokens["access_token"].as_str().unwrap()).await.unwrap();
    let shown = principal.identity.clone().unwrap().id_token().await.unwrap().unwrap();
    assert_eq!(world.who(shown.reveal()).await, ALICE);
}

/// The claims of a right ID token for somebody.
fn claims_for(idp: &Idp, audience: &str) -> Value {
    let mut claims = idp.right_claims();
    claims["aud"] = json!(audience);
    claims
}

#[tokio::test]
async fn a_key_signs_in_the_way_it_is_for() {
    let world = World::new().await;
    let idp = &world.idp;
    let token = idp.signer.sign(&claims_for(idp, "kubectl"));
    let mut key = idp.signer.jwk();
    key["alg"] = json!("ES384");
    idp.change("/jwks", json!({"keys": [key]}));
    assert_eq!(world.who(&token).await, BAD);
}

#[tokio::test]
async fn the_provider_hears_of_a_logout() {
    let mut world = World::unfound().await;
    let at = |path: &str| json!(format!("{}{path}", world.idp.issuer));
    let more = json!({"revocation_endpoint": at("/revoke")});
    world.idp.change("/.well-known/openid-configuration", more);
    world.server.find_provider().await;
    let tokens = world.login().await.unwrap();
    let client = world.client.clone();
    let revoke = async |token: &str| {
        outcome(&world.form("/oauth/revoke", &[("client_id", &client), ("token", token)]).await)
    };
    // One access token is not the login.
    assert_eq!(revoke(tokens["access_token"].as_str().unwrap()).await, "200");
    assert_eq!(world.idp.times("/revoke"), 0);
    assert_eq!(revoke(tokens["refresh_token"].as_str().unwrap()).await, "200");
    let sent = world.idp.sent.lock().unwrap().pop().unwrap();
    assert!(sent.starts_with("token=upstream-refresh-"), "{sent}");
    assert!(sent.contains("token_type_hint=refresh_token"), "{sent}");
    // A provider that is away does not keep anybody in.
    let mut world = world;
    let tokens = world.login().await.unwrap();
    world.idp.say("/revoke", Say::Silence);
    let refresh = tokens["refresh_token"].as_str().unwrap();
    let fields = [("client_id", world.client.as_str()), ("token", refresh)];
    assert_eq!(outcome(&world.form("/oauth/revoke", &fields).await), "200");
    assert_eq!(world.who(tokens["access_token"].as_str().unwrap()).await, BAD);
}

#[tokio::test]
async fn a_provider_that_is_away_has_not_ended_a_login() {
    let mut world = World::new().await;
    let tokens = world.login().await.unwrap();
    let principal = world.admit(tokens["access_token"].as_str().unwrap()).await.unwrap();
    let proof = principal.identity.clone().unwrap();
    world.pass(600);
    for say in [Say::Silence, Say::Break, Say::Text(503, String::new())] {
        world.idp.say("/token", say);
        let error = proof.id_token().await.unwrap_err();
        let away = LoginError::Unavailable("the identity provider is not available".to_owned());
        assert_eq!(error, away);
    }
    world.idp.well();
    assert!(proof.id_token().await.unwrap().is_some());
    world.pass(600);
    world.idp.say("/token", error(400, "invalid_grant"));
    assert_eq!(proof.id_token().await, Ok(None));
}

#[tokio::test]
async fn a_login_that_was_ended_does_not_come_back() {
    let mut world = World::with(|config| config.provider.patience = Duration::from_secs(20)).await;
    let at = json!(format!("{}/revoke", world.idp.issuer));
    world.idp.change("/.well-known/openid-configuration", json!({"revocation_endpoint": at}));
    world.server.find_provider().await;
    let tokens = world.login().await.unwrap();
    let access = tokens["access_token"].as_str().unwrap();
    let proof = world.admit(access).await.unwrap().identity.clone().unwrap();
    world.pass(600);
    let gate = Arc::new(Gate::default());
    world.idp.say("/token", Say::Held(Arc::clone(&gate)));
    let mut renewing = JoinSet::new();
    let proves = Arc::clone(&proof);
    renewing.spawn(async move { proves.id_token().await.unwrap().is_some() });
    gate.asked.notified().await;
    // The provider is about to renew it; its owner has had enough.
    let refresh = tokens["refresh_token"].as_str().unwrap();
    let fields = [("client_id", world.client.as_str()), ("token", refresh)];
    assert_eq!(outcome(&world.form("/oauth/revoke", &fields).await), "200");
    gate.open.notify_one();
    assert_eq!(renewing.join_all().await, [false]);
    assert_eq!(world.who(access).await, BAD);
    // What the provider gave was given back, as what it had given before.
    let sent = world.idp.sent.lock().unwrap().clone();
    let given_back = sent.iter().filter(|body| body.starts_with("token=upstream-refresh-"));
    let given_back: BTreeSet<&String> = given_back.collect();
    assert_eq!(given_back.len(), 2, "{sent:?}");
}

#[tokio::test]
async fn a_gateway_that_ends_while_it_renews_leaves_the_old_token_good() {
    let stored = Arc::new(std::sync::OnceLock::new());
    let keep = Arc::clone(&stored);
    let mut world = World::storing(move |clock| {
        let store = Shared::new(clock);
        keep.set(Arc::clone(&store)).unwrap();
        store
    })
    .await;
    let store = stored.get().unwrap();
    world.server.find_provider().await;
    let tokens = world.login().await.unwrap();
    store.deaf.store(true, Ordering::SeqCst);
    assert_eq!(world.refresh(&tokens).await.status(), 503);
    store.deaf.store(false, Ordering::SeqCst);
    assert_eq!(world.refresh(&tokens).await.status(), 200);
    assert!(outcome(&world.refresh(&tokens).await).contains("used before"));
}

#[tokio::test]
async fn headers_that_carry_no_token() {
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
        let reply = world.server.authenticate(&headers).await.unwrap_err();
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
