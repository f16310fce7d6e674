//! The token exchange broker, between a trusted issuer and the issuer of an audience.

use std::{collections::BTreeMap, sync::Arc};

use http::Request;
use muster_auth::{
    oauth::{ClientAuthMethod, ClientIdentity},
    principal_list::PrincipalList,
    random,
    server::{BrokerConfig, BrokerTargetConfig},
    store::MemoryStore,
};
use muster_net::{AddressPolicy, TrustStore};
use serde_json::{Value, json};
use tokio_util::task::TaskTracker;

use super::{
    idp::{ScriptedResponse, Signer, b64},
    tls::TlsServer,
    world::{World, json_of, outcome},
};

const EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const ID_TOKEN: &str = "urn:ietf:params:oauth:token-type:id_token";
const SECRET: &str = "canary-broker-secret";
/// A configured client whose id looks like the URL of a client metadata document.
const URL_CLIENT: &str = "https://agent.example/id";

/// A gateway with a broker, and the issuer of the audience `mcp`.
struct Site {
    world: World,
    downstream: Arc<TlsServer>,
}

impl Site {
    async fn new(tasks: &TaskTracker) -> Self {
        let downstream = TlsServer::start(tasks).await;
        let target = BrokerTargetConfig {
            token_endpoint: format!("{}/token", downstream.base),
            expected_issuer: String::new(),
            connector_id: "muster".to_owned(),
            scopes: "openid groups".to_owned(),
            client: ClientIdentity {
                id: "gate".to_owned(),
                secret: Some("canary-downstream".to_owned().into()),
                auth_method: ClientAuthMethod::Basic,
            },
        };
        let list = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let broker = BrokerConfig {
            clients: ["agent", URL_CLIENT]
                .map(|id| (id.to_owned(), random::digest_of(SECRET)))
                .into(),
            client_audiences: ["agent", URL_CLIENT]
                .map(|id| (id.to_owned(), list(&["mcp", "gone"])))
                .into(),
            targets: BTreeMap::from([
                ("mcp".to_owned(), target.clone()),
                ("secret".to_owned(), target),
            ]),
            policy: AddressPolicy::Loopback,
        };
        let trust = TrustStore::system().with_pem(downstream.authority.as_bytes()).unwrap();
        let store = |clock| Arc::new(MemoryStore::new(clock)) as Arc<_>;
        let world = World::build(|config| config.broker = Some(broker), trust, store).await;
        let keys = json!({"issuer": format!("{}/other", world.idp.issuer),
            "jwks_uri": format!("{}/jwks", world.idp.issuer)});
        world
            .idp
            .respond("/other/.well-known/openid-configuration", ScriptedResponse::Json(200, keys));
        let site = Self { world, downstream };
        site.downstream_says(&site.downstream.base);
        site
    }

    /// The issuer of the audience answers with a token of `issuer`.
    fn downstream_says(&self, issuer: &str) {
        let claims = b64(json!({"iss": issuer, "sub": "alice"}).to_string().as_bytes());
        let token = format!("e30.{claims}.eA");
        *self.downstream.document.lock().unwrap() =
            json!({"access_token": token, "token_type": "bearer", "expires_in": 60,
                "refresh_token": "canary-refresh"})
            .to_string();
    }

    /// The claims of a token of the trusted issuer: an agent acts for a user.
    fn claims(&self) -> Value {
        let mut claims = self.world.idp.valid_claims();
        claims["iss"] = json!(format!("{}/other", self.world.idp.issuer));
        claims["aud"] = json!("gateway");
        claims["act"] = json!({"sub": "agent-7"});
        claims
    }

    fn subject_token(&self) -> String {
        self.world.idp.signer.sign(&self.claims())
    }

    /// Requests an exchange as `agent`: the response, or the error.
    async fn exchange(&self, changes: &[(&str, &str)]) -> Result<Value, String> {
        let token = self.subject_token();
        let mut fields = vec![
            ("grant_type", EXCHANGE),
            ("client_id", "agent"),
            ("client_secret", SECRET),
            ("audience", "mcp"),
            ("subject_token", token.as_str()),
            ("subject_token_type", ID_TOKEN),
        ];
        fields.retain(|(name, _)| !changes.iter().any(|(changed, _)| changed == name));
        fields.extend(changes.iter().filter(|(_, value)| !value.is_empty()));
        let reply = self.world.form("/oauth/token", &fields).await;
        match reply.status().as_u16() {
            200 => Ok(json_of(&reply)),
            _ => Err(outcome(&reply)),
        }
    }
}

