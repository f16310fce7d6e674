//! What a provider may do wrong while someone logs in, and what comes of it.

use serde_json::{Value, json};

use super::{
    idp::{Idp, Say, Signer, unsigned},
    world::{World, outcome},
};

const AWAY: &str = "back: temporarily_unavailable: the identity provider is not available";
const UNTRUSTED: &str = "back: server_error: the identity provider's answer cannot be trusted";
const REFUSED: &str = "back: server_error: the identity provider refused the login";
const ALICE: &str = "alice <alice@example.com> [\"staff\"]";
/// What the provider's own page about a user adds no groups to.
const PLAIN: &str = "alice <alice@example.com> []";

type Fault = fn(&Idp);

fn error(status: u16, code: &str) -> Say {
    Say::Json(status, json!({"error": code, "error_description": "canary-description"}))
}

fn now(idp: &Idp) -> usize {
    idp.now.load(std::sync::atomic::Ordering::SeqCst)
}

/// The provider's answers to us, one fault each.
const TOKENS: &[(&str, Fault, &str)] = &[
    ("nothing is wrong", |_| {}, ALICE),
    ("tokens: 500", |idp| idp.say("/token", Say::Text(500, "<h1>oops".into())), AWAY),
    ("tokens: 502 with a code", |idp| idp.say("/token", error(502, "invalid_grant")), AWAY),
    ("tokens: 429", |idp| idp.say("/token", Say::Text(429, String::new())), AWAY),
    ("tokens: silence", |idp| idp.say("/token", Say::Silence), AWAY),
    ("tokens: broken off", |idp| idp.say("/token", Say::Break), AWAY),
    ("tokens: too large", |idp| idp.say("/token", Say::Text(200, "x".repeat(2_000_000))), AWAY),
    (
        "tokens: temporarily_unavailable",
        |idp| idp.say("/token", error(400, "temporarily_unavailable")),
        AWAY,
    ),
    ("tokens: server_error", |idp| idp.say("/token", error(400, "server_error")), AWAY),
    ("tokens: invalid_grant", |idp| idp.say("/token", error(400, "invalid_grant")), REFUSED),
    ("tokens: invalid_client", |idp| idp.say("/token", error(401, "invalid_client")), REFUSED),
    ("tokens: 404", |idp| idp.say("/token", Say::Text(404, "no".into())), REFUSED),
    ("tokens: a page", |idp| idp.say("/token", Say::Text(200, "<h1>hello".into())), UNTRUSTED),
    ("tokens: a list", |idp| idp.say("/token", Say::Json(200, json!([]))), UNTRUSTED),
    (
        "tokens: no access token",
        |idp| idp.change("/token", json!({"access_token": null})),
        UNTRUSTED,
    ),
    ("tokens: an empty one", |idp| idp.change("/token", json!({"access_token": ""})), UNTRUSTED),
    (
        "tokens: of another type",
        |idp| idp.change("/token", json!({"token_type": "mac"})),
        UNTRUSTED,
    ),
    (
        "tokens: type in capitals",
        |idp| idp.change("/token", json!({"token_type": "BEARER"})),
        ALICE,
    ),
    ("tokens: life not told", |idp| idp.change("/token", json!({"expires_in": null})), ALICE),
    ("tokens: life in fractions", |idp| idp.change("/token", json!({"expires_in": 299.5})), ALICE),
    ("ID token: none", |idp| idp.change("/token", json!({"id_token": null})), PLAIN),
    (
        "ID token: none, and the user is not known",
        |idp| {
            idp.change("/token", json!({"id_token": null}));
            idp.say("/userinfo", error(401, "invalid_token"));
        },
        REFUSED,
    ),
    (
        "ID token: none, and nobody to ask",
        |idp| {
            idp.change("/token", json!({"id_token": null}));
            idp.say("/userinfo", Say::Text(503, String::new()));
        },
        AWAY,
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
    ("ID token: expired by a slow clock", |idp| idp.claim("exp", json!(now(idp) - 59)), ALICE),
    ("ID token: no end", |idp| idp.claim("exp", Value::Null), UNTRUSTED),
    ("ID token: made by a fast clock", |idp| idp.claim("iat", json!(now(idp) + 59)), ALICE),
    ("ID token: from the future", |idp| idp.claim("iat", json!(now(idp) + 61)), UNTRUSTED),
    ("ID token: not good yet", |idp| idp.claim("nbf", json!(now(idp) + 61)), UNTRUSTED),
    ("ID token: about nobody", |idp| idp.claim("sub", Value::Null), UNTRUSTED),
    ("ID token: about the empty name", |idp| idp.claim("sub", json!("")), UNTRUSTED),
    ("ID token: groups are none", |idp| idp.claim("groups", Value::Null), PLAIN),
    (
        "ID token: no address, but the provider knows it",
        |idp| idp.claim("email", Value::Null),
        ALICE,
    ),
    (
        "ID token: no address, and the provider speaks of someone else",
        |idp| {
            idp.claim("email", Value::Null);
            idp.change("/userinfo", json!({"sub": "mallory"}));
        },
        UNTRUSTED,
    ),
    (
        "ID token: no address, and nobody to ask",
        |idp| {
            idp.claim("email", Value::Null);
            idp.say("/userinfo", Say::Text(500, String::new()));
        },
        "alice <> [\"staff\"]",
    ),
    ("keys: 500", |idp| idp.say("/jwks", Say::Text(500, String::new())), AWAY),
    ("keys: silence", |idp| idp.say("/jwks", Say::Silence), AWAY),
    ("keys: a page", |idp| idp.say("/jwks", Say::Text(200, "<h1>".into())), AWAY),
    ("keys: none", |idp| idp.say("/jwks", Say::Json(200, json!({"keys": []}))), UNTRUSTED),
    (
        "keys: of another with the same name",
        |idp| idp.say("/jwks", Say::Json(200, json!({"keys": [Signer::new("one").jwk()]}))),
        UNTRUSTED,
    ),
    (
        "keys: strange ones beside the right one",
        |idp| {
            let strange = json!([{"kty": "oct", "k": "x"}, 7, {"kty": "EC", "crv": "P-521"}, idp.signer.jwk()]);
            idp.change("/jwks", json!({"keys": strange}));
        },
        ALICE,
    ),
];

#[tokio::test]
async fn what_the_provider_answers() {
    for (name, fault, expected) in TOKENS {
        let mut world = World::new().await;
        fault(&world.idp);
        assert_eq!(login(&mut world).await, *expected, "{name}");
    }
}

/// How a login ends: who is let in by its token, or why nobody is.
async fn login(world: &mut World) -> String {
    match world.login().await {
        Ok(tokens) => world.who(tokens["access_token"].as_str().unwrap()).await,
        Err(ended) => ended,
    }
}

#[tokio::test]
async fn id_tokens_that_nobody_signed() {
    for (algorithm, about, expected) in [
        // It came from the provider itself, and the provider's page about the user says the same.
        ("none", "alice", PLAIN),
        ("none", "mallory", UNTRUSTED),
        ("HS256", "alice", UNTRUSTED),
        ("RS1", "alice", UNTRUSTED),
    ] {
        let mut world = World::new().await;
        let mut claims = world.idp.right_claims();
        claims["sub"] = json!(about);
        *world.idp.id_token.lock().unwrap() = Some(unsigned(algorithm, &claims));
        assert_eq!(login(&mut world).await, expected, "{algorithm} {about}");
    }
}

#[tokio::test]
async fn a_signature_that_was_bent() {
    let mut world = World::new().await;
    let state = world.go_to_provider().await.unwrap();
    let mut token = world.idp.signer.sign(&world.idp.right_claims());
    let last = token.pop().unwrap();
    token.push(if last == 'A' { 'Q' } else { 'A' });
    *world.idp.id_token.lock().unwrap() = Some(token);
    assert_eq!(outcome(&world.come_back(&state, "code=c").await), UNTRUSTED);
}

#[tokio::test]
async fn keys_that_were_changed_are_fetched_again() {
    let mut world = World::new().await;
    assert_eq!(login(&mut world).await, ALICE);
    let other = Signer::new("two");
    let state = world.go_to_provider().await.unwrap();
    *world.idp.id_token.lock().unwrap() = Some(other.sign(&world.idp.right_claims()));
    // Old keys are asked for anew at most every ten seconds, whatever tokens strangers make up.
    assert_eq!(outcome(&world.come_back(&state, "code=c").await), UNTRUSTED);
    assert_eq!(world.idp.times("/jwks"), 1);
    let mut world = World::new().await;
    world.idp.change("/jwks", json!({"keys": [other.jwk()]}));
    let state = world.go_to_provider().await.unwrap();
    *world.idp.id_token.lock().unwrap() = Some(other.sign(&world.idp.right_claims()));
    assert_eq!(world.come_back(&state, "code=c").await.status(), 302);
}

#[tokio::test]
async fn what_a_browser_brings_back() {
    let refused =
        |code: &str| format!("back: {code}: the identity provider did not log the user in");
    for (words, expected) in [
        ("error=access_denied", refused("access_denied")),
        ("error=temporarily_unavailable", refused("temporarily_unavailable")),
        ("error=login_required", refused("server_error")),
        ("error=%3Cscript%3E&error_description=canary", refused("server_error")),
        ("", "back: invalid_request: code is required".to_owned()),
        ("code=", "back: invalid_request: code is required".to_owned()),
        (
            "code=c&iss=https://evil.example",
            "back: server_error: the answer came from another identity provider".to_owned(),
        ),
        (
            "error=access_denied&iss=https://evil.example",
            "back: server_error: the answer came from another identity provider".to_owned(),
        ),
        ("code=c&code=d", "400 invalid_request: parameter code is repeated".to_owned()),
    ] {
        let mut world = World::new().await;
        let state = world.go_to_provider().await.unwrap();
        assert_eq!(outcome(&world.come_back(&state, words).await), expected, "{words}");
    }
}

#[tokio::test]
async fn a_provider_that_names_itself_must_do_so() {
    let mut world = World::unfound().await;
    let supported = json!({"authorization_response_iss_parameter_supported": true});
    world.idp.change("/.well-known/openid-configuration", supported);
    world.server.find_provider().await;
    let state = world.go_to_provider().await.unwrap();
    assert_eq!(
        outcome(&world.come_back(&state, "code=c").await),
        "back: server_error: the answer does not name its identity provider"
    );
    let state = world.go_to_provider().await.unwrap();
    let words = format!("code=c&iss={}", world.idp.issuer);
    assert_eq!(world.come_back(&state, &words).await.status(), 302);
}

/// Metadata that cannot be right, one fault each: there are no logins until it is.
const METADATA: &[(&str, Fault)] = &[
    ("500", |idp| idp.say(DISCOVERY, Say::Text(500, String::new()))),
    ("404", |idp| idp.say(DISCOVERY, Say::Text(404, String::new()))),
    ("silence", |idp| idp.say(DISCOVERY, Say::Silence)),
    ("a page", |idp| idp.say(DISCOVERY, Say::Text(200, "<h1>".into()))),
    ("another issuer", |idp| idp.change(DISCOVERY, json!({"issuer": "https://evil.example"}))),
    ("no token endpoint", |idp| idp.change(DISCOVERY, json!({"token_endpoint": null}))),
    ("keys inside", |idp| idp.change(DISCOVERY, json!({"jwks_uri": "https://169.254.169.254/"}))),
    ("tokens inside", |idp| idp.change(DISCOVERY, json!({"token_endpoint": "https://10.0.0.1/"}))),
    ("no TLS", |idp| idp.change(DISCOVERY, json!({"userinfo_endpoint": "http://example.com/"}))),
];
const DISCOVERY: &str = "/.well-known/openid-configuration";

#[tokio::test]
async fn a_provider_that_cannot_be_found_is_looked_for_until_it_is() {
    for (name, fault) in METADATA {
        let mut world = World::unfound().await;
        fault(&world.idp);
        {
            let mut finding = std::pin::pin!(world.server.find_provider());
            // Until it has been asked and the answer was judged: the second look comes after a pause.
            while world.idp.times(DISCOVERY) < 1 {
                tokio::select! {
                    () = finding.as_mut() => panic!("{name}: found"),
                    () = tokio::time::sleep(std::time::Duration::from_millis(5)) => {}
                }
            }
        }
        assert_eq!(world.server.waits_for(), Some("oidc-discovery-pending"), "{name}");
        assert_eq!(
            world.go_to_provider().await.unwrap_err(),
            "503 temporarily_unavailable: the identity provider is not available, come again",
            "{name}"
        );
        assert_eq!(
            world.who("some-token").await,
            "503 temporarily_unavailable: the identity provider is not available, come again",
            "{name}"
        );
        world.idp.well();
        world.server.find_provider().await;
        assert_eq!(world.server.waits_for(), None, "{name}");
        assert_eq!(login(&mut world).await, ALICE, "{name}");
    }
}
