//! Tokens of users at servers: single-flight refresh, and their binding to one user and one resource.

use std::sync::Arc;

use muster_core::logins::{LoginError, ProtectedServer};
use serde_json::json;
use tokio::task::JoinSet;

use crate::client_world::{Canned, Issuer, World, person, token_text};

#[tokio::test]
async fn concurrent_requests_share_one_refresh() {
    let world = World::new().await;
    let site = world.site("/mcp");
    assert_eq!(world.log_in("alice", &site, &[]).await, "access-1");
    let access = world.access("alice", &site).await.unwrap();
    world.advance(4000);
    let mut calls = JoinSet::new();
    for _ in 0..1000 {
        let access = Arc::clone(&access);
        calls.spawn(async move { token_text(access.token().await) });
    }
    while let Some(token) = calls.join_next().await {
        assert_eq!(token.unwrap(), "access-2");
    }
    assert_eq!(world.issuer.refreshes(), 1);
}

#[tokio::test]
async fn concurrent_refusals_share_one_refresh() {
    let world = World::new().await;
    let site = world.site("/mcp");
    assert_eq!(world.log_in("alice", &site, &[]).await, "access-1");
    let access = world.access("alice", &site).await.unwrap();
    let token = access.token().await.unwrap();
    let mut calls = JoinSet::new();
    for _ in 0..1000 {
        let (access, token) = (Arc::clone(&access), token.clone());
        calls.spawn(async move { token_text(access.replace_rejected(&token, None).await) });
    }
    while let Some(token) = calls.join_next().await {
        assert_eq!(token.unwrap(), "access-2");
    }
    assert_eq!(world.issuer.refreshes(), 1);
}

#[tokio::test]
async fn tokens_are_refreshed() {
    let world = World::new().await;
    let site = world.site("/mcp");
    assert_eq!(world.log_in("alice", &site, &[]).await, "access-1");
    let access = world.access("alice", &site).await.unwrap();
    // Long before it expires, the token is not refreshed.
    world.advance(3000);
    assert_eq!(token_text(access.token().await), "access-1");
    // Shortly before, a valid token is used while the issuer is unavailable.
    world.advance(400);
    world.issuer.respond_with("/token", Canned(503, "", String::new()));
    assert_eq!(token_text(access.token().await), "access-1");
    world.advance(190);
    let away = "no token: Unavailable(\"token request failed: status 503\")";
    assert_eq!(token_text(access.token().await), away);
    world.issuer.reset("/token");
    assert_eq!(token_text(access.token().await), "access-2");
    // A refresh token that the response leaves out stays valid.
    world.advance(3600);
    let response = json!({"access_token": "plain", "expires_in": 3600});
    world.issuer.respond_with("/token", Canned(200, "", response.to_string()));
    assert_eq!(token_text(access.token().await), "plain");
    world.advance(3600);
    world.issuer.reset("/token");
    assert_eq!(token_text(access.token().await), "access-3");
    let last = world.issuer.requests("/token").pop().unwrap();
    assert_eq!(last.form["refresh_token"], "refresh-2");
    // After a revocation the user has to log in again.
    world.issuer.revoke_refresh_tokens();
    world.advance(3600);
    assert_eq!(token_text(access.token().await), "no token: Required");
    assert_eq!(world.access("alice", &site).await.unwrap_err(), LoginError::Required);
}

#[tokio::test]
async fn a_token_is_for_one_server_and_one_user() {
    let world = World::new().await;
    let (site, other) = (world.site("/mcp"), world.site("/other"));
    assert_eq!(world.log_in("alice", &site, &[]).await, "access-1");
    let asked = world.issuer.requests("/token");
    assert_eq!(asked[0].form["resource"], format!("{}/mcp", world.issuer.base));
    assert_eq!(asked[0].form["client_id"], "client-1");
    // Another server of the issuer gets its own token without another login.
    let access = world.access("alice", &other).await.unwrap();
    assert_eq!(token_text(access.token().await), "access-2");
    let last = world.issuer.requests("/token").pop().unwrap();
    assert_eq!(last.form["resource"], format!("{}/other", world.issuer.base));
    let access = world.access("alice", &site).await.unwrap();
    assert_eq!(token_text(access.token().await), "access-1");
    // Another user has no token.
    for site in [&site, &other] {
        assert_eq!(world.access("bob", site).await.unwrap_err(), LoginError::Required);
    }
    world.logins.forget(&person("alice"), &site).await;
    assert_eq!(world.access("alice", &site).await.unwrap_err(), LoginError::Required);
    assert_eq!(token_text(access.token().await), "no token: Required");
}

