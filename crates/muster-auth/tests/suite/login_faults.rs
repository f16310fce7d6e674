//! Logins when the identity provider misbehaves, with the exact error.

use serde_json::{Value, json};

use super::{
    idp::{FakeProvider, ScriptedResponse, Signer, unsigned},
    world::{World, outcome},
};

const UNAVAILABLE: &str =
    "redirect: temporarily_unavailable: the identity provider is not available";
const UNTRUSTED: &str = "redirect: server_error: the identity provider's response is not valid";
const REFUSED: &str = "redirect: server_error: the identity provider refused the login";
const ALICE: &str = "alice <alice@example.com> [\"staff\"]";
/// The user info endpoint returns no groups.
const PLAIN: &str = "alice <alice@example.com> []";

type Fault = fn(&FakeProvider);

fn error(status: u16, code: &str) -> ScriptedResponse {
    ScriptedResponse::Json(
        status,
        json!({"error": code, "error_description": "canary-description"}),
    )
}

fn now(idp: &FakeProvider) -> usize {
    idp.now.load(std::sync::atomic::Ordering::SeqCst)
}

/// Responses of the provider with one fault each.
const TOKENS: &[(&str, Fault, &str)] = &[
    ("nothing is wrong", |_| {}, ALICE),
    (
        "tokens: 500",
        |idp| idp.respond("/token", ScriptedResponse::Text(500, "<h1>oops".into())),
        UNAVAILABLE,
    ),
    (
        "tokens: 502 with a code",
        |idp| idp.respond("/token", error(502, "invalid_grant")),
        UNAVAILABLE,
    ),
    (
        "tokens: 429",
        |idp| idp.respond("/token", ScriptedResponse::Text(429, String::new())),
        UNAVAILABLE,
    ),
    ("tokens: silence", |idp| idp.respond("/token", ScriptedResponse::Silence), UNAVAILABLE),
    ("tokens: broken off", |idp| idp.respond("/token", ScriptedResponse::Break), UNAVAILABLE),
    (
        "tokens: too large",
        |idp| idp.respond("/token", ScriptedResponse::Text(200, "x".repeat(2_000_000))),
        UNAVAILABLE,
    ),
    (
        "tokens: temporarily_unavailable",
        |idp| idp.respond("/token", error(400, "temporarily_unavailable")),
        UNAVAILABLE,
    ),
    ("tokens: server_error", |idp| idp.respond("/token", error(400, "server_error")), UNAVAILABLE),
    ("tokens: invalid_grant", |idp| idp.respond("/token", error(400, "invalid_grant")), REFUSED),
    ("tokens: invalid_client", |idp| idp.respond("/token", error(401, "invalid_client")), REFUSED),
    ("tokens: 404", |idp| idp.respond("/token", ScriptedResponse::Text(404, "no".into())), REFUSED),
    (
        "tokens: a page",
        |idp| idp.respond("/token", ScriptedResponse::Text(200, "<h1>hello".into())),
        UNTRUSTED,
    ),
    (
        "tokens: a list",
        |idp| idp.respond("/token", ScriptedResponse::Json(200, json!([]))),
        UNTRUSTED,
    ),
    (
        "tokens: no access token",
        |idp| idp.change("/token", json!({"access_token": null})),
        UNTRUSTED,
    ),
    (
        "tokens: an empty access token",
        |idp| idp.change("/token", json!({"access_token": ""})),
        UNTRUSTED,
    ),
    (
        "tokens: of another type",
        |idp| idp.change("/token", json!({"token_type": "mac"})),
        UNTRUSTED,
    ),
    (
        "tokens: an upper-case type",
        |idp| idp.change("/token", json!({"token_type": "BEARER"})),
        ALICE,
    ),
    ("tokens: no lifetime", |idp| idp.change("/token", json!({"expires_in": null})), ALICE),
    (
        "tokens: a fractional lifetime",
        |idp| idp.change("/token", json!({"expires_in": 299.5})),
        ALICE,
    ),
    ("ID token: none", |idp| idp.change("/token", json!({"id_token": null})), PLAIN),
    (
        "ID token: none, and the user is unknown",
        |idp| {
            idp.change("/token", json!({"id_token": null}));
            idp.respond("/userinfo", error(401, "invalid_token"));
        },
        REFUSED,
    ),
    (
        "ID token: none, and no user info",
        |idp| {
            idp.change("/token", json!({"id_token": null}));
            idp.respond("/userinfo", ScriptedResponse::Text(503, String::new()));
        },
        UNAVAILABLE,
    ),
    ("ID token: garbage", |idp| idp.change("/token", json!({"id_token": "garbage"})), UNTRUSTED),
    ("ID token: another issuer", |idp| idp.claim("iss", json!("https://evil.example")), UNTRUSTED),
    (
        "ID token: issuer with a slash",
        |idp| idp.claim("iss", json!(format!("{}/", idp.issuer))),
        ALICE,
    ),
    ("ID token: another audience", |idp| idp.claim("aud", json!("someone-else")), UNTRUSTED),
    ("ID token: several audiences", |idp| idp.claim("aud", json!(["x", "muster"])), ALICE),
    (
        "ID token: a trusted audience is not ours",
        |idp| idp.claim("aud", json!("kubectl")),
        UNTRUSTED,
    ),
    ("ID token: no audience", |idp| idp.claim("aud", Value::Null), UNTRUSTED),
    ("ID token: another nonce", |idp| idp.claim("nonce", json!("replayed")), UNTRUSTED),
    ("ID token: no nonce", |idp| idp.claim("nonce", Value::Null), UNTRUSTED),
    ("ID token: expired", |idp| idp.claim("exp", json!(now(idp) - 61)), UNTRUSTED),
    ("ID token: expired within the leeway", |idp| idp.claim("exp", json!(now(idp) - 59)), ALICE),
    ("ID token: no expiry", |idp| idp.claim("exp", Value::Null), UNTRUSTED),
    ("ID token: issued within the leeway", |idp| idp.claim("iat", json!(now(idp) + 59)), ALICE),
    ("ID token: from the future", |idp| idp.claim("iat", json!(now(idp) + 61)), UNTRUSTED),
    ("ID token: not valid yet", |idp| idp.claim("nbf", json!(now(idp) + 61)), UNTRUSTED),
    ("ID token: no subject", |idp| idp.claim("sub", Value::Null), UNTRUSTED),
    ("ID token: an empty subject", |idp| idp.claim("sub", json!("")), UNTRUSTED),
    ("ID token: no groups", |idp| idp.claim("groups", Value::Null), PLAIN),
    ("ID token: no e-mail, but user info has it", |idp| idp.claim("email", Value::Null), ALICE),
    (
        "ID token: no e-mail, and user info of another user",
        |idp| {
            idp.claim("email", Value::Null);
            idp.change("/userinfo", json!({"sub": "mallory"}));
        },
        UNTRUSTED,
    ),
    (
        "ID token: no e-mail, and no user info",
        |idp| {
            idp.claim("email", Value::Null);
            idp.respond("/userinfo", ScriptedResponse::Text(500, String::new()));
        },
        "alice <> [\"staff\"]",
    ),
    (
        "keys: 500",
        |idp| idp.respond("/jwks", ScriptedResponse::Text(500, String::new())),
        UNAVAILABLE,
    ),
    ("keys: silence", |idp| idp.respond("/jwks", ScriptedResponse::Silence), UNAVAILABLE),
    (
        "keys: a page",
        |idp| idp.respond("/jwks", ScriptedResponse::Text(200, "<h1>".into())),
        UNAVAILABLE,
    ),
    (
        "keys: none",
        |idp| idp.respond("/jwks", ScriptedResponse::Json(200, json!({"keys": []}))),
        UNTRUSTED,
    ),
    (
        "keys: another key with the same id",
        |idp| {
            idp.respond(
                "/jwks",
                ScriptedResponse::Json(200, json!({"keys": [Signer::new("one").jwk()]})),
            );
        },
        UNTRUSTED,
    ),
    (
        "keys: unknown keys beside the valid one",
        |idp| {
            let keys = json!([{"kty": "oct", "k": "x"}, 7, {"kty": "EC", "crv": "P-521"}, idp.signer.jwk()]);
            idp.change("/jwks", json!({"keys": keys}));
        },
        ALICE,
    ),
];

