//! Attacks on the logins of a protected gateway: on its users, its identity provider and its OAuth clients. Through the
//! real binary.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
};

use serde_json::{Value, json};

use super::world::{World, agree, look};

/// Sends a request, and reads the status and the body of the answer. The body is JSON or a form.
fn send(world: &World, line: &str, more: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", world.gateway)).unwrap();
    let form = if body.starts_with('{') { "json" } else { "x-www-form-urlencoded" };
    write!(
        stream,
        "{line} HTTP/1.1\r\nhost: localhost:{}\r\ncontent-type: application/{form}\r\n\
         accept: application/json, text/event-stream, text/html\r\nconnection: close\r\n{more}content-length: {}\r\n\r\n{body}",
        world.gateway,
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

/// Calls a tool as the owner of a token.
fn call(world: &World, token: &str, tool: &str, arguments: &Value) -> (u16, String) {
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}});
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "_meta": meta, "name": "call_tool", "arguments": {"name": tool, "arguments": arguments}}});
    let more = format!(
        "authorization: Bearer {token}\r\nmcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\n\
         mcp-name: call_tool\r\n"
    );
    send(world, "POST /mcp", &more, &message.to_string())
}

fn login_link(world: &World, token: &str) -> String {
    for _ in 0..200 {
        let (status, said) = call(world, token, "core_auth_login", &json!({"server": "vault"}));
        assert_eq!(status, 200, "{said}");
        // The server is known to require a login once it was tried.
        if let Some((_, rest)) = said.split_once("/oauth/proxy/start?state=") {
            let state =
                rest.split(|c: char| !c.is_ascii_alphanumeric() && !"-_".contains(c)).next();
            let base = world.url().replace("/mcp", "");
            return format!("{base}/oauth/proxy/start?state={}", state.unwrap());
        }
    }
    panic!("no link: {}", call(world, token, "core_auth_login", &json!({"server": "vault"})).1)
}

#[test]
fn the_link_of_a_login_gives_nobody_the_account_of_somebody_else() {
    let world = World::private(&["vault"]);
    let (eve, ann) = (world.token_of(Some("eve")), world.token_of(None));
    let opens = |token: &str| {
        let (_, said) = call(&world, token, "x_vault_open", &json!({}));
        said.contains("open") && !said.contains("\"isError\":true") && said.contains("vault")
    };
    // The browser of Ann opens a link that Eve asked for: with Ann's login at the provider, it is not hers.
    let (status, page) = look(&login_link(&world, &eve));
    assert_eq!(status, 403, "{page}");
    assert!(page.contains("This link is not yours"), "{page}");
    assert!(!opens(&eve), "Eve got an account");
    // Her own works.
    let page = agree(&login_link(&world, &ann));
    assert!(page.contains("vault"), "{page}");
    while !opens(&ann) {}
    assert!(!opens(&eve), "Eve got Ann's account");
}

/// The verifier of RFC 7636, and its challenge.
const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";

fn form(fields: &[(&str, &str)]) -> String {
    form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish()
}

/// Registers an OAuth client, and logs the user in with it: the id of the client, and the token that it gets.
fn log_in_with_new_client(world: &World) -> (String, String) {
    let callback = TcpListener::bind("127.0.0.1:0").unwrap();
    let uri = format!("http://localhost:{}/cb", callback.local_addr().unwrap().port());
    let metadata =
        json!({"client_name": "App", "redirect_uris": [uri], "token_endpoint_auth_method": "none"});
    let (status, said) = send(world, "POST /oauth/register", "", &metadata.to_string());
    assert_eq!(status, 201, "{said}");
    let registered: Value = serde_json::from_str(&said).unwrap();
    let client = registered["client_id"].as_str().unwrap().to_owned();
    let query = form(&[
        ("response_type", "code"),
        ("client_id", &client),
        ("redirect_uri", &uri),
        ("state", &"s".repeat(40)),
        ("code_challenge", CHALLENGE),
        ("code_challenge_method", "S256"),
    ]);
    let redirected = std::thread::spawn(move || {
        let (mut stream, _) = callback.accept().unwrap();
        let mut line = String::new();
        BufReader::new(stream.try_clone().unwrap()).read_line(&mut line).unwrap();
        write!(stream, "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok")
            .unwrap();
        line
    });
    let base = world.url().replace("/mcp", "");
    agree(&format!("{base}/oauth/authorize?{query}"));
    let line = redirected.join().unwrap();
    let parameters = line.split(['?', ' ']).nth(2).unwrap();
    let mut parameters = form_urlencoded::parse(parameters.as_bytes());
    let code = parameters.find(|(name, _)| name == "code").unwrap().1;
    let body = form(&[
        ("grant_type", "authorization_code"),
        ("client_id", &client),
        ("code", &code),
        ("redirect_uri", &uri),
        ("code_verifier", VERIFIER),
    ]);
    let (status, said) = send(world, "POST /oauth/token", "", &body);
    assert_eq!(status, 200, "{said}");
    let issued: Value = serde_json::from_str(&said).unwrap();
    (client, issued["access_token"].as_str().unwrap().to_owned())
}