#[tokio::test]
async fn logins_at_two_servers_of_one_issuer_are_independent() {
    let world = World::new().await;
    world.issuer.set_metadata("revocation_endpoint", json!("$base/revoke"));
    let (one, other) = (world.site("/mcp"), world.site("/other"));
    let gives = |name: &str, refresh: Option<&str>| {
        let response = json!({"access_token": name, "expires_in": 3600, "refresh_token": refresh});
        world.issuer.respond_with("/token", Canned(200, "", response.to_string()));
    };
    let has = async |site: &ProtectedServer| match world.access("alice", site).await {
        Ok(access) => token_text(access.token().await),
        Err(error) => error.to_string(),
    };
    // An issuer without refresh tokens.
    gives("a", None);
    assert_eq!(world.log_in("alice", &one, &[]).await, "a");
    gives("b", None);
    assert_eq!(world.log_in("alice", &other, &[]).await, "b");
    assert_eq!((has(&one).await, has(&other).await), ("a".to_owned(), "b".to_owned()));
    // An issuer whose refresh tokens are bound to one server.
    for (site, name, refresh) in [(&one, "a1", "for-one"), (&other, "b1", "for-other")] {
        gives(name, Some(refresh));
        assert_eq!(world.log_in("alice", site, &[]).await, name);
    }
    for (round, site, refresh) in
        [(2, &one, "for-one"), (2, &other, "for-other"), (3, &one, "one-2"), (3, &other, "other-2")]
    {
        if site.name == "mcp" {
            world.advance(4000);
        }
        let short = site.name.replace("mcp", "one");
        gives(&format!("{short}{round}"), Some(&format!("{short}-{round}")));
        assert_eq!(has(site).await, format!("{short}{round}"));
        let asked = world.issuer.requests("/token").pop().unwrap();
        assert_eq!(asked.form["refresh_token"], refresh);
    }
    // If one refresh token is used up, the other is tried.
    world.advance(4000);
    world.issuer.reset("/token");
    world.issuer.expect_refresh_token("other-3");
    assert_eq!(has(&one).await, "access-1");
    // All refresh tokens are revoked.
    world.logins.forget(&person("alice"), &one).await;
    let asked = world.issuer.requests("/revoke");
    let revoked: Vec<&str> = asked.iter().map(|asked| asked.form["token"].as_str()).collect();
    assert_eq!(revoked, ["refresh-1"]);
}

#[tokio::test]
async fn a_refresh_token_that_two_servers_share_is_used_once() {
    let world = World::new().await;
    let (one, other) = (world.site("/mcp"), world.site("/other"));
    let has = async |site: &ProtectedServer| {
        token_text(world.access("alice", site).await.unwrap().token().await)
    };
    assert_eq!(world.log_in("alice", &one, &[]).await, "access-1");
    assert_eq!(has(&other).await, "access-2");
    // A login at a third server brings another refresh token.
    let third = world.site("/third");
    let metadata = json!({"resource": "$base/third", "authorization_servers": ["$base"]});
    let path = "/.well-known/oauth-protected-resource/third";
    world.issuer.respond_with(path, Canned(200, "", metadata.to_string()));
    let response = json!({"access_token": "c", "expires_in": 9999, "refresh_token": "for-third"});
    world.issuer.respond_with("/token", Canned(200, "", response.to_string()));
    assert_eq!(world.log_in("alice", &third, &[]).await, "c");
    world.issuer.reset("/token");
    world.advance(4000);
    assert_eq!(
        (has(&one).await, has(&other).await),
        ("access-3".to_owned(), "access-4".to_owned())
    );
    let asked = world.issuer.requests("/token");
    let used: Vec<&str> =
        asked.iter().filter_map(|asked| Some(asked.form.get("refresh_token")?.as_str())).collect();
    assert_eq!(used, ["refresh-1", "refresh-2", "refresh-3"]);
}

