//! Metadata, concurrency, and secrets that must never be printed.

use std::{
    fmt::{self, Write as _},
    sync::{Arc, Mutex},
};

use serde_json::json;
use tokio::task::JoinSet;
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    Layer,
    layer::{Context, SubscriberExt as _},
};

use super::{
    idp::ScriptedResponse,
    world::{BASE, World, json_of, location},
};

#[tokio::test]
async fn metadata_documents() {
    let world = World::undiscovered().await;
    for (path, resource) in [("", BASE.to_owned()), ("/mcp", format!("{BASE}/mcp"))] {
        let reply = world.get(&format!("/.well-known/oauth-protected-resource{path}"), "").await;
        assert_eq!(
            json_of(&reply),
            json!({"resource": resource, "authorization_servers": [BASE], "bearer_methods_supported": ["header"],
                   "scopes_supported": ["openid", "profile", "email", "groups"]})
        );
    }
    let metadata = json_of(&world.get("/.well-known/oauth-authorization-server", "").await);
    assert_eq!(metadata["issuer"], BASE);
    assert_eq!(metadata["registration_endpoint"], format!("{BASE}/oauth/register"));
    assert_eq!(metadata["authorization_response_iss_parameter_supported"], true);
    assert_eq!(metadata["client_id_metadata_document_supported"], true);
    let closed = World::with(|config| {
        config.public_registration = false;
        config.registration_token = None;
        config.trusted_schemes.clear();
        config.client_documents = None;
    })
    .await;
    let metadata = json_of(&closed.get("/.well-known/oauth-authorization-server", "").await);
    assert!(metadata.get("registration_endpoint").is_none());
    assert!(metadata.get("client_id_metadata_document_supported").is_none());
}

#[tokio::test]
async fn concurrent_requests_share_one_refresh() {
    let mut world = World::new().await;
    let tokens = world.login().await.unwrap();
    let principal = world.authenticate(tokens["access_token"].as_str().unwrap()).await.unwrap();
    let id_tokens = principal.identity.clone().unwrap();
    let first = id_tokens.id_token().await.unwrap().unwrap();
    world.advance(600);
    let before = world.idp.requests_to("/token");
    let mut all = JoinSet::new();
    for _ in 0..1000 {
        let id_tokens = Arc::clone(&id_tokens);
        all.spawn(async move { id_tokens.id_token().await.unwrap().unwrap() });
    }
    let refreshed = all.join_all().await;
    assert_eq!(world.idp.requests_to("/token"), before + 1);
    assert!(refreshed.iter().all(|token| *token == refreshed[0] && *token != first));
}

#[tokio::test]
async fn concurrent_requests_share_a_lookup() {
    let world = Arc::new(World::new().await);
    let mut all = JoinSet::new();
    for _ in 0..1000 {
        let world = Arc::clone(&world);
        all.spawn(async move { world.who("opaque").await });
    }
    let found = all.join_all().await;
    // One for the first request, and one for all that arrived during it.
    assert!(world.idp.requests_to("/userinfo") <= 2, "{}", world.idp.requests_to("/userinfo"));
    assert!(found.iter().all(|who| who.starts_with("alice")));
}

#[tokio::test]
async fn a_provider_token_uses_the_id_token_of_the_users_login() {
    let mut world = World::new().await;
    let before = world.authenticate("opaque-before").await.unwrap();
    let id_tokens = before.identity.clone().unwrap();
    assert!(id_tokens.id_token().await.unwrap().is_none());
    let tokens = world.login().await.unwrap();
    let own = world.authenticate(tokens["access_token"].as_str().unwrap()).await.unwrap();
    assert_eq!(own.id, before.id);
    assert!(id_tokens.id_token().await.unwrap().is_some());
    assert_eq!(id_tokens.id_token().await, own.identity.clone().unwrap().id_token().await);
    world.idp.change("/userinfo", json!({"sub": "bob"}));
    let bob = world.authenticate("opaque-bob").await.unwrap().identity.clone().unwrap();
    assert!(bob.id_token().await.unwrap().is_none());
}

