//! A protected gateway, through the real binary and real HTTP, while nobody knows its users.
//!
//! Logins at a real provider are tried by `interop/oauth.py`.

use std::{net::TcpListener, process::Command};

use serde_json::{Value, json};

use super::{
    client::Folder,
    serve::{Gateway, MUSTER},
};

/// A configuration whose provider is not there: the port was free a moment ago.
fn config() -> String {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let server = json!({"enabled": true, "baseUrl": "https://muster.example", "provider": "dex",
        "dex": {"issuerUrl": format!("http://127.0.0.1:{port}"), "clientId": "muster", "clientSecret": "canary-secret"},
        "registrationToken": "canary-token", "allowPublicClientRegistration": true,
        "allowedOrigins": "https://app.example"});
    json!({"aggregator": {"port": 0, "oauth": {"server": server}}}).to_string()
}

fn get(gateway: &Gateway, path: &str, more: &str) -> (u16, String, Value) {
    let head = format!("GET {path} HTTP/1.1\r\nhost: localhost:{}{more}", gateway.port);
    let (status, head, body) = gateway.request(&head, "");
    (status, head.to_lowercase(), serde_json::from_str(&body).unwrap_or(Value::String(body)))
}

#[test]
fn it_is_up_and_says_what_is_missing() {
    let gateway = Gateway::start(&[("config.yaml", &config())], &[]);
    let (status, _, health) = get(&gateway, "/health", "");
    assert_eq!(
        (status, &health["status"], &health["reason"]),
        (200, &json!("degraded"), &json!("oidc-discovery-pending"))
    );
    for path in ["/mcp", "/sse", "/message"] {
        let (status, head, body) = get(&gateway, path, "");
        assert_eq!(status, 401, "{path}");
        assert_eq!(
            body,
            json!({"error": "invalid_token", "error_description": "Missing Authorization header"})
        );
        let challenge = "bearer resource_metadata=\"https://muster.example/.well-known/oauth-protected-resource\"";
        assert!(head.contains(challenge), "{head}");
    }
    // Nobody can say whether the token is good, so it is not called bad.
    let (status, head, _) = get(&gateway, "/mcp", "\r\nauthorization: Bearer opaque");
    assert_eq!((status, head.contains("retry-after: 30")), (503, true));
    for path in ["/", "/oauth", "/oauth/other", "/.well-known/other"] {
        assert_eq!(get(&gateway, path, "").0, 404, "{path}");
    }
    let (_, _, said) = get(&gateway, "/.well-known/oauth-protected-resource/mcp", "");
    assert_eq!(said["resource"], "https://muster.example/mcp");
    let (_, head, said) = get(&gateway, "/.well-known/oauth-authorization-server", "");
    assert_eq!(said["issuer"], "https://muster.example");
    assert!(head.contains("strict-transport-security"), "{head}");
}

#[test]
fn it_answers_to_its_own_name_and_to_pages_that_are_allowed() {
    let gateway = Gateway::start(&[("config.yaml", &config())], &[]);
    for (host, origin, expected) in [
        ("muster.example", "", 401),
        ("evil.example", "", 403),
        ("muster.example", "\r\norigin: https://app.example", 401),
        ("muster.example", "\r\norigin: https://evil.example", 403),
    ] {
        let head = format!("GET /mcp HTTP/1.1\r\nhost: {host}{origin}");
        assert_eq!(gateway.request(&head, "").0, expected, "{host} {origin}");
    }
}

#[test]
fn browsers_and_issuers_reach_a_gateway_that_is_not_protected_by_its_public_name() {
    let client = json!({"enabled": true, "publicUrl": "https://muster.example:8443"});
    let config = json!({"aggregator": {"port": 0, "oauth": {"mcpClient": client}}}).to_string();
    let gateway = Gateway::start(&[("config.yaml", &config)], &[]);
    for (host, path, expected) in [
        ("muster.example:8443", "/.well-known/oauth-client.json", 200),
        ("muster.example", "/oauth/proxy/callback?state=unknown&code=c", 400),
        ("evil.example", "/.well-known/oauth-client.json", 403),
        ("evil.example", "/mcp", 403),
    ] {
        let head = format!("GET {path} HTTP/1.1\r\nhost: {host}");
        assert_eq!(gateway.request(&head, "").0, expected, "{host} {path}");
    }
}

#[test]
fn what_is_configured_wrong_is_told_at_once_and_without_secrets() {
    for (from, to, expected) in [
        (
            "https://muster.example",
            "http://muster.example",
            "OAuth 2.1 requires HTTPS for production (got: http://muster.example)",
        ),
        ("https://muster.example", "", "base URL cannot be empty"),
        (
            "\"provider\":\"dex\"",
            "\"provider\":\"x\"",
            "unsupported OAuth provider: x (supported: dex, google)",
        ),
    ] {
        let folder = Folder::new(&[("config.yaml", &config().replace(from, to))]);
        let output = Command::new(MUSTER)
            .arg("serve")
            .arg("--config-path")
            .arg(folder.path())
            .env("MUSTER_STATE_PATH", folder.file("state"))
            .output()
            .unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(&format!("failed to initialize application: {expected}")), "{said}");
        assert!(!said.contains("canary"), "{said}");
    }
}