#[tokio::test]
async fn logout_works_after_a_month_of_use() {
    let world = World::new().await;
    let (site, alice) = (world.site("/mcp"), person("alice"));
    assert_eq!(world.log_in("alice", &site, &[]).await, "access-1");
    for day in 2..40 {
        world.advance(24 * 3600);
        let access = world.access("alice", &site).await.unwrap();
        assert_eq!(token_text(access.token().await), format!("access-{day}"));
    }
    world.logins.forget_all(&alice).await;
    assert_eq!(world.access("alice", &site).await.unwrap_err(), LoginError::Required);
}

#[tokio::test]
async fn superseded_refresh_tokens_are_revoked_at_logout() {
    let world = World::new().await;
    world.issuer.set_metadata("revocation_endpoint", json!("$base/revoke"));
    let site = world.site("/mcp");
    for number in 1..4 {
        assert_eq!(world.log_in("alice", &site, &[]).await, format!("access-{number}"));
    }
    // Some issuers end the new login with the old one, so nothing is revoked before the logout.
    assert!(world.issuer.requests("/revoke").is_empty());
    world.logins.forget_all(&person("alice")).await;
    let asked = world.issuer.requests("/revoke");
    let revoked: Vec<&str> = asked.iter().map(|asked| asked.form["token"].as_str()).collect();
    assert_eq!(revoked, ["refresh-3", "refresh-1", "refresh-2"]);
}

#[tokio::test]
async fn a_server_that_names_anothers_issuer_gets_no_token_unasked() {
    let world = World::new().await;
    let (site, other, alice) = (world.site("/mcp"), world.site("/other"), person("alice"));
    assert!(!world.logins.has_stored_login(&alice, &site).await.unwrap());
    assert_eq!(world.log_in("alice", &site, &[]).await, "access-1");
    let stranger = Issuer::start(world.tasks()).await;
    let metadata = json!({"resource": "$base/mcp", "authorization_servers": [world.issuer.base]});
    stranger.respond_with(
        "/.well-known/oauth-protected-resource/mcp",
        Canned(200, "", metadata.to_string()),
    );
    let url = format!("{}/mcp", stranger.base);
    let strange = ProtectedServer { name: "strange".to_owned(), url, ..ProtectedServer::default() };
    // Before and after the discovery of its issuer.
    for _ in 0..2 {
        assert!(!world.logins.has_stored_login(&alice, &strange).await.unwrap());
        assert!(!world.logins.has_stored_login(&alice, &other).await.unwrap());
        assert!(world.logins.has_stored_login(&alice, &site).await.unwrap());
    }
    // The gateway restarts long after the token has expired.
    world.advance(24 * 3600);
    let again = world.second_gateway();
    assert!(!again.logins.has_stored_login(&alice, &strange).await.unwrap());
    assert!(again.logins.has_stored_login(&alice, &site).await.unwrap());
    assert_eq!(world.issuer.refreshes(), 0);
    // An explicit request shares the login, and that is remembered.
    assert_eq!(token_text(world.access("alice", &other).await.unwrap().token().await), "access-2");
    assert!(world.logins.has_stored_login(&alice, &other).await.unwrap());
    assert!(world.logins.has_stored_login(&alice, &site).await.unwrap());
    world.logins.forget(&alice, &site).await;
    assert!(!world.logins.has_stored_login(&alice, &site).await.unwrap());
}