#[tokio::test]
async fn applications_get_a_page_with_a_link_back() {
    let mut world = World::new().await;
    let metadata = json!({"client_name": "<Cursor>", "redirect_uris": ["cursor://x/cb"], "token_endpoint_auth_method": "none"});
    let reply = world.post_json("/oauth/register", &metadata, &[]).await;
    world.client = json_of(&reply)["client_id"].as_str().unwrap().to_owned();
    let mut fields = world.authorize_fields();
    fields[2].1 = "cursor://x/cb".to_owned();
    let page = super::world::text_of(&world.authorize(&fields).await);
    assert!(page.contains("&lt;Cursor&gt;") && !page.contains("<Cursor>"), "{page}");
    let flow =
        page.split("name=\"flow\" value=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let reply = world.form("/oauth/consent", &[("flow", &flow), ("decision", "allow")]).await;
    let url = location(&reply);
    let value = |name| super::world::parameter(&url, name).unwrap();
    world.idp.nonce.lock().unwrap().clone_from(&value("nonce"));
    let reply = world.callback(&value("state"), "code=c").await;
    assert_eq!(reply.status(), 200);
    assert!(super::world::text_of(&reply).contains("href=\"cursor://x/cb?code="));
}

/// Captured log lines.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<String>>);

impl<S: Subscriber> Layer<S> for Lines {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        self.0.lock().unwrap().push_str(&line.0);
    }
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        writeln!(self.0, "{field}={value:?}").unwrap();
    }
}

#[tokio::test]
async fn secrets_are_never_printed() {
    let lines = Lines::default();
    let _guard =
        tracing::subscriber::set_default(tracing_subscriber::registry().with(lines.clone()));
    let mut world = World::new().await;
    let tokens = world.login().await.unwrap();
    let (access, refresh) =
        (tokens["access_token"].as_str().unwrap(), tokens["refresh_token"].as_str().unwrap());
    let principal = world.authenticate(access).await.unwrap();
    let mut output = vec![format!("{:?} {principal:?}", world.server)];
    let id_token = principal.identity.clone().unwrap().id_token().await.unwrap().unwrap();
    output.push(format!("{id_token:?}"));
    // Each error response repeats the secrets.
    for path in ["/token", "/userinfo"] {
        for response in [
            ScriptedResponse::Json(400, json!({"error": "canary-client-secret upstream-access"})),
            ScriptedResponse::Text(500, "canary-client-secret upstream-access".to_owned()),
            ScriptedResponse::Text(200, "canary-client-secret upstream-access".to_owned()),
            ScriptedResponse::Break,
        ] {
            world.idp.respond(path, response);
            world.advance(400);
            output.push(world.who("canary-opaque-token").await);
            output.push(world.login().await.map_or_else(|end| end, |_| String::new()));
            let reply = world.refresh(&tokens).await;
            output.push(format!("{:?} {:?}", reply.headers(), reply.body()));
        }
        world.idp.reset();
    }
    let fields = [("client_id", world.client.as_str()), ("token", access)];
    output.push(format!("{:?}", world.form("/oauth/introspect", &fields).await));
    let log = lines.0.lock().unwrap().clone();
    assert!(log.contains("a login failed"), "{log}");
    output.push(log);
    let all = output.join("\n");
    let canaries = [
        access,
        refresh,
        id_token.reveal(),
        "canary-client-secret",
        "canary-opaque-token",
        "canary-registration-token",
        "upstream-access",
        "upstream-refresh",
        "upstream-code",
        super::world::VERIFIER,
        "MDEyMzQ1Njc4OWFiY2RlZmdoaWprbG1ub3BxcnN0dXY=",
    ];
    for canary in canaries {
        assert!(!all.contains(canary), "{canary} in {all}");
    }
}
