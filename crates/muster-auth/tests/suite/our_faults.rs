//! What clients and browsers may do wrong at our own endpoints, and what comes of it.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::Request;
use serde_json::{Value, json};

use super::world::{
    BASE, REDIRECT, REGISTRATION, VERIFIER, World, json_of, location, outcome, parameter, text_of,
};

#[tokio::test]
async fn requests_to_authorize() {
    type Row = (&'static str, Option<&'static str>, &'static str);
    let rows: &[Row] = &[
        ("client_id", None, "400 invalid_request: client_id is required"),
        (
            "client_id",
            Some("nobody"),
            "400 invalid_client: the client is not known; register it again",
        ),
        ("state", None, "400 invalid_request: state is required"),
        ("state", Some("short"), "400 invalid_request: state must have at least 32 characters"),
        (
            "redirect_uri",
            Some("https://evil.example/cb"),
            "400 invalid_request: redirect_uri is not one that the client registered",
        ),
        (
            "redirect_uri",
            Some("https://app.example/cb/../evil"),
            "400 invalid_request: redirect_uri is not one that the client registered",
        ),
        (
            "response_type",
            Some("token"),
            "back: unsupported_response_type: response_type must be code",
        ),
        ("response_type", None, "back: unsupported_response_type: response_type must be code"),
        ("code_challenge", None, "back: invalid_request: code_challenge is required (PKCE)"),
        (
            "code_challenge",
            Some("short"),
            "back: invalid_request: code_challenge is not one of S256",
        ),
        (
            "code_challenge_method",
            None,
            "back: invalid_request: code_challenge_method must be S256",
        ),
        (
            "code_challenge_method",
            Some("plain"),
            "back: invalid_request: code_challenge_method must be S256",
        ),
        (
            "resource",
            Some("https://other.example/mcp"),
            "back: invalid_target: resource is not this server",
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
            "400 invalid_client: the client's metadata document must have a plain https address with a path",
        ),
        (
            "client_id",
            Some("https://app.example"),
            "400 invalid_client: the client's metadata document must have a plain https address with a path",
        ),
    ];
    for (name, value, expected) in rows {
        let mut world = World::new().await;
        world.login().await.unwrap();
        let mut fields = world.authorize_fields();
        fields.retain(|(known, _)| known != name);
        fields.extend(value.map(|value| (*name, value.to_owned())));
        assert_eq!(outcome(&world.authorize(&fields).await), *expected, "{name} {value:?}");
        // Who has not let the client in is not sent to it: anybody may be one.
        world.cookie.clear();
        let expected = expected.replace("back: ", "400 ");
        assert_eq!(outcome(&world.authorize(&fields).await), expected, "{name} {value:?}");
    }
}

#[tokio::test]
async fn what_strangers_make_us_keep_is_short() {
    let mut world = World::new().await;
    for name in ["client_id", "state", "scope", "resource", "redirect_uri"] {
        let mut fields = world.authorize_fields();
        fields.retain(|(known, _)| *known != name);
        fields.push((name, "x".repeat(2049)));
        let said = outcome(&world.authorize(&fields).await);
        let expected = format!("400 invalid_request: {name} must have at most 2048 characters");
        assert_eq!(said, expected);
    }
    let many: String = (0..65).map(|number| format!("a{number}=&")).collect();
    let request = Request::post("/oauth/token")
        .header("content-type", "application/x-www-form-urlencoded")
        .body(Bytes::from(many))
        .unwrap();
    let said = outcome(&world.send(request).await);
    assert_eq!(said, "400 invalid_request: there are more than 64 parameters");
}

#[tokio::test]
async fn programs_on_the_users_machine_hear_of_errors() {
    let mut world = World::new().await;
    let place = "http://127.0.0.1:9/cb";
    let wish = json!({"redirect_uris": [place], "token_endpoint_auth_method": "none"});
    let client = json_of(&world.post_json("/oauth/register", &wish, &[]).await);
    let mut fields = world.authorize_fields();
    for (name, value) in &mut fields {
        match *name {
            "client_id" => client["client_id"].as_str().unwrap().clone_into(value),
            "redirect_uri" => place.clone_into(value),
            "code_challenge_method" => "plain".clone_into(value),
            _ => (),
        }
    }
    let reply = world.authorize(&fields).await;
    assert_eq!(outcome(&reply), "back: invalid_request: code_challenge_method must be S256");
    assert!(location(&reply).starts_with(place));
}

#[tokio::test]
async fn our_own_names_are_resources() {
    for resource in [BASE.to_owned(), format!("{BASE}/"), format!("{BASE}/mcp")] {
        let mut world = World::new().await;
        let mut fields = world.authorize_fields();
        fields.push(("resource", resource));
        assert_eq!(world.authorize(&fields).await.status(), 200);
    }
}

#[tokio::test]
async fn a_flow_belongs_to_the_browser_that_began_it() {
    let mut world = World::new().await;
    let fields = world.authorize_fields();
    let page = text_of(&world.authorize(&fields).await);
    assert!(page.contains("App") && page.contains(REDIRECT), "{page}");
    let flow =
        page.split("name=\"flow\" value=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let own = std::mem::replace(&mut world.cookie, "__Host-muster-browser=x".to_owned());
    let other = "400 invalid_request: the login was begun in another browser";
    let allow = [("flow", flow.as_str()), ("decision", "allow")];
    assert_eq!(outcome(&world.form("/oauth/consent", &allow).await), other);
    world.cookie.clone_from(&own);
    let reply = world.form("/oauth/consent", &allow).await;
    let state = parameter(&location(&reply), "state").unwrap();
    world.idp.nonce.lock().unwrap().clone_from(&parameter(&location(&reply), "nonce").unwrap());
    // What was answered cannot be answered again.
    assert_eq!(
        outcome(&world.form("/oauth/consent", &allow).await),
        "400 invalid_request: the login has taken too long or was answered; begin it again"
    );
    world.cookie = String::new();
    assert_eq!(outcome(&world.come_back(&state, "code=c").await), other);
    world.cookie = own;
    assert_eq!(world.come_back(&state, "code=c").await.status(), 302);
    let old = "400 invalid_request: the login has taken too long or was finished; begin it again";
    assert_eq!(outcome(&world.come_back(&state, "code=c").await), old);
    assert_eq!(outcome(&world.come_back("made-up", "code=c").await), old);
}

#[tokio::test]
async fn consent_is_asked_once_and_may_be_refused() {
    let mut world = World::new().await;
    let fields = world.authorize_fields();
    let page = text_of(&world.authorize(&fields).await);
    let flow =
        page.split("name=\"flow\" value=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let reply = world.form("/oauth/consent", &[("flow", &flow), ("decision", "deny")]).await;
    assert_eq!(outcome(&reply), "back: access_denied: the user refused");
    assert_eq!(world.authorize(&fields).await.status(), 200);
    world.login().await.unwrap();
    assert_eq!(world.authorize(&fields).await.status(), 302);
    // Another browser is asked again.
    world.cookie = String::new();
    assert_eq!(world.authorize(&fields).await.status(), 200);
}

#[tokio::test]
async fn clients_that_are_vouched_for_and_our_own_page_need_no_consent() {
    let mut world = World::new().await;
    let wish = json!({"client_name": "Own", "redirect_uris": [REDIRECT]});
    let token = format!("Bearer {REGISTRATION}");
    let reply = world.post_json("/oauth/register", &wish, &[("authorization", &token)]).await;
    world.client = json_of(&reply)["client_id"].as_str().unwrap().to_owned();
    let fields = world.authorize_fields();
    assert_eq!(world.authorize(&fields).await.status(), 302);
    let own = format!("{BASE}/oauth/callback");
    let wish = json!({"redirect_uris": [own], "token_endpoint_auth_method": "none"});
    let reply = world.post_json("/oauth/register", &wish, &[]).await;
    let id = json_of(&reply)["client_id"].as_str().unwrap().to_owned();
    let mut fields = world.authorize_fields();
    fields[1].1 = id;
    fields[2].1 = own;
    world.cookie = String::new();
    let reply = world.authorize(&fields).await;
    let place = location(&reply);
    assert!(place.starts_with(&world.idp.issuer), "{place}");
    assert!(reply.headers().get("set-cookie").is_none());
    world.idp.nonce.lock().unwrap().clone_from(&parameter(&place, "nonce").unwrap());
    let reply = world.come_back(&parameter(&place, "state").unwrap(), "code=c").await;
    let place = location(&reply);
    let path = place.strip_prefix(BASE).unwrap();
    assert_eq!(world.get(path, "").await.status(), 200);
}

#[tokio::test]
async fn requests_for_tokens() {
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
            "401 invalid_client: the client is not known; register it again",
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
        let code = parameter(&location(&world.come_back(&state, "code=c").await), "code").unwrap();
        let (client, right) = (world.client.clone(), code.clone());
        let mut fields = vec![
            ("grant_type", "authorization_code"),
            ("client_id", &client),
            ("code", &right),
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
async fn a_code_works_once_and_for_ten_minutes() {
    let mut world = World::new().await;
    let state = world.go_to_provider().await.unwrap();
    let code = parameter(&location(&world.come_back(&state, "code=c").await), "code").unwrap();
    let tokens = json_of(&world.redeem(&code, VERIFIER).await);
    let access = tokens["access_token"].as_str().unwrap();
    assert_eq!(
        outcome(&world.redeem(&code, VERIFIER).await),
        "400 invalid_grant: the code is not valid"
    );
    // One of the two who had it is a thief, so neither keeps what it brought.
    assert_eq!(world.who(access).await, "401 invalid_token: Token validation failed");
    let state = world.go_to_provider().await.unwrap();
    let code = parameter(&location(&world.come_back(&state, "code=c").await), "code").unwrap();
    world.pass(601);
    assert_eq!(
        outcome(&world.redeem(&code, VERIFIER).await),
        "400 invalid_grant: the code is not valid"
    );
}

#[tokio::test]
async fn forms_must_be_forms() {
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
    for (wish, expected) in [
        (json!({}), refused("redirect_uris must name 1 to 20 addresses")),
        (json!({"redirect_uris": many}), refused("redirect_uris must name 1 to 20 addresses")),
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
        let world = World::unfound().await;
        let reply = world.post_json("/oauth/register", &wish, &[]).await;
        assert_eq!(outcome(&reply), expected, "{wish}");
    }
}

#[tokio::test]
async fn who_may_register() {
    let bearer = format!("Bearer {REGISTRATION}");
    let (app, cursor) = (json!([REDIRECT]), json!(["cursor://x/cb"]));
    let needs = "401 invalid_token: registering a client needs the registration token";
    let secret = "400 invalid_client_metadata: public clients may not be registered here; use a client secret";
    for (authorization, uris, method, expected) in [
        ("", &app, "none", needs),
        ("Bearer wrong", &app, "client_secret_basic", needs),
        ("Basic x", &app, "client_secret_basic", needs),
        (&bearer, &app, "client_secret_basic", "201"),
        (&bearer, &app, "client_secret_post", "201"),
        (&bearer, &app, "none", secret),
        ("", &cursor, "none", "201"),
        ("", &json!(["cursor://x/cb", REDIRECT]), "none", needs),
        ("", &json!(["CURSOR://x/cb"]), "none", "201"),
    ] {
        let world = World::with(|config| config.public_registration = false).await;
        let wish = json!({"redirect_uris": uris, "token_endpoint_auth_method": method});
        let reply =
            world.post_json("/oauth/register", &wish, &[("authorization", authorization)]).await;
        assert_eq!(outcome(&reply), expected, "{authorization} {uris} {method}");
        if reply.status() == 201 {
            assert_eq!(json_of(&reply)["client_secret"].is_string(), method != "none");
        }
    }
}

#[tokio::test]
async fn secrets_of_clients() {
    let mut world = World::new().await;
    let wish = json!({"redirect_uris": [REDIRECT]});
    let registered: Value = json_of(&world.post_json("/oauth/register", &wish, &[]).await);
    world.client = registered["client_id"].as_str().unwrap().to_owned();
    let secret = registered["client_secret"].as_str().unwrap();
    let not = "401 invalid_client: the client is not who it says";
    assert_eq!(world.login().await.unwrap_err(), not);
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
    assert_eq!(outcome(&ask(basic(&world.client, "wrong")).await), not);
    assert_eq!(
        outcome(&ask("Bearer x".to_owned()).await),
        "401 invalid_client: the header Authorization cannot be read"
    );
    let reply =
        world.form("/oauth/introspect", &[("client_id", &world.client), ("token", "x")]).await;
    assert_eq!(outcome(&reply), not);
}

#[tokio::test]
async fn one_address_may_not_ask_for_ever() {
    let world = World::unfound().await;
    let wish = json!({"redirect_uris": [REDIRECT]});
    let mut ends = Vec::new();
    for _ in 0..10 {
        ends.push(outcome(&world.post_json("/oauth/register", &wish, &[]).await));
    }
    // The world itself registered one before.
    assert_eq!(ends.iter().filter(|end| *end == "201").count(), 9);
    assert_eq!(ends[9], "429 rate_limit_exceeded: too many requests; come again, come again");
}