#[tokio::test]
async fn invalid_token_responses() {
    for (name, fault, expected) in TOKENS {
        let mut world = World::new().await;
        fault(&world.idp);
        assert_eq!(login(&mut world).await, *expected, "{name}");
    }
}

/// Logs in, and returns the principal or the error.
async fn login(world: &mut World) -> String {
    match world.login().await {
        Ok(tokens) => world.who(tokens["access_token"].as_str().unwrap()).await,
        Err(ended) => ended,
    }
}

#[tokio::test]
async fn unsigned_id_tokens() {
    for (algorithm, about, expected) in [
        // The user info endpoint confirms it.
        ("none", "alice", PLAIN),
        ("none", "mallory", UNTRUSTED),
        ("HS256", "alice", UNTRUSTED),
        ("RS1", "alice", UNTRUSTED),
    ] {
        let mut world = World::new().await;
        let mut claims = world.idp.valid_claims();
        claims["sub"] = json!(about);
        *world.idp.id_token.lock().unwrap() = Some(unsigned(algorithm, &claims));
        assert_eq!(login(&mut world).await, expected, "{algorithm} {about}");
    }
}

#[tokio::test]
async fn an_invalid_signature() {
    let mut world = World::new().await;
    let state = world.go_to_provider().await.unwrap();
    let mut token = world.idp.signer.sign(&world.idp.valid_claims());
    let last = token.pop().unwrap();
    token.push(if last == 'A' { 'Q' } else { 'A' });
    *world.idp.id_token.lock().unwrap() = Some(token);
    assert_eq!(outcome(&world.callback(&state, "code=c").await), UNTRUSTED);
}