#[test]
fn a_rule_for_one_client_lets_in_no_other() {
    let world = World::private(&[]);
    let (client, admitted) = log_in_with_new_client(&world);
    let (_, other) = log_in_with_new_client(&world);
    let elsewhere = world.token_of(None);
    let write = |name: &str, text: &str| {
        let path = world.home.file("gateway").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    // The policy comes first: without one, everybody may call the tool.
    let callers = json!([{"clients": [client], "tools": {"cli_demo_show": {}}}]);
    write("policies/p.yaml", &json!({"callers": callers}).to_string());
    let tool = json!({"name": "demo_show", "description": "Shows", "effect": "read"});
    let cli = json!({"name": "demo", "command": "printf shown", "tools": [tool]});
    write("clis/demo.yaml", &cli.to_string());
    let shows = |token: &str| call(&world, token, "cli_demo_show", &json!({})).1.contains("shown");
    while !shows(&admitted) {}
    // The same user, with another client, and with a token of the provider.
    assert!(!shows(&other) && !shows(&elsewhere));
}

#[test]
fn invalid_tokens_do_not_flood_the_provider() {
    let world = World::private(&[]);
    let ann = world.token_of(None);
    let is_admitted = || call(&world, &ann, "core_mcpserver_list", &json!({})).0 == 200;
    assert!(is_admitted());
    let before = world.asked_provider_for("userinfo");
    let mut limited = 0;
    for number in 0..300 {
        let (status, said) =
            call(&world, &format!("opaque-{number}"), "core_mcpserver_list", &json!({}));
        assert!([401, 429, 503].contains(&status), "{status}: {said}");
        limited += u32::from(status != 401);
    }
    let lookups = world.asked_provider_for("userinfo") - before;
    assert!(lookups < 60 && limited > 200, "{lookups} lookups, {limited} refused without one");
    assert!(is_admitted(), "those who are logged in are not kept out");
}

#[test]
fn clients_register_neither_the_gateways_callback_nor_schemes_that_systems_act_on() {
    let world = World::private(&[]);
    let base = world.url().replace("/mcp", "");
    let register = |uri: &str, name: &str| {
        let metadata = json!({"client_name": name, "redirect_uris": [uri], "token_endpoint_auth_method": "none"});
        send(&world, "POST /oauth/register", "", &metadata.to_string())
    };
    let own = format!("{base}/oauth/callback");
    for uri in [
        own.as_str(),
        "view-source:https://a.example/",
        "filesystem:https://a.example/x",
        "ms-settings:network",
        "javascript:alert(1)",
        "data:text/html,x",
        "file:///etc/passwd",
        "http://evil.example/cb",
    ] {
        let (status, said) = register(uri, "App");
        assert_eq!(status, 400, "{uri}: {said}");
    }
    // The consent page shows what a name would hide.
    let (status, said) = register("http://localhost:1/cb", "Good\u{202e}evil\u{200b}<script>");
    assert_eq!(status, 201, "{said}");
    let client: Value = serde_json::from_str(&said).unwrap();
    let query = form_urlencoded::Serializer::new(String::new())
        .append_pair("response_type", "code")
        .append_pair("client_id", client["client_id"].as_str().unwrap())
        .append_pair("redirect_uri", "http://localhost:1/cb")
        .append_pair("state", &"s".repeat(40))
        .append_pair("code_challenge", CHALLENGE)
        .append_pair("code_challenge_method", "S256")
        .append_pair("scope", "openid")
        .finish();
    let (status, page) = send(&world, &format!("GET /oauth/authorize?{query}"), "", "");
    assert_eq!(status, 200, "{page}");
    assert!(page.contains("Good") && page.contains("evil"), "{page}");
    assert!(!page.contains(['\u{202e}', '\u{200b}']) && !page.contains("<script>"), "{page}");
}
