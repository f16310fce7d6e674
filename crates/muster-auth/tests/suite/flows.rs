//! What works, and what nobody may see.

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
    idp::Say,
    world::{BASE, World, json_of, location},
};

#[tokio::test]
async fn documents_about_ourselves() {
    let world = World::unfound().await;
    for (path, resource) in [("", BASE.to_owned()), ("/mcp", format!("{BASE}/mcp"))] {
        let reply = world.get(&format!("/.well-known/oauth-protected-resource{path}"), "").await;
        assert_eq!(
            json_of(&reply),
            json!({"resource": resource, "authorization_servers": [BASE], "bearer_methods_supported": ["header"],
                   "scopes_supported": ["openid", "profile", "email", "groups"]})
        );
    }
    let said = json_of(&world.get("/.well-known/oauth-authorization-server", "").await);
    assert_eq!(said["issuer"], BASE);
    assert_eq!(said["registration_endpoint"], format!("{BASE}/oauth/register"));
    assert_eq!(said["authorization_response_iss_parameter_supported"], true);
    assert_eq!(said["client_id_metadata_document_supported"], true);
    let closed = World::with(|config| {
        config.public_registration = false;
        config.registration_token = None;
        config.trusted_schemes.clear();
        config.cimd = None;
    })
    .await;
    let said = json_of(&closed.get("/.well-known/oauth-authorization-server", "").await);
    assert!(said.get("registration_endpoint").is_none());
    assert!(said.get("client_id_metadata_document_supported").is_none());
}

#[tokio::test]
async fn a_thousand_calls_with_an_old_login_renew_it_once() {
    let mut world = World::new().await;
    let tokens = world.login().await.unwrap();
    let principal = world.admit(tokens["access_token"].as_str().unwrap()).await.unwrap();
    let proof = principal.identity.clone().unwrap();
    let first = proof.id_token().await.unwrap().unwrap();
    world.pass(600);
    let asked = world.idp.times("/token");
    let mut all = JoinSet::new();
    for _ in 0..1000 {
        let proof = Arc::clone(&proof);
        all.spawn(async move { proof.id_token().await.unwrap().unwrap() });
    }
    let renewed = all.join_all().await;
    assert_eq!(world.idp.times("/token"), asked + 1);
    assert!(renewed.iter().all(|token| *token == renewed[0] && *token != first));
}

#[tokio::test]
async fn a_thousand_calls_with_an_unknown_token_ask_twice_at_most() {
    let world = Arc::new(World::new().await);
    let mut all = JoinSet::new();
    for _ in 0..1000 {
        let world = Arc::clone(&world);
        all.spawn(async move { world.who("opaque").await });
    }
    let found = all.join_all().await;
    // Once for the first, and once for all who came while that was under way.
    assert!(world.idp.times("/userinfo") <= 2, "{}", world.idp.times("/userinfo"));
    assert!(found.iter().all(|who| who.starts_with("alice")));
}

#[tokio::test]
async fn proof_of_a_login_is_there_for_the_same_person_by_another_token() {
    let mut world = World::new().await;
    let before = world.admit("opaque-before").await.unwrap();
    let proof = before.identity.clone().unwrap();
    assert!(proof.id_token().await.unwrap().is_none());
    let tokens = world.login().await.unwrap();
    let own = world.admit(tokens["access_token"].as_str().unwrap()).await.unwrap();
    assert_eq!(own.id, before.id);
    assert!(proof.id_token().await.unwrap().is_some());
    assert_eq!(proof.id_token().await, own.identity.clone().unwrap().id_token().await);
    world.idp.change("/userinfo", json!({"sub": "bob"}));
    let bob = world.admit("opaque-bob").await.unwrap().identity.clone().unwrap();
    assert!(bob.id_token().await.unwrap().is_none());
}

#[tokio::test]
async fn programs_get_a_page_that_leads_back() {
    let mut world = World::new().await;
    let wish = json!({"client_name": "<Cursor>", "redirect_uris": ["cursor://x/cb"], "token_endpoint_auth_method": "none"});
    let reply = world.post_json("/oauth/register", &wish, &[]).await;
    world.client = json_of(&reply)["client_id"].as_str().unwrap().to_owned();
    let mut fields = world.authorize_fields();
    fields[2].1 = "cursor://x/cb".to_owned();
    let page = super::world::text_of(&world.authorize(&fields).await);
    assert!(page.contains("&lt;Cursor&gt;") && !page.contains("<Cursor>"), "{page}");
    let flow =
        page.split("name=\"flow\" value=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let reply = world.form("/oauth/consent", &[("flow", &flow), ("decision", "allow")]).await;
    let place = location(&reply);
    let said = |name| super::world::parameter(&place, name).unwrap();
    world.idp.nonce.lock().unwrap().clone_from(&said("nonce"));
    let reply = world.come_back(&said("state"), "code=c").await;
    assert_eq!(reply.status(), 200);
    assert!(super::world::text_of(&reply).contains("href=\"cursor://x/cb?code="));
}

/// Log lines, for everybody to read.
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
async fn no_secret_is_ever_written() {
    let lines = Lines::default();
    let _guard =
        tracing::subscriber::set_default(tracing_subscriber::registry().with(lines.clone()));
    let mut world = World::new().await;
    let tokens = world.login().await.unwrap();
    let (access, refresh) =
        (tokens["access_token"].as_str().unwrap(), tokens["refresh_token"].as_str().unwrap());
    let principal = world.admit(access).await.unwrap();
    let mut seen = vec![format!("{:?} {principal:?}", world.server)];
    let proof = principal.identity.clone().unwrap().id_token().await.unwrap().unwrap();
    seen.push(format!("{proof:?}"));
    // Everything goes wrong once, with the secret in the wrong answer.
    for path in ["/token", "/userinfo"] {
        for say in [
            Say::Json(400, json!({"error": "canary-client-secret upstream-access"})),
            Say::Text(500, "canary-client-secret upstream-access".to_owned()),
            Say::Text(200, "canary-client-secret upstream-access".to_owned()),
            Say::Break,
        ] {
            world.idp.say(path, say);
            world.pass(400);
            seen.push(world.who("canary-opaque-token").await);
            seen.push(world.login().await.map_or_else(|end| end, |_| String::new()));
            let reply = world.refresh(&tokens).await;
            seen.push(format!("{:?} {:?}", reply.headers(), reply.body()));
        }
        world.idp.well();
    }
    let fields = [("client_id", world.client.as_str()), ("token", access)];
    seen.push(format!("{:?}", world.form("/oauth/introspect", &fields).await));
    let log = lines.0.lock().unwrap().clone();
    assert!(log.contains("a login failed"), "{log}");
    seen.push(log);
    let all = seen.join("\n");
    let canaries = [
        access,
        refresh,
        proof.reveal(),
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