#[tokio::test]
async fn a_login_ends_when_the_address_of_its_server_changes() {
    let world = World::new().await;
    let (site, shared, alice) = (world.site("/mcp"), world.site("/shared"), person("alice"));
    assert_eq!(world.log_in("alice", &site, &[]).await, "access-1");
    let moved = ProtectedServer { name: "mcp".to_owned(), ..world.site("/other") };
    assert_eq!(world.access("alice", &moved).await.unwrap_err(), LoginError::Required);
    assert_eq!(world.issuer.refreshes(), 0, "no token was asked for with the old login");
    assert!(!world.logins.has_stored_login(&alice, &site).await.unwrap());
    assert!(!world.second_gateway().logins.has_stored_login(&alice, &site).await.unwrap());

    // A login at the new address, and one that another server shares with it, are as good as ever.
    assert_eq!(world.log_in("alice", &moved, &[]).await, "access-2");
    assert_eq!(token_text(world.access("alice", &shared).await.unwrap().token().await), "access-3");
    for _ in 0..2 {
        assert!(world.access("alice", &moved).await.is_ok());
        assert!(world.access("alice", &shared).await.is_ok());
    }
    assert_eq!(world.access("alice", &site).await.unwrap_err(), LoginError::Required);
    assert!(world.logins.has_stored_login(&alice, &shared).await.unwrap(), "others stay");
}

/// The error of a request for which a server requires more scopes.
async fn refused(world: &World, site: &ProtectedServer, wanted: &str) -> String {
    let access = world.access("alice", site).await.unwrap();
    let token = access.token().await.unwrap();
    let challenge = format!("Bearer error=\"insufficient_scope\", scope=\"{wanted}\"");
    match access.replace_rejected(&token, Some(&challenge)).await.unwrap_err() {
        LoginError::InsufficientScope(text) => text,
        other => format!("another error: {other:?}"),
    }
}

#[tokio::test]
async fn step_up_logins_are_limited() {
    let world = World::new().await;
    let (site, alice) = (world.site("/mcp"), person("alice"));
    assert_eq!(world.begin("alice", &site).await.unwrap()["scope"], "read");
    assert_eq!(world.log_in("alice", &site, &[]).await, "access-1");
    for wanted in ["write", "delete", "admin"] {
        assert!(!world.logins.needs_step_up(&alice, &site).await);
        // Repeated refusals before the login count once.
        for _ in 0..5 {
            assert_eq!(
                refused(&world, &site, wanted).await,
                format!(
                    "the server requires more scopes than were granted (insufficient_scope: `{wanted}`); \
                     call core_auth_login with server='mcp' to grant them"
                )
            );
        }
        assert!(world.logins.needs_step_up(&alice, &site).await);
        let asked = world.begin("alice", &site).await.unwrap();
        assert!(
            asked["scope"].starts_with("read") && asked["scope"].ends_with(wanted),
            "{asked:?}"
        );
        assert!(world.log_in("alice", &site, &[]).await.starts_with("access-"));
    }
    let enough = "the server requires more scopes than were granted (insufficient_scope: `everything`), \
                  even after 3 logins";
    assert_eq!(refused(&world, &site, "everything").await, enough);
    assert!(!world.logins.needs_step_up(&alice, &site).await);
    assert_eq!(
        refused(&world, &site, "write").await,
        "the server requires more scopes than were granted (insufficient_scope: `write`), but names only \
         granted ones"
    );
    world.advance(3601);
    assert!(refused(&world, &site, "everything").await.ends_with("to grant them"));
}

