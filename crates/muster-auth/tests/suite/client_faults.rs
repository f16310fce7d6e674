//! Logins at servers when the server or its issuer misbehaves, with the exact error.

use serde_json::json;

use crate::client_world::{Canned, World};

const RESOURCE: &str = "/.well-known/oauth-protected-resource/mcp";
const ROOT: &str = "/.well-known/oauth-protected-resource";
const ISSUER: &str = "/.well-known/oauth-authorization-server";
const OPENID: &str = "/.well-known/openid-configuration";

fn not_found() -> Canned {
    Canned(404, "", "{}".to_owned())
}

fn response(status: u16, body: &str) -> Canned {
    Canned(status, "", body.to_owned())
}

/// Logs in after `spoil` has changed something; `$base` stands for the issuer's URL.
async fn check(
    row: &str,
    spoil: impl AsyncFnOnce(&World, &mut Vec<(&'static str, String)>),
    expect: &str,
) {
    let world = World::new().await;
    let mut extra = Vec::new();
    spoil(&world, &mut extra).await;
    let extra: Vec<(&str, String)> = extra
        .into_iter()
        .map(|(name, value)| (name, value.replace("$base", &world.issuer.base)))
        .collect();
    let extra: Vec<(&str, &str)> =
        extra.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let got = world.log_in("alice", &world.site("/mcp"), &extra).await;
    assert_eq!(got.replace(&world.issuer.base, "$base"), expect, "{row}");
}

#[tokio::test]
async fn invalid_resource_metadata() {
    check("all is well", async |_, _| (), "access-1").await;
    check(
        "a server without metadata is its own issuer",
        async |world, _| world.issuer.respond_with(RESOURCE, not_found()),
        "access-1",
    )
    .await;
    check(
        "the metadata is at the root",
        async |world, _| {
            world.issuer.respond_with(RESOURCE, not_found());
            let metadata = json!({"resource": "$base", "authorization_servers": ["$base"]});
            world.issuer.respond_with(ROOT, Canned(200, "", metadata.to_string()));
        },
        "access-1",
    )
    .await;
    check(
        "metadata of another resource",
        async |world, _| {
            let metadata = json!({"resource": "$base/x", "authorization_servers": ["$base"]});
            world.issuer.respond_with(RESOURCE, Canned(200, "", metadata.to_string()));
        },
        "no URL: the server describes itself as `$base/x`, which is another resource: a token for it \
         could be used elsewhere",
    )
    .await;
    check(
        "metadata that is not JSON",
        async |world, _| world.issuer.respond_with(RESOURCE, response(200, "<html>")),
        "access-1",
    )
    .await;
    check(
        "an issuer that is not a web URL",
        async |world, _| {
            let metadata = json!({"resource": "$base/mcp", "authorization_servers": ["ftp://x"]});
            world.issuer.respond_with(RESOURCE, Canned(200, "", metadata.to_string()));
        },
        "no URL: unable to discover OAuth authorization server: `ftp://x` is not an issuer URL",
    )
    .await;
    check(
        "an issuer at a link-local address",
        async |world, _| {
            let metadata = json!({
                "resource": "$base/mcp", "authorization_servers": ["https://169.254.169.254"],
            });
            world.issuer.respond_with(RESOURCE, Canned(200, "", metadata.to_string()));
        },
        "no URL: unable to discover OAuth authorization server: `169.254.169.254` leads to a \
         network that requests may not go to",
    )
    .await;
    check(
        "metadata that redirects to a link-local address",
        async |world, _| {
            let to = "location: http://169.254.169.254/latest";
            world.issuer.respond_with(RESOURCE, Canned(302, to, String::new()));
        },
        "access-1",
    )
    .await;
}

#[tokio::test]
async fn untrusted_issuers() {
    check(
        "an issuer that is down",
        async |world, _| {
            world.issuer.respond_with(ISSUER, response(500, ""));
            world.issuer.respond_with(OPENID, response(503, ""));
        },
        "no URL: unable to discover OAuth authorization server: `$base` has no metadata (status 500); \
         `$base` has no metadata (status 503)",
    )
    .await;
    check(
        "an issuer with OpenID Connect discovery only",
        async |world, _| {
            world.issuer.respond_with(ISSUER, not_found());
            let metadata = json!({
                "issuer": "$base", "authorization_endpoint": "$base/authorize",
                "token_endpoint": "$base/token", "code_challenge_methods_supported": ["plain", "S256"],
            });
            world.issuer.respond_with(OPENID, Canned(200, "", metadata.to_string()));
        },
        "access-1",
    )
    .await;
    check(
        "an issuer with another name",
        async |world, _| world.issuer.set_metadata("issuer", json!("https://evil.example")),
        "no URL: the issuer `$base` describes itself as `https://evil.example`: it may be an impostor",
    )
    .await;
    check(
        "an issuer with a trailing slash",
        async |world, _| world.issuer.set_metadata("issuer", json!("$base/")),
        "access-1",
    )
    .await;
    check(
        "no PKCE",
        async |world, _| world.issuer.set_metadata("code_challenge_methods_supported", json!([])),
        "no URL: the issuer `$base` does not support PKCE with S256, without which a login could be \
         stolen",
    )
    .await;
    check(
        "only plain PKCE",
        async |world, _| world.issuer.set_metadata("code_challenge_methods_supported", json!(["plain"])),
        "no URL: the issuer `$base` does not support PKCE with S256, without which a login could be \
         stolen",
    )
    .await;
    check(
        "tokens without TLS",
        async |world, _| {
            world.issuer.set_metadata("token_endpoint", json!("http://idp.example/token"));
        },
        "no URL: an endpoint of the issuer `$base` does not use TLS",
    )
    .await;
    check(
        "an authorization endpoint that is a script",
        async |world, _| {
            world.issuer.set_metadata("authorization_endpoint", json!("javascript:alert(1)"));
        },
        "no URL: an endpoint of the issuer `$base` does not use TLS",
    )
    .await;
    check(
        "metadata that is too large",
        async |world, _| {
            let body = format!("{{\"x\":\"{}\"}}", "x".repeat(2 * 1024 * 1024));
            world.issuer.respond_with(ISSUER, Canned(200, "", body.clone()));
            world.issuer.respond_with(OPENID, Canned(200, "", body));
        },
        "no URL: unable to discover OAuth authorization server: the response of `127.0.0.1` has more than \
         1048576 bytes",
    )
    .await;
}

#[tokio::test]
async fn failed_registrations() {
    check(
        "registration fails",
        async |world, _| world.issuer.respond_with("/register", response(500, "")),
        "no URL: the issuer does not register us: status 500",
    )
    .await;
    check(
        "registration is refused",
        async |world, _| {
            let body = r#"{"error": "invalid_redirect_uri", "error_description": "not\nhere"}"#;
            world.issuer.respond_with("/register", response(400, body));
        },
        "no URL: the issuer does not register us: invalid_redirect_uri - not here",
    )
    .await;
    check(
        "an empty registration response",
        async |world, _| world.issuer.respond_with("/register", response(201, "{}")),
        "no URL: the issuer's response to the registration cannot be read",
    )
    .await;
    check(
        "no registration endpoint",
        async |world, _| world.issuer.set_metadata("registration_endpoint", json!(null)),
        "access-1",
    )
    .await;
}

#[tokio::test]
async fn invalid_callbacks() {
    type Extra = Vec<(&'static str, String)>;
    let with = |name: &'static str, value: &'static str| {
        async move |_: &World, extra: &mut Extra| extra.push((name, value.to_owned()))
    };
    let expired = "400 Sign-in expired: This sign-in has expired or was already used. Call \
                   core_auth_login again.";
    let stranger = "400 Sign-in could not be completed: The response came from another provider than the \
                    one that was asked.";
    check("a forged state", with("state", "forged"), expired).await;
    let lacks = "400 Missing parameters: The URL lacks the parameters that the provider adds.";
    check("no state", with("state", ""), lacks).await;
    check("no code", with("code", ""), "400 Missing parameters: The provider sent no code.").await;
    check(
        "a wrong code",
        with("code", "bad"),
        "400 Sign-in could not be completed: token request failed: invalid_grant - it is used up",
    )
    .await;
    let denied = "400 Sign-in was denied: The provider reported: access_denied.";
    check("the user denies", with("error", "access_denied"), denied).await;
    check("the right issuer", with("iss", "$base"), "access-1").await;
    check("another issuer", with("iss", "https://evil.example"), stranger).await;
    check("an issuer with a trailing slash", with("iss", "$base/"), stranger).await;
    check(
        "an error of another issuer",
        async |_, extra| {
            extra.push(("iss", "https://evil.example".to_owned()));
            extra.push(("error", "call +1 555 0100".to_owned()));
        },
        stranger,
    )
    .await;
    check(
        "no issuer, although it is announced",
        async |world, _| {
            world
                .issuer
                .set_metadata("authorization_response_iss_parameter_supported", json!(true));
        },
        "400 Sign-in could not be completed: The response does not say which provider it is from.",
    )
    .await;
}

#[tokio::test]
async fn callbacks_work_once_and_in_time() {
    let world = World::new().await;
    let site = world.site("/mcp");
    let asked = world.begin("alice", &site).await.unwrap();
    let back = [("state", asked["state"].as_str()), ("code", "good")];
    assert!(world.open(&back).await.starts_with("200 Signed in: You are signed in to mcp."));
    assert!(world.open(&back).await.starts_with("400 Sign-in expired"));
    let asked = world.begin("alice", &site).await.unwrap();
    world.advance(601);
    let back = [("state", asked["state"].as_str()), ("code", "good")];
    assert!(world.open(&back).await.starts_with("400 Sign-in expired"));
}

#[tokio::test]
async fn invalid_token_responses() {
    let start = "400 Sign-in could not be completed:";
    for (row, status, body, expect) in [
        ("it is down", 500, "oops", "token request failed: status 500"),
        ("it is busy", 429, "", "token request failed: status 429"),
        (
            "it is temporarily unavailable",
            503,
            r#"{"error": "temporarily_unavailable"}"#,
            "token request failed: temporarily_unavailable",
        ),
        (
            "it does not know us",
            401,
            r#"{"error": "invalid_client"}"#,
            "token request failed: invalid_client",
        ),
        (
            "it echoes the code",
            400,
            r#"{"error": "invalid_grant", "error_description": "code good is bad"}"#,
            "token request failed: invalid_grant - code [REDACTED] is bad",
        ),
        ("a page", 200, "<html></html>", "the issuer&#39;s token response contains no token"),
        ("nothing", 200, "{}", "the issuer&#39;s token response contains no token"),
        (
            "an empty token",
            200,
            r#"{"access_token": ""}"#,
            "the issuer&#39;s token response contains no token",
        ),
        (
            "an unknown token type",
            200,
            r#"{"access_token": "a", "token_type": "mac"}"#,
            "the issuer&#39;s token response has an unknown token type",
        ),
        (
            "a token that breaks a header",
            200,
            r#"{"access_token": "a\r\nx: y", "token_type": "bearer"}"#,
            "the issuer&#39;s token response contains a token that cannot be sent in a header",
        ),
        ("a redirect", 302, "", "token request failed: status 302"),
    ] {
        let spoil = async |world: &World, _: &mut Vec<(&'static str, String)>| {
            world.issuer.respond_with("/token", response(status, body));
        };
        check(row, spoil, &format!("{start} {expect}")).await;
    }
    for (row, body) in [
        ("an expiry as text", r#"{"access_token": "a", "expires_in": "3600"}"#),
        ("no expiry", r#"{"access_token": "a", "token_type": "BEARER"}"#),
        ("a negative expiry", r#"{"access_token": "a", "expires_in": -5}"#),
        ("a huge expiry", r#"{"access_token": "a", "expires_in": 1e300}"#),
    ] {
        let spoil = async |world: &World, _: &mut Vec<(&'static str, String)>| {
            world.issuer.respond_with("/token", response(200, body));
        };
        check(row, spoil, "a").await;
    }
}

#[tokio::test]
async fn an_unknown_client_registers_again() {
    let world = World::new().await;
    let site = world.site("/mcp");
    world.issuer.respond_with("/token", response(401, r#"{"error": "invalid_client"}"#));
    assert!(world.log_in("alice", &site, &[]).await.contains("invalid_client"));
    world.issuer.reset("/token");
    assert_eq!(world.log_in("alice", &site, &[]).await, "access-1");
    assert_eq!(world.issuer.requests("/register").len(), 2);
    // The new registration is reused.
    assert_eq!(world.log_in("bob", &site, &[]).await, "access-2");
    assert_eq!(world.issuer.requests("/register").len(), 2);
}