#[tokio::test]
async fn rotated_keys_are_fetched_again() {
    let mut world = World::new().await;
    assert_eq!(login(&mut world).await, ALICE);
    let other = Signer::new("two");
    let state = world.go_to_provider().await.unwrap();
    *world.idp.id_token.lock().unwrap() = Some(other.sign(&world.idp.valid_claims()));
    // Keys are fetched again at most every ten seconds, whatever tokens an attacker makes up.
    assert_eq!(outcome(&world.callback(&state, "code=c").await), UNTRUSTED);
    assert_eq!(world.idp.requests_to("/jwks"), 1);
    let mut world = World::new().await;
    world.idp.change("/jwks", json!({"keys": [other.jwk()]}));
    let state = world.go_to_provider().await.unwrap();
    *world.idp.id_token.lock().unwrap() = Some(other.sign(&world.idp.valid_claims()));
    assert_eq!(world.callback(&state, "code=c").await.status(), 302);
}

#[tokio::test]
async fn callback_parameters() {
    let refused =
        |code: &str| format!("redirect: {code}: the identity provider did not log the user in");
    for (words, expected) in [
        ("error=access_denied", refused("access_denied")),
        ("error=temporarily_unavailable", refused("temporarily_unavailable")),
        ("error=login_required", refused("server_error")),
        ("error=%3Cscript%3E&error_description=canary", refused("server_error")),
        ("", "redirect: invalid_request: code is required".to_owned()),
        ("code=", "redirect: invalid_request: code is required".to_owned()),
        (
            "code=c&iss=https://evil.example",
            "redirect: server_error: the response came from another identity provider".to_owned(),
        ),
        (
            "error=access_denied&iss=https://evil.example",
            "redirect: server_error: the response came from another identity provider".to_owned(),
        ),
        ("code=c&code=d", "400 invalid_request: parameter code is repeated".to_owned()),
    ] {
        let mut world = World::new().await;
        let state = world.go_to_provider().await.unwrap();
        assert_eq!(outcome(&world.callback(&state, words).await), expected, "{words}");
    }
}

#[tokio::test]
async fn a_provider_that_announces_the_iss_parameter_must_send_it() {
    let mut world = World::undiscovered().await;
    let supported = json!({"authorization_response_iss_parameter_supported": true});
    world.idp.change("/.well-known/openid-configuration", supported);
    world.server.discover_provider().await;
    let state = world.go_to_provider().await.unwrap();
    assert_eq!(
        outcome(&world.callback(&state, "code=c").await),
        "redirect: server_error: the response does not name its identity provider"
    );
    let state = world.go_to_provider().await.unwrap();
    let words = format!("code=c&iss={}", world.idp.issuer);
    assert_eq!(world.callback(&state, &words).await.status(), 302);
}

/// Invalid metadata with one fault each: there are no logins until it is valid.
const METADATA: &[(&str, Fault)] = &[
    ("500", |idp| idp.respond(DISCOVERY, ScriptedResponse::Text(500, String::new()))),
    ("404", |idp| idp.respond(DISCOVERY, ScriptedResponse::Text(404, String::new()))),
    ("silence", |idp| idp.respond(DISCOVERY, ScriptedResponse::Silence)),
    ("a page", |idp| idp.respond(DISCOVERY, ScriptedResponse::Text(200, "<h1>".into()))),
    ("another issuer", |idp| idp.change(DISCOVERY, json!({"issuer": "https://evil.example"}))),
    ("no token endpoint", |idp| idp.change(DISCOVERY, json!({"token_endpoint": null}))),
    ("keys inside", |idp| idp.change(DISCOVERY, json!({"jwks_uri": "https://169.254.169.254/"}))),
    ("tokens inside", |idp| idp.change(DISCOVERY, json!({"token_endpoint": "https://10.0.0.1/"}))),
    ("no TLS", |idp| idp.change(DISCOVERY, json!({"userinfo_endpoint": "http://example.com/"}))),
];
const DISCOVERY: &str = "/.well-known/openid-configuration";

#[tokio::test]
async fn discovery_is_retried() {
    for (name, fault) in METADATA {
        let mut world = World::undiscovered().await;
        fault(&world.idp);
        // One attempt; the next comes after the backoff.
        tokio::select! {
            () = world.server.discover_provider() => panic!("{name}: discovered"),
            () = world.idp.requested(DISCOVERY) => {}
        }
        assert_eq!(world.server.pending_reason(), Some("oidc-discovery-pending"), "{name}");
        assert_eq!(
            world.go_to_provider().await.unwrap_err(),
            "503 temporarily_unavailable: the identity provider is not available (retry)",
            "{name}"
        );
        assert_eq!(
            world.who("some-token").await,
            "503 temporarily_unavailable: the identity provider is not available (retry)",
            "{name}"
        );
        world.idp.reset();
        world.server.discover_provider().await;
        assert_eq!(world.server.pending_reason(), None, "{name}");
        assert_eq!(login(&mut world).await, ALICE, "{name}");
    }
}