#[tokio::test]
async fn a_denied_step_up_leaves_the_login_as_it_was() {
    let world = World::new().await;
    let (site, alice) = (world.site("/mcp"), person("alice"));
    let response = json!({"access_token": "a", "expires_in": 3600, "scope": "read"});
    world.issuer.respond_with("/token", Canned(200, "", response.to_string()));
    assert_eq!(world.log_in("alice", &site, &[]).await, "a");
    assert!(refused(&world, &site, "admin").await.ends_with("to grant them"));
    // The token stays valid for other requests.
    assert_eq!(token_text(world.access("alice", &site).await.unwrap().token().await), "a");
    // The issuer grants no more, and the user is not asked again.
    assert_eq!(world.log_in("alice", &site, &[]).await, "a");
    assert!(!world.logins.needs_step_up(&alice, &site).await);
    assert_eq!(world.begin("alice", &site).await.unwrap()["scope"], "read");
    // Nor if they deny it.
    assert!(refused(&world, &site, "admin").await.ends_with("to grant them"));
    let page = world.log_in("alice", &site, &[("error", "access_denied")]).await;
    assert!(page.starts_with("400 Sign-in was denied"), "{page}");
    assert!(!world.logins.needs_step_up(&alice, &site).await);
    assert_eq!(token_text(world.access("alice", &site).await.unwrap().token().await), "a");
}

#[tokio::test]
async fn authorization_requests() {
    let world = World::new().await;
    let mut site = world.site("/mcp");
    site.challenge =
        Some("Bearer scope=\"one two\", resource_metadata=\"http://127.0.0.1:1/x\"".to_owned());
    world.issuer.set_metadata("scopes_supported", json!(["read", "offline_access"]));
    let asked = world.begin("alice", &site).await.unwrap();
    let expect = [
        ("response_type", "code"),
        ("client_id", "client-1"),
        ("redirect_uri", "http://localhost:8090/oauth/proxy/callback"),
        ("code_challenge_method", "S256"),
        ("scope", "one two offline_access"),
    ];
    for (name, value) in expect {
        assert_eq!(asked[name], value, "{name}");
    }
    assert_eq!(asked["resource"], format!("{}/mcp", world.issuer.base));
    assert_eq!((asked["state"].len(), asked["code_challenge"].len()), (43, 43));
}

#[tokio::test]
async fn client_authentication_methods() {
    for (method, authorization, secret) in [
        ("client_secret_basic", Some("Basic Y2xpZW50LTI6cyUyRmg="), None),
        ("client_secret_post", None, Some("s/h")),
        ("none", None, None),
    ] {
        let world = World::new().await;
        world.issuer.set_metadata("token_endpoint_auth_methods_supported", json!([method]));
        let told = json!({"client_id": "client-2", "client_secret": "s/h", "token_endpoint_auth_method": method});
        world.issuer.respond_with("/register", Canned(201, "", told.to_string()));
        assert_eq!(world.log_in("alice", &world.site("/mcp"), &[]).await, "access-1", "{method}");
        let asked = world.issuer.requests("/token").pop().unwrap();
        assert_eq!(asked.authorization.as_deref(), authorization, "{method}");
        assert_eq!(asked.form.get("client_secret").map(String::as_str), secret, "{method}");
        let named = asked.form.get("client_id").map(String::as_str);
        assert_eq!(named, authorization.is_none().then_some("client-2"), "{method}");
    }
}

#[tokio::test]
async fn secrets_are_never_printed() {
    let world = World::new().await;
    let site = world.site("/mcp");
    let told = json!({"client_id": "c", "client_secret": "canary-client", "token_endpoint_auth_method": "client_secret_post"});
    world.issuer.respond_with("/register", Canned(201, "", told.to_string()));
    let response = json!({
        "access_token": "canary-access", "refresh_token": "canary-refresh", "id_token": "canary-id",
        "expires_in": 3600,
    });
    world.issuer.respond_with("/token", Canned(200, "", response.to_string()));
    assert_eq!(world.log_in("alice", &site, &[]).await, "canary-access");
    let access = world.access("alice", &site).await.unwrap();
    let token = access.token().await.unwrap();
    let echo =
        r#"{"error": "invalid_request", "error_description": "canary-refresh canary-client"}"#;
    world.issuer.respond_with("/token", Canned(400, "", echo.to_owned()));
    world.advance(4000);
    let error = access.token().await.unwrap_err();
    let seen =
        format!("{:?} {:?} {access:?} {token:?} {error} {error:?}", world.client, world.logins);
    assert!(!seen.contains("canary"), "{seen}");
    assert!(seen.contains("[REDACTED] [REDACTED]"), "{seen}");
}
