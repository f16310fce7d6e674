//! What comes of a login when a server or its issuer misbehaves: one row for each way, with the exact
//! outcome.

use serde_json::json;

use crate::client_world::{Canned, World};

const RESOURCE: &str = "/.well-known/oauth-protected-resource/mcp";
const ROOT: &str = "/.well-known/oauth-protected-resource";
const ISSUER: &str = "/.well-known/oauth-authorization-server";
const OPENID: &str = "/.well-known/openid-configuration";

fn not_found() -> Canned {
    Canned(404, "", "{}".to_owned())
}

fn says(status: u16, body: &str) -> Canned {
    Canned(status, "", body.to_owned())
}

/// A login in a world of which something is wrong; `$base` stands for where the issuer is.
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
async fn servers_and_issuers_that_describe_themselves_wrongly() {
    check("all is well", async |_, _| (), "access-1").await;
    check(
        "a server without a description is its own issuer",
        async |world, _| world.issuer.answers(RESOURCE, not_found()),
        "access-1",
    )
    .await;
    check(
        "the description is at the root",
        async |world, _| {
            world.issuer.answers(RESOURCE, not_found());
            let says = json!({"resource": "$base", "authorization_servers": ["$base"]});
            world.issuer.answers(ROOT, Canned(200, "", says.to_string()));
        },
        "access-1",
    )
    .await;
    check(
        "a description of something else",
        async |world, _| {
            let says = json!({"resource": "$base/x", "authorization_servers": ["$base"]});
            world.issuer.answers(RESOURCE, Canned(200, "", says.to_string()));
        },
        "no address: the server describes itself as `$base/x`, which is another resource: a token for it \
         would be good for somebody else",
    )
    .await;
    check(
        "a description that is no document",
        async |world, _| world.issuer.answers(RESOURCE, says(200, "<html>")),
        "access-1",
    )
    .await;
    check(
        "an issuer that is nowhere",
        async |world, _| {
            let says = json!({"resource": "$base/mcp", "authorization_servers": ["ftp://x"]});
            world.issuer.answers(RESOURCE, Canned(200, "", says.to_string()));
        },
        "no address: unable to discover OAuth authorization server: `ftp://x` is no issuer",
    )
    .await;
    check(
        "an issuer in a network of machines",
        async |world, _| {
            let says = json!({
                "resource": "$base/mcp", "authorization_servers": ["https://169.254.169.254"],
            });
            world.issuer.answers(RESOURCE, Canned(200, "", says.to_string()));
        },
        "no address: unable to discover OAuth authorization server: `169.254.169.254` leads to a \
         network that requests may not go to",
    )
    .await;
    check(
        "a description that redirects to a network of machines",
        async |world, _| {
            let to = "location: http://169.254.169.254/latest";
            world.issuer.answers(RESOURCE, Canned(302, to, String::new()));
        },
        "access-1",
    )
    .await;
}

