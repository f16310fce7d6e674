//! Servers that are connected with the caller's login at the gateway.

use std::{sync::Arc, time::Duration};

use muster_core::{
    backend::BoxFuture,
    call::Caller,
    credentials::{BearerToken, IdTokenSource, Principal},
    logins::LoginError,
};
use serde_json::{Value, json};

use crate::{isolation::World, people::known, rig::operator};

const BACKOFF: Duration = Duration::from_secs(6 * 60);

#[derive(Debug)]
struct IdToken;

impl IdTokenSource for IdToken {
    fn id_token(&self) -> BoxFuture<'_, Result<Option<BearerToken>, LoginError>> {
        Box::pin(std::future::ready(Ok(Some(BearerToken::new("token")))))
    }
}

/// A caller whose login at the gateway can be forwarded.
fn signed_on(name: &str) -> Caller {
    let known = known(name);
    let principal = known.principal.as_deref().unwrap();
    let identity: Arc<dyn IdTokenSource> = Arc::new(IdToken);
    Caller::authenticated(Arc::new(Principal { identity: Some(identity), ..principal.clone() }))
}

/// A request of the caller after some time, and all work that it causes.
async fn becomes_active(world: &World, who: &Caller, after: Duration) {
    tokio::time::advance(after).await;
    world.dispatcher.touch(who).await;
    // The paused clock advances only when every task is idle.
    tokio::time::sleep(Duration::from_millis(1)).await;
}

/// The entries of `auth://status`: of the server with single sign-on, and of the other one.
async fn status(world: &World, who: &Caller) -> [Value; 2] {
    let read = world.meta(who, "get_resource", json!({"uri": "auth://status"})).await;
    let read: Value = serde_json::from_str(&read).unwrap();
    let status: Value = serde_json::from_str(read["content"][0]["text"].as_str().unwrap()).unwrap();
    ["one", "two"].map(|name| {
        let servers = status["servers"].as_array().unwrap();
        servers.iter().find(|server| server["name"] == name).unwrap().clone()
    })
}

async fn session_status(world: &World, who: &Caller) -> String {
    let listed = world.meta(who, "call_tool", json!({"name": "core_mcpserver_list"})).await;
    let (_, rest) = listed.split_once("sessionStatus").unwrap();
    rest.chars().skip_while(|c| "\\\":".contains(*c)).take_while(|c| *c != '\\').collect()
}

#[tokio::test(start_paused = true)]
async fn the_states_of_single_sign_on() {
    let (world, alice) = (World::new().await, signed_on("alice"));
    let path = world.dir.path().join("mcpservers/one.yaml");
    std::fs::write(path, "url: https://one/sso\nauth:\n  forwardToken: true\n").unwrap();
    drop(world.call(&operator(), "core_config_reload", json!({})).await.unwrap());
    world.settled().await;

    // Before the first attempt there is no tool that could help, unlike at the other server.
    let untried = json!({"name": "one", "status": "auth_required", "issuer": "https://issuer",
        "scope": "read", "token_forwarding_enabled": true});
    let other = json!({"name": "two", "status": "auth_required", "issuer": "https://issuer",
        "scope": "read", "auth_tool": "core_auth_login"});
    assert_eq!(status(&world, &alice).await, [untried.clone(), other.clone()]);

    world.guarded.admit("alice", "one");
    world.guarded.hold(true);
    becomes_active(&world, &alice, Duration::ZERO).await;
    let pending = json!({"name": "one", "status": "sso_pending", "token_forwarding_enabled": true});
    assert_eq!(status(&world, &alice).await, [pending, other.clone()]);
    assert_eq!(session_status(&world, &alice).await, "sso_pending");

    world.guarded.hold(false);
    becomes_active(&world, &alice, Duration::ZERO).await;
    let connected = json!({"name": "one", "status": "connected", "token_forwarding_enabled": true});
    assert_eq!(status(&world, &alice).await, [connected.clone(), other.clone()]);

    // The server stops accepting the token of a live connection.
    world.guarded.revoke("alice", "one");
    world.call(&alice, "x_one_only-alice", json!({})).await.unwrap_err();
    let failed = json!({"name": "one", "status": "reauth_required", "issuer": "https://issuer",
        "scope": "read", "auth_tool": "core_auth_login", "token_forwarding_enabled": true,
        "sso_attempt_failed": true, "error": "authentication required"});
    assert_eq!(status(&world, &alice).await, [failed, other.clone()]);
    assert_eq!(session_status(&world, &alice).await, "reauth_required");

    world.guarded.admit("alice", "one");
    becomes_active(&world, &alice, BACKOFF).await;
    assert_eq!(status(&world, &alice).await, [connected, other.clone()]);

    drop(world.call(&alice, "core_auth_logout", json!({"server": "one"})).await.unwrap());
    assert_eq!(status(&world, &alice).await, [untried, other]);
}
