//! Invalid requests of clients and browsers at the OAuth endpoints.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::Request;
use muster_auth::server::OwnCallback;
use serde_json::{Value, json};

use super::world::{
    BASE, REDIRECT, REGISTRATION, VERIFIER, World, json_of, location, outcome, parameter, text_of,
};

#[tokio::test]
async fn authorization_requests() {
    type Row = (&'static str, Option<&'static str>, &'static str);
    let rows: &[Row] = &[
        ("client_id", None, "400 invalid_request: client_id is required"),
        (
            "client_id",
            Some("nobody"),
            "400 invalid_client: the client is unknown; register it again",
        ),
        ("state", None, "400 invalid_request: state is required"),
        ("state", Some("short"), "400 invalid_request: state must have at least 32 characters"),
        (
            "redirect_uri",
            Some("https://evil.example/cb"),
            "400 invalid_request: redirect_uri is not registered for the client",
        ),
        (
            "redirect_uri",
            Some("https://app.example/cb/../evil"),
            "400 invalid_request: redirect_uri is not registered for the client",
        ),
        (
            "response_type",
            Some("token"),
            "redirect: unsupported_response_type: response_type must be code",
        ),
        ("response_type", None, "redirect: unsupported_response_type: response_type must be code"),
        ("code_challenge", None, "redirect: invalid_request: code_challenge is required (PKCE)"),
        (
            "code_challenge",
            Some("short"),
            "redirect: invalid_request: code_challenge is not a S256 digest",
        ),
        (
            "code_challenge_method",
            None,
            "redirect: invalid_request: code_challenge_method must be S256",
        ),
        (
            "code_challenge_method",
            Some("plain"),
            "redirect: invalid_request: code_challenge_method must be S256",
        ),
        (
            "resource",
            Some("https://other.example/mcp"),
            "redirect: invalid_target: resource is not this server",
        ),
        (
            "client_id",
            Some("https://169.254.169.254/client.json"),
            "400 invalid_client: the client's metadata document cannot be fetched: \
             `169.254.169.254` leads to a network that requests may not go to",
        ),
        (
            "client_id",
            Some("https://app.example/client.json?x=1"),
            "400 invalid_client: the client's metadata document must have a plain https URL with a path",
        ),
        (
            "client_id",
            Some("https://app.example"),
            "400 invalid_client: the client's metadata document must have a plain https URL with a path",
        ),
    ];
    for (name, value, expected) in rows {
        let mut world = World::new().await;
        world.login().await.unwrap();
        let mut fields = world.authorize_fields();
        fields.retain(|(known, _)| known != name);
        fields.extend(value.map(|value| (*name, value.to_owned())));
        assert_eq!(outcome(&world.authorize(&fields).await), *expected, "{name} {value:?}");
        // Without consent the browser is not redirected: anybody can register a client.
        world.cookie.clear();
        let expected = expected.replace("redirect: ", "400 ");
        assert_eq!(outcome(&world.authorize(&fields).await), expected, "{name} {value:?}");
    }
}

#[tokio::test]
async fn parameters_are_limited() {
    let mut world = World::new().await;
    for name in ["client_id", "state", "scope", "resource", "redirect_uri"] {
        let mut fields = world.authorize_fields();
        fields.retain(|(known, _)| *known != name);
        fields.push((name, "x".repeat(2049)));
        let error = outcome(&world.authorize(&fields).await);
        let expected = format!("400 invalid_request: {name} must have at most 2048 characters");
        assert_eq!(error, expected);
    }
    let many: String = (0..65).map(|number| format!("a{number}=&")).collect();
    let request = Request::post("/oauth/token")
        .header("content-type", "application/x-www-form-urlencoded")
        .body(Bytes::from(many))
        .unwrap();
    let error = outcome(&world.send(request).await);
    assert_eq!(error, "400 invalid_request: there are more than 64 parameters");
}

#[tokio::test]
async fn loopback_clients_get_errors() {
    let mut world = World::new().await;
    let redirect = "http://127.0.0.1:9/cb";
    let metadata = json!({"redirect_uris": [redirect], "token_endpoint_auth_method": "none"});
    let client = json_of(&world.post_json("/oauth/register", &metadata, &[]).await);
    let mut fields = world.authorize_fields();
    for (name, value) in &mut fields {
        match *name {
            "client_id" => client["client_id"].as_str().unwrap().clone_into(value),
            "redirect_uri" => redirect.clone_into(value),
            "code_challenge_method" => "plain".clone_into(value),
            _ => (),
        }
    }
    let reply = world.authorize(&fields).await;
    assert_eq!(outcome(&reply), "redirect: invalid_request: code_challenge_method must be S256");
    assert!(location(&reply).starts_with(redirect));
}

#[tokio::test]
async fn the_gateways_urls_are_resources() {
    for resource in [BASE.to_owned(), format!("{BASE}/"), format!("{BASE}/mcp")] {
        let mut world = World::new().await;
        let mut fields = world.authorize_fields();
        fields.push(("resource", resource));
        assert_eq!(world.authorize(&fields).await.status(), 200);
    }
}

#[tokio::test]
async fn a_flow_is_bound_to_the_browser_that_started_it() {
    let mut world = World::new().await;
    let fields = world.authorize_fields();
    let page = text_of(&world.authorize(&fields).await);
    assert!(page.contains("App") && page.contains(REDIRECT), "{page}");
    let flow =
        page.split("name=\"flow\" value=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let own = std::mem::replace(&mut world.cookie, "__Host-muster-browser=x".to_owned());
    let other = "400 invalid_request: the login was started in another browser";
    let allow = [("flow", flow.as_str()), ("decision", "allow")];
    assert_eq!(outcome(&world.form("/oauth/consent", &allow).await), other);
    world.cookie.clone_from(&own);
    let reply = world.form("/oauth/consent", &allow).await;
    let state = parameter(&location(&reply), "state").unwrap();
    world.idp.nonce.lock().unwrap().clone_from(&parameter(&location(&reply), "nonce").unwrap());
    // The page works once.
    assert_eq!(
        outcome(&world.form("/oauth/consent", &allow).await),
        "400 invalid_request: the login has expired or was already answered; start it again"
    );
    world.cookie = String::new();
    assert_eq!(outcome(&world.callback(&state, "code=c").await), other);
    world.cookie = own;
    assert_eq!(world.callback(&state, "code=c").await.status(), 302);
    let expired =
        "400 invalid_request: the login has expired or was already finished; start it again";
    assert_eq!(outcome(&world.callback(&state, "code=c").await), expired);
    assert_eq!(outcome(&world.callback("made-up", "code=c").await), expired);
}

#[tokio::test]
async fn consent_is_remembered_and_can_be_denied() {
    let mut world = World::new().await;
    let fields = world.authorize_fields();
    let page = text_of(&world.authorize(&fields).await);
    let flow =
        page.split("name=\"flow\" value=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let reply = world.form("/oauth/consent", &[("flow", &flow), ("decision", "deny")]).await;
    assert_eq!(outcome(&reply), "redirect: access_denied: the user refused");
    assert_eq!(world.authorize(&fields).await.status(), 200);
    world.login().await.unwrap();
    assert_eq!(world.authorize(&fields).await.status(), 302);
    // Another browser is asked again.
    world.cookie = String::new();
    assert_eq!(world.authorize(&fields).await.status(), 200);
}

#[tokio::test]
async fn clients_of_the_operator_need_no_consent() {
    let mut world = World::new().await;
    let metadata = json!({"client_name": "Own", "redirect_uris": [REDIRECT]});
    let token = format!("Bearer {REGISTRATION}");
    let reply = world.post_json("/oauth/register", &metadata, &[("authorization", &token)]).await;
    world.client = json_of(&reply)["client_id"].as_str().unwrap().to_owned();
    let fields = world.authorize_fields();
    assert_eq!(world.authorize(&fields).await.status(), 302);
}

#[tokio::test]
async fn the_gateways_own_callback_is_a_redirect_uri_in_tests_only() {
    let base = "http://localhost:8090";
    let own = format!("{base}/oauth/callback");
    let metadata = json!({"redirect_uris": [own], "token_endpoint_auth_method": "none"});
    let world = World::with(|config| base.clone_into(&mut config.base_url)).await;
    for uri in [&own, "http://localhost:1/oauth/callback", "http://localhost/oauth/callback"] {
        let metadata = json!({"redirect_uris": [uri], "token_endpoint_auth_method": "none"});
        let refused = text_of(&world.post_json("/oauth/register", &metadata, &[]).await);
        assert!(refused.contains("it belongs to the gateway itself"), "{uri}: {refused}");
    }
    let mut world = World::with(|config| {
        base.clone_into(&mut config.base_url);
        config.own_callback = OwnCallback::Allowed;
    })
    .await;
    world.server.discover_provider().await;
    let reply = world.post_json("/oauth/register", &metadata, &[]).await;
    let mut fields = world.authorize_fields();
    fields[1].1 = json_of(&reply)["client_id"].as_str().unwrap().to_owned();
    fields[2].1 = own;
    let reply = world.authorize(&fields).await;
    let url = location(&reply);
    assert!(url.starts_with(&world.idp.issuer), "{url}");
    assert!(reply.headers().get("set-cookie").is_none());
    world.idp.nonce.lock().unwrap().clone_from(&parameter(&url, "nonce").unwrap());
    let reply = world.callback(&parameter(&url, "state").unwrap(), "code=c").await;
    let url = location(&reply);
    assert_eq!(world.get(url.strip_prefix(base).unwrap(), "").await.status(), 200);
}

#[tokio::test]
async fn the_consent_page_shows_hidden_characters() {
    let mut world = World::new().await;
    let name = "Good\u{202e}moc.live\u{2066}\u{200b}\u{1b}";
    let metadata = json!({
        "client_name": name, "redirect_uris": [REDIRECT], "token_endpoint_auth_method": "none",
    });
    let reply = world.post_json("/oauth/register", &metadata, &[]).await;
    world.client = json_of(&reply)["client_id"].as_str().unwrap().to_owned();
    let fields = world.authorize_fields();
    let page = text_of(&world.authorize(&fields).await);
    assert!(page.contains("Good\u{fffd}moc.live\u{fffd}\u{fffd}"), "{page}");
    assert!(!page.contains(['\u{202e}', '\u{2066}', '\u{200b}', '\u{1b}']), "{page}");
}

#[tokio::test]
async fn token_requests() {
    type Row = (&'static str, Option<&'static str>, &'static str);
    let rows: &[Row] = &[
        ("grant_type", None, "400 invalid_request: grant_type is required"),
        (
            "grant_type",
            Some("password"),
            "400 unsupported_grant_type: grant_type must be authorization_code or refresh_token",
        ),
        ("client_id", None, "400 invalid_request: client_id is required"),
        (
            "client_id",
            Some("nobody"),
            "401 invalid_client: the client is unknown; register it again",
        ),
        ("code", None, "400 invalid_request: code is required"),
        ("code", Some("made-up"), "400 invalid_grant: the code is not valid"),
        ("code_verifier", None, "400 invalid_request: code_verifier is required"),
        (
            "code_verifier",
            Some("another-another-another-another-another-another"),
            "400 invalid_grant: the code is not valid",
        ),
        (
            "redirect_uri",
            Some("https://evil.example/cb"),
            "400 invalid_grant: the code is not valid",
        ),
        (
            "resource",
            Some("https://other.example"),
            "400 invalid_target: resource is not this server",
        ),
    ];
    for (name, value, expected) in rows {
        let mut world = World::new().await;
        let state = world.go_to_provider().await.unwrap();
        let code = parameter(&location(&world.callback(&state, "code=c").await), "code").unwrap();
        let (client, valid) = (world.client.clone(), code.clone());
        let mut fields = vec![
            ("grant_type", "authorization_code"),
            ("client_id", &client),
            ("code", &valid),
            ("redirect_uri", REDIRECT),
            ("code_verifier", VERIFIER),
        ];
        fields.retain(|(known, _)| known != name);
        fields.extend(value.map(|value| (*name, value)));
        assert_eq!(
            outcome(&world.form("/oauth/token", &fields).await),
            *expected,
            "{name} {value:?}"
        );
    }
}

#[tokio::test]
async fn a_code_works_once_and_expires() {
    let mut world = World::new().await;
    let state = world.go_to_provider().await.unwrap();
    let code = parameter(&location(&world.callback(&state, "code=c").await), "code").unwrap();
    let tokens = json_of(&world.redeem(&code, VERIFIER).await);
    let access = tokens["access_token"].as_str().unwrap();
    assert_eq!(
        outcome(&world.redeem(&code, VERIFIER).await),
        "400 invalid_grant: the code is not valid"
    );
    // One of the two users of the code is an attacker, so the login ends.
    assert_eq!(world.who(access).await, "401 invalid_token: Token validation failed");
    let state = world.go_to_provider().await.unwrap();
    let code = parameter(&location(&world.callback(&state, "code=c").await), "code").unwrap();
    world.advance(601);
    assert_eq!(
        outcome(&world.redeem(&code, VERIFIER).await),
        "400 invalid_grant: the code is not valid"
    );
}

#[tokio::test]
async fn malformed_forms() {
    let world = World::new().await;
    let reply = world.post_json("/oauth/token", &json!({"grant_type": "x"}), &[]).await;
    assert_eq!(
        outcome(&reply),
        "400 invalid_request: Content-Type must be application/x-www-form-urlencoded"
    );
    let reply = world.form("/oauth/token", &[("code", "a"), ("code", "b")]).await;
    assert_eq!(outcome(&reply), "400 invalid_request: parameter code is repeated");
    let request = Request::get("/oauth/token").body(Bytes::new()).unwrap();
    let reply = world.send(request).await;
    assert_eq!(
        (reply.status().as_u16(), &reply.headers()["allow"]),
        (405, &"POST".parse().unwrap())
    );
}

#[tokio::test]
async fn registrations() {
    let refused = |text: &str| format!("400 invalid_redirect_uri: {text}");
    let many: Vec<String> = (0..21).map(|n| format!("https://app.example/{n}")).collect();
    for (metadata, expected) in [
        (json!({}), refused("redirect_uris must have 1 to 20 entries")),
        (json!({"redirect_uris": many}), refused("redirect_uris must have 1 to 20 entries")),
        (
            json!({"redirect_uris": ["javascript:alert(1)"]}),
            refused("redirect URI javascript:alert(1): its scheme is not allowed"),
        ),
        (
            json!({"redirect_uris": ["http://app.example/cb"]}),
            refused("redirect URI http://app.example/cb: it must begin with https://"),
        ),
        (
            json!({"redirect_uris": ["https://10.0.0.1/cb"]}),
            refused("redirect URI https://10.0.0.1/cb: it leads into a private network"),
        ),
        (
            json!({"redirect_uris": ["view-source:https://app.example/"]}),
            refused("redirect URI view-source:https://app.example/: its scheme is not allowed"),
        ),
        (
            json!({"redirect_uris": ["https://gate.example/oauth/callback"]}),
            refused(
                "redirect URI https://gate.example/oauth/callback: it belongs to the gateway itself",
            ),
        ),
        (
            json!({"redirect_uris": ["https://app.example/cb#x"]}),
            refused("redirect URI https://app.example/cb#x: it cannot be read"),
        ),
        (
            json!({"redirect_uris": [REDIRECT], "token_endpoint_auth_method": "private_key_jwt"}),
            "400 invalid_client_metadata: token_endpoint_auth_method private_key_jwt is not supported"
                .to_owned(),
        ),
        (
            json!([]),
            "400 invalid_client_metadata: the body must be a JSON object that describes the client"
                .to_owned(),
        ),
    ] {
        let world = World::undiscovered().await;
        let reply = world.post_json("/oauth/register", &metadata, &[]).await;
        assert_eq!(outcome(&reply), expected, "{metadata}");
    }
}

#[tokio::test]
async fn registration_needs_a_token_or_trusted_uris() {
    let bearer = format!("Bearer {REGISTRATION}");
    let (app, cursor) = (json!([REDIRECT]), json!(["cursor://x/cb"]));
    let unauthorized = "401 invalid_token: a registration needs the registration token";
    let secret = "400 invalid_client_metadata: public clients may not be registered here; use a client secret";
    for (authorization, uris, method, expected) in [
        ("", &app, "none", unauthorized),
        ("Bearer wrong", &app, "client_secret_basic", unauthorized),
        ("Basic x", &app, "client_secret_basic", unauthorized),
        (&bearer, &app, "client_secret_basic", "201"),
        (&bearer, &app, "client_secret_post", "201"),
        (&bearer, &app, "none", secret),
        ("", &cursor, "none", "201"),
        ("", &json!(["cursor://x/cb", REDIRECT]), "none", unauthorized),
        ("", &json!(["CURSOR://x/cb"]), "none", "201"),
    ] {
        let world = World::with(|config| config.public_registration = false).await;
        let metadata = json!({"redirect_uris": uris, "token_endpoint_auth_method": method});
        let reply = world
            .post_json("/oauth/register", &metadata, &[("authorization", authorization)])
            .await;
        assert_eq!(outcome(&reply), expected, "{authorization} {uris} {method}");
        if reply.status() == 201 {
            assert_eq!(json_of(&reply)["client_secret"].is_string(), method != "none");
        }
    }
}

#[tokio::test]
async fn client_secrets() {
    let mut world = World::new().await;
    let metadata = json!({"redirect_uris": [REDIRECT]});
    let registered: Value = json_of(&world.post_json("/oauth/register", &metadata, &[]).await);
    world.client = registered["client_id"].as_str().unwrap().to_owned();
    let secret = registered["client_secret"].as_str().unwrap();
    let wrong = "401 invalid_client: the client secret is wrong";
    assert_eq!(world.login().await.unwrap_err(), wrong);
    let ask = async |authorization: String| {
        let request = Request::post("/oauth/introspect")
            .header("content-type", "application/x-www-form-urlencoded")
            .header("authorization", authorization)
            .body(Bytes::from_static(b"token=x"))
            .unwrap();
        world.send(request).await
    };
    let basic =
        |id: &str, secret: &str| format!("Basic {}", STANDARD.encode(format!("{id}:{secret}")));
    assert_eq!(json_of(&ask(basic(&world.client, secret)).await), json!({"active": false}));
    assert_eq!(outcome(&ask(basic(&world.client, "wrong")).await), wrong);
    assert_eq!(
        outcome(&ask("Bearer x".to_owned()).await),
        "401 invalid_client: the Authorization header cannot be read"
    );
    let reply =
        world.form("/oauth/introspect", &[("client_id", &world.client), ("token", "x")]).await;
    assert_eq!(outcome(&reply), wrong);
}

#[tokio::test]
async fn registrations_are_rate_limited() {
    let world = World::undiscovered().await;
    let metadata = json!({"redirect_uris": [REDIRECT]});
    let mut ends = Vec::new();
    for _ in 0..10 {
        ends.push(outcome(&world.post_json("/oauth/register", &metadata, &[]).await));
    }
    // The fixture has registered one client before.
    assert_eq!(ends.iter().filter(|end| *end == "201").count(), 9);
    assert_eq!(ends[9], "429 rate_limit_exceeded: too many requests; retry later (retry)");
}