#[tokio::test]
async fn issuers_that_cannot_be_trusted() {
    check(
        "an issuer that is down",
        async |world, _| {
            world.issuer.answers(ISSUER, says(500, ""));
            world.issuer.answers(OPENID, says(503, ""));
        },
        "no address: unable to discover OAuth authorization server: `$base` has no description (status \
         500); `$base` has no description (status 503)",
    )
    .await;
    check(
        "an issuer that has only the document of OpenID Connect",
        async |world, _| {
            world.issuer.answers(ISSUER, not_found());
            let says = json!({
                "issuer": "$base", "authorization_endpoint": "$base/authorize",
                "token_endpoint": "$base/token", "code_challenge_methods_supported": ["plain", "S256"],
            });
            world.issuer.answers(OPENID, Canned(200, "", says.to_string()));
        },
        "access-1",
    )
    .await;
    check(
        "an issuer with another name",
        async |world, _| world.issuer.says("issuer", json!("https://evil.example")),
        "no address: the issuer `$base` describes itself as `https://evil.example`: someone may pretend to \
         be it",
    )
    .await;
    check(
        "an issuer with a slash more",
        async |world, _| world.issuer.says("issuer", json!("$base/")),
        "access-1",
    )
    .await;
    check(
        "no PKCE",
        async |world, _| world.issuer.says("code_challenge_methods_supported", json!([])),
        "no address: the issuer `$base` does not support PKCE with S256, without which a login could be \
         stolen",
    )
    .await;
    check(
        "only plain PKCE",
        async |world, _| world.issuer.says("code_challenge_methods_supported", json!(["plain"])),
        "no address: the issuer `$base` does not support PKCE with S256, without which a login could be \
         stolen",
    )
    .await;
    check(
        "tokens without TLS",
        async |world, _| world.issuer.says("token_endpoint", json!("http://idp.example/token")),
        "no address: an endpoint of the issuer `$base` is not safe",
    )
    .await;
    check(
        "an address that is a script",
        async |world, _| world.issuer.says("authorization_endpoint", json!("javascript:alert(1)")),
        "no address: an endpoint of the issuer `$base` is not safe",
    )
    .await;
    check(
        "a description without end",
        async |world, _| {
            let body = format!("{{\"x\":\"{}\"}}", "x".repeat(2 * 1024 * 1024));
            world.issuer.answers(ISSUER, Canned(200, "", body.clone()));
            world.issuer.answers(OPENID, Canned(200, "", body));
        },
        "no address: unable to discover OAuth authorization server: the response of `127.0.0.1` has more than \
         1048576 bytes",
    )
    .await;
}

#[tokio::test]
async fn issuers_that_do_not_register_us() {
    check(
        "registration fails",
        async |world, _| world.issuer.answers("/register", says(500, "")),
        "no address: the issuer does not register us: status 500",
    )
    .await;
    check(
        "registration is refused",
        async |world, _| {
            let body = r#"{"error": "invalid_redirect_uri", "error_description": "not\nhere"}"#;
            world.issuer.answers("/register", says(400, body));
        },
        "no address: the issuer does not register us: invalid_redirect_uri - not here",
    )
    .await;
    check(
        "registration says nothing",
        async |world, _| world.issuer.answers("/register", says(201, "{}")),
        "no address: the issuer's answer to a registration cannot be read",
    )
    .await;
    check(
        "there is no registration",
        async |world, _| world.issuer.says("registration_endpoint", json!(null)),
        "access-1",
    )
    .await;
}