#[tokio::test]
async fn a_token_of_a_trusted_issuer_becomes_one_for_the_audience() {
    let tasks = TaskTracker::new();
    let site = Site::new(&tasks).await;
    site.exchange(&[("client_id", URL_CLIENT)]).await.unwrap();
    let issued = site.exchange(&[]).await.unwrap();
    assert_eq!(issued["issued_token_type"], ID_TOKEN);
    assert_eq!(issued["token_type"], "Bearer");
    assert_eq!(issued["expires_in"], 60);
    // It is the other issuer's, as it is; what else it issued stays here.
    let made = site.downstream.document.lock().unwrap().clone();
    assert!(made.contains(issued["access_token"].as_str().unwrap()), "{made} {issued}");
    assert!(issued.get("refresh_token").is_none(), "{issued}");
    let request = site.downstream.requests.lock().unwrap().concat();
    for part in ["connector_id=muster", "scope=openid+groups", "requested_token_type="] {
        assert!(request.contains(part), "{request}");
    }
    // The subject token, with the user and the agent, is passed on unchanged.
    let subject = format!("subject_token={}", site.subject_token().split('.').nth(1).unwrap());
    assert!(
        request.contains(subject.split('=').nth(1).unwrap()) && !request.contains(SECRET),
        "{request}"
    );
    let metadata = site.world.get("/.well-known/oauth-authorization-server", "").await;
    assert_eq!(json_of(&metadata)["grant_types_supported"][2], EXCHANGE);
}

#[tokio::test]
async fn who_may_exchange_what() {
    let tasks = TaskTracker::new();
    let site = Site::new(&tasks).await;
    let mut claims = site.claims();
    claims["aud"] = json!("someone");
    let for_another = site.world.idp.signer.sign(&claims);
    let forged = Signer::new("one").sign(&site.claims());
    let of_provider = site.world.idp.signer.sign(&site.world.idp.valid_claims());
    let public = site.world.client.clone();
    for (changes, expected) in [
        (vec![("audience", "")], "400 invalid_grant: the gateway signs no tokens of its own"),
        (vec![("client_secret", "wrong")], "401 invalid_client"),
        (vec![("client_id", "nobody")], "401 invalid_client"),
        (
            vec![("client_id", public.as_str()), ("client_secret", "")],
            "401 invalid_client: only confidential clients may exchange tokens",
        ),
        // A target that is not this client's, one that does not exist, and one without an audience of its own.
        (vec![("audience", "secret")], "400 invalid_target"),
        (vec![("audience", "gone")], "400 invalid_target"),
        (vec![("audience", "other")], "400 invalid_target"),
        (vec![("subject_token", "")], "400 invalid_request: subject_token is required"),
        (vec![("subject_token", "opaque")], "400 invalid_grant: the subject token is not valid"),
        (vec![("subject_token", for_another.as_str())], "400 invalid_grant"),
        (vec![("subject_token", forged.as_str())], "400 invalid_grant"),
        (vec![("subject_token", of_provider.as_str())], "400 invalid_grant"),
        (vec![("subject_token_type", "urn:x")], "400 invalid_request: subject_token_type must be"),
        (vec![("requested_token_type", "urn:x")], "400 invalid_request: requested_token_type"),
        (vec![("actor_token", "a.b.c")], "400 invalid_request: actor_token is not supported"),
    ] {
        let error = site.exchange(&changes).await.unwrap_err();
        assert!(error.starts_with(expected), "{changes:?}: {error}");
    }
    assert!(site.downstream.requests.lock().unwrap().is_empty(), "nothing is sent in these cases");
    // Users who may not use the gateway may not exchange their tokens either.
    let users = vec!["ann@a.example".to_owned()];
    let allowed = site.world.server.allowed_users();
    assert!(allowed.replace(PrincipalList { users, ..PrincipalList::default() }));
    let error = site.exchange(&[]).await.unwrap_err();
    assert!(error.starts_with("403 access_denied: alice@example.com may not use"), "{error}");
}

#[tokio::test]
async fn a_token_of_another_issuer_than_expected_is_not_passed_on() {
    let tasks = TaskTracker::new();
    let site = Site::new(&tasks).await;
    site.downstream_says("https://evil.example");
    let error = site.exchange(&[]).await.unwrap_err();
    assert!(error.starts_with("502 server_error: the gateway is not configured"), "{error}");
    assert!(!error.contains("evil"), "{error}");
    *site.downstream.document.lock().unwrap() = json!({"error": "access_denied"}).to_string();
    let error = site.exchange(&[]).await.unwrap_err();
    assert!(error.starts_with("400 invalid_grant: the issuer of the audience"), "{error}");
}

#[tokio::test]
async fn without_a_broker_no_token_is_exchanged() {
    let world = World::new().await;
    let body = format!("grant_type={EXCHANGE}&audience=mcp&subject_token=x&client_id=agent");
    let request = Request::post("/oauth/token")
        .header("content-type", "application/x-www-form-urlencoded")
        .body(body.into())
        .unwrap();
    let error = outcome(&world.send(request).await);
    assert!(error.starts_with("400 invalid_grant: the gateway signs no tokens"), "{error}");
    let metadata = json_of(&world.get("/.well-known/oauth-authorization-server", "").await);
    assert_eq!(metadata["grant_types_supported"], json!(["authorization_code", "refresh_token"]));
}
