//! Attacks on the logins of a protected gateway: on its users, its identity provider and its OAuth clients. Through the
//! real binary.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
};

use serde_json::{Value, json};

use super::world::{World, agree, look};

/// Sends a request, and reads the status and the body of the answer.
fn send(world: &World, line: &str, more: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", world.gateway)).unwrap();
    write!(
        stream,
        "{line} HTTP/1.1\r\nhost: localhost:{}\r\ncontent-type: application/json\r\n\
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
        .append_pair("code_challenge", "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM")
        .append_pair("code_challenge_method", "S256")
        .append_pair("scope", "openid")
        .finish();
    let (status, page) = send(&world, &format!("GET /oauth/authorize?{query}"), "", "");
    assert_eq!(status, 200, "{page}");
    assert!(page.contains("Good") && page.contains("evil"), "{page}");
    assert!(!page.contains(['\u{202e}', '\u{200b}']) && !page.contains("<script>"), "{page}");
}