#[tokio::test]
async fn browsers_that_come_back_wrongly() {
    type Extra = Vec<(&'static str, String)>;
    let with = |name: &'static str, value: &'static str| {
        async move |_: &World, extra: &mut Extra| extra.push((name, value.to_owned()))
    };
    let expired = "400 Sign-in expired: This sign-in has expired or was already used. Call \
                   core_auth_login again.";
    let stranger = "400 Sign-in could not be completed: The answer came from another provider than the one \
                    that was asked.";
    check("a state of somebody else", with("state", "forged"), expired).await;
    let lacks = "400 Missing parameters: The address lacks what the provider adds.";
    check("no state", with("state", ""), lacks).await;
    check("no code", with("code", ""), "400 Missing parameters: The provider sent no code.").await;
    check(
        "a wrong code",
        with("code", "bad"),
        "400 Sign-in could not be completed: token request failed: invalid_grant - it is used up",
    )
    .await;
    let denied = "400 Sign-in was denied: The provider said: access_denied.";
    check("the person says no", with("error", "access_denied"), denied).await;
    check("the right issuer", with("iss", "$base"), "access-1").await;
    check("another issuer", with("iss", "https://evil.example"), stranger).await;
    check("an issuer with a slash more", with("iss", "$base/"), stranger).await;
    check(
        "another issuer's error",
        async |_, extra| {
            extra.push(("iss", "https://evil.example".to_owned()));
            extra.push(("error", "call +1 555 0100".to_owned()));
        },
        stranger,
    )
    .await;
    check(
        "no issuer, though it is promised",
        async |world, _| {
            world.issuer.says("authorization_response_iss_parameter_supported", json!(true));
        },
        "400 Sign-in could not be completed: The answer does not say which provider it is from.",
    )
    .await;
}

#[tokio::test]
async fn nobody_comes_back_twice_or_late() {
    let world = World::new().await;
    let site = world.site("/mcp");
    let asked = world.begin("alice", &site).await.unwrap();
    let back = [("state", asked["state"].as_str()), ("code", "good")];
    assert!(world.open(&back).await.starts_with("200 Signed in: You are signed in to mcp."));
    assert!(world.open(&back).await.starts_with("400 Sign-in expired"));
    let asked = world.begin("alice", &site).await.unwrap();
    world.later(601);
    let back = [("state", asked["state"].as_str()), ("code", "good")];
    assert!(world.open(&back).await.starts_with("400 Sign-in expired"));
}

#[tokio::test]
async fn token_endpoints_that_misbehave() {
    let start = "400 Sign-in could not be completed:";
    for (row, status, body, expect) in [
        ("it is down", 500, "oops", "token request failed: status 500"),
        ("it is busy", 429, "", "token request failed: status 429"),
        (
            "it says when to come again",
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
            "it repeats what it was shown",
            400,
            r#"{"error": "invalid_grant", "error_description": "code good is bad"}"#,
            "token request failed: invalid_grant - code [REDACTED] is bad",
        ),
        ("a page", 200, "<html></html>", "the issuer&#39;s answer holds no token"),
        ("nothing", 200, "{}", "the issuer&#39;s answer holds no token"),
        (
            "an empty token",
            200,
            r#"{"access_token": ""}"#,
            "the issuer&#39;s answer holds no token",
        ),
        (
            "another kind of token",
            200,
            r#"{"access_token": "a", "token_type": "mac"}"#,
            "the issuer&#39;s answer holds a token of a kind that is not known here",
        ),
        (
            "a token that breaks a header",
            200,
            r#"{"access_token": "a\r\nx: y", "token_type": "bearer"}"#,
            "the issuer&#39;s answer holds a token that cannot be sent",
        ),
        ("a redirect", 302, "", "token request failed: status 302"),
    ] {
        let spoil = async |world: &World, _: &mut Vec<(&'static str, String)>| {
            world.issuer.answers("/token", says(status, body));
        };
        check(row, spoil, &format!("{start} {expect}")).await;
    }
    for (row, body) in [
        ("an end written as text", r#"{"access_token": "a", "expires_in": "3600"}"#),
        ("no end", r#"{"access_token": "a", "token_type": "BEARER"}"#),
        ("an end in the past", r#"{"access_token": "a", "expires_in": -5}"#),
        ("an end without end", r#"{"access_token": "a", "expires_in": 1e300}"#),
    ] {
        let spoil = async |world: &World, _: &mut Vec<(&'static str, String)>| {
            world.issuer.answers("/token", says(200, body));
        };
        check(row, spoil, "a").await;
    }
}

#[tokio::test]
async fn a_client_that_is_not_known_any_more_registers_anew() {
    let world = World::new().await;
    let site = world.site("/mcp");
    world.issuer.answers("/token", says(401, r#"{"error": "invalid_client"}"#));
    assert!(world.log_in("alice", &site, &[]).await.contains("invalid_client"));
    world.issuer.as_usual("/token");
    assert_eq!(world.log_in("alice", &site, &[]).await, "access-1");
    assert_eq!(world.issuer.asked("/register").len(), 2);
    // And does not do so again without need.
    assert_eq!(world.log_in("bob", &site, &[]).await, "access-2");
    assert_eq!(world.issuer.asked("/register").len(), 2);
}
