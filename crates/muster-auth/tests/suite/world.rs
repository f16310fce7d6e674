//! A protected endpoint without a socket, its identity provider, a client and a browser.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use muster_auth::{
    clock::Clock,
    principal_list::SharedPrincipalList,
    random,
    server::{
        AuthServer, OwnCallback, ProviderConfig, ProviderKind, ServerConfig, TrustedIssuerConfig,
        TrustedProxies,
    },
    store::{KeyValueStore, MemoryStore, Seal, Vault},
};
use muster_core::credentials::{Authenticator as _, Peer, Principal, WebPages as _};
use muster_net::{AddressPolicy, HttpClient, TrustStore};
use serde_json::{Value, json};

use super::idp::FakeProvider;

pub(crate) const BASE: &str = "https://gate.example";
pub(crate) const REDIRECT: &str = "https://app.example/cb";
pub(crate) const STATE: &str = "0123456789012345678901234567890123456789";
pub(crate) const VERIFIER: &str = "verifier-verifier-verifier-verifier-verifier";
pub(crate) const REGISTRATION: &str = "canary-registration-token";
const KEY: &str = "MDEyMzQ1Njc4OWFiY2RlZmdoaWprbG1ub3BxcnN0dXY=";

/// A gateway, its provider, and a registered client.
pub(crate) struct World {
    pub(crate) idp: Arc<FakeProvider>,
    pub(crate) server: AuthServer,
    pub(crate) client: String,
    pub(crate) cookie: String,
}

impl World {
    /// A gateway that has discovered its provider.
    pub(crate) async fn new() -> Self {
        let world = Self::undiscovered().await;
        world.server.discover_provider().await;
        world
    }

    /// A gateway that has not discovered its provider yet.
    pub(crate) async fn undiscovered() -> Self {
        Self::with(|_| {}).await
    }

    pub(crate) async fn with(change: impl FnOnce(&mut ServerConfig)) -> Self {
        Self::build(change, TrustStore::system(), |clock| Arc::new(MemoryStore::new(clock))).await
    }

    /// A gateway with another store.
    pub(crate) async fn with_store(store: impl FnOnce(Clock) -> Arc<dyn KeyValueStore>) -> Self {
        Self::build(|_| {}, TrustStore::system(), store).await
    }

    pub(crate) async fn build(
        change: impl FnOnce(&mut ServerConfig),
        trust: TrustStore,
        store: impl FnOnce(Clock) -> Arc<dyn KeyValueStore>,
    ) -> Self {
        let now = Arc::new(AtomicUsize::new(1_800_000_000));
        let idp = FakeProvider::start(Arc::clone(&now)).await;
        let clock = Clock::new(move || now.load(Ordering::SeqCst).try_into().unwrap());
        let mut config = config(&idp.issuer);
        change(&mut config);
        let vault = Vault::new(store(clock.clone()), Some(Seal::new(KEY).unwrap()));
        let http = HttpClient::new(Arc::new(trust));
        let server = AuthServer::new(config, vault, http, clock);
        let mut world = Self { idp, server, client: String::new(), cookie: String::new() };
        let metadata = json!({"client_name": "App", "redirect_uris": [REDIRECT], "token_endpoint_auth_method": "none"});
        let registered = world.post_json("/oauth/register", &metadata, &[]).await;
        world.client = json_of(&registered)["client_id"].as_str().unwrap_or_default().to_owned();
        world
    }

    pub(crate) fn advance(&self, seconds: usize) {
        self.idp.now.fetch_add(seconds, Ordering::SeqCst);
    }

    pub(crate) async fn send(&self, request: Request<Bytes>) -> Response<Bytes> {
        self.server.respond(request, &peer()).await
    }

    pub(crate) async fn get(&self, path: &str, cookie: &str) -> Response<Bytes> {
        let request = Request::get(path).header("cookie", cookie).body(Bytes::new()).unwrap();
        self.send(request).await
    }

    pub(crate) async fn post_json(
        &self,
        path: &str,
        body: &Value,
        headers: &[(&str, &str)],
    ) -> Response<Bytes> {
        let mut request = Request::post(path).header("content-type", "application/json");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.send(request.body(body.to_string().into()).unwrap()).await
    }

    pub(crate) async fn form(&self, path: &str, fields: &[(&str, &str)]) -> Response<Bytes> {
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        let request = Request::post(path)
            .header("content-type", "application/x-www-form-urlencoded")
            .header("cookie", &self.cookie)
            .body(body.into())
            .unwrap();
        self.send(request).await
    }

    pub(crate) fn authorize_fields(&self) -> Vec<(&'static str, String)> {
        [
            ("response_type", "code".to_owned()),
            ("client_id", self.client.clone()),
            ("redirect_uri", REDIRECT.to_owned()),
            ("state", STATE.to_owned()),
            ("code_challenge", random::digest_of(VERIFIER)),
            ("code_challenge_method", "S256".to_owned()),
        ]
        .into()
    }

    pub(crate) async fn authorize(&mut self, fields: &[(&str, String)]) -> Response<Bytes> {
        let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        let reply = self.get(&format!("/oauth/authorize?{query}"), &self.cookie.clone()).await;
        if let Some(cookie) = reply.headers().get("set-cookie") {
            self.cookie = cookie.to_str().unwrap().split(';').next().unwrap().to_owned();
        }
        reply
    }

    /// Starts a login up to the provider's page. Returns the gateway's state there, or the error.
    pub(crate) async fn go_to_provider(&mut self) -> Result<String, String> {
        let fields = self.authorize_fields();
        let mut reply = self.authorize(&fields).await;
        if reply.status() == 200 {
            let page = text_of(&reply);
            let flow =
                page.split("name=\"flow\" value=\"").nth(1).unwrap().split('"').next().unwrap();
            reply = self.form("/oauth/consent", &[("flow", flow), ("decision", "allow")]).await;
        }
        let url = location(&reply);
        if !url.starts_with(&self.idp.issuer) {
            return Err(outcome(&reply));
        }
        self.idp.nonce.lock().unwrap().clone_from(&parameter(&url, "nonce").unwrap());
        Ok(parameter(&url, "state").unwrap())
    }

    /// Opens the callback with these parameters of the provider.
    pub(crate) async fn callback(&self, state: &str, query: &str) -> Response<Bytes> {
        self.get(&format!("/oauth/callback?state={state}&{query}"), &self.cookie).await
    }

    /// A whole login: the tokens, or the error.
    pub(crate) async fn login(&mut self) -> Result<Value, String> {
        let state = self.go_to_provider().await?;
        let reply = self.callback(&state, "code=upstream-code").await;
        let code = parameter(&location(&reply), "code").ok_or_else(|| outcome(&reply))?;
        let reply = self.redeem(&code, VERIFIER).await;
        if reply.status() == 200 { Ok(json_of(&reply)) } else { Err(outcome(&reply)) }
    }

    pub(crate) async fn redeem(&self, code: &str, verifier: &str) -> Response<Bytes> {
        let fields = [
            ("grant_type", "authorization_code"),
            ("client_id", &self.client),
            ("code", code),
            ("redirect_uri", REDIRECT),
            ("code_verifier", verifier),
        ];
        self.form("/oauth/token", &fields).await
    }

    pub(crate) async fn refresh(&self, tokens: &Value) -> Response<Bytes> {
        let token = tokens["refresh_token"].as_str().unwrap();
        let fields = [
            ("grant_type", "refresh_token"),
            ("client_id", &self.client),
            ("refresh_token", token),
        ];
        self.form("/oauth/token", &fields).await
    }

    /// The principal of a token, or the error.
    pub(crate) async fn authenticate(&self, token: &str) -> Result<Arc<Principal>, String> {
        let mut headers = HeaderMap::new();
        headers.insert("authorization", format!("Bearer {token}").parse().unwrap());
        let admission = self.server.authenticate(&headers, &peer()).await;
        admission.map(|admission| admission.principal.unwrap()).map_err(|reply| outcome(&reply))
    }

    /// The principal of a token as text, or the error.
    pub(crate) async fn who(&self, token: &str) -> String {
        match self.authenticate(token).await {
            Ok(principal) => format!(
                "{} <{}> {:?}",
                principal.subject,
                principal.email.as_deref().unwrap_or_default(),
                principal.groups
            ),
            Err(error) => error,
        }
    }
}

/// A client somewhere on the network.
pub(crate) fn peer() -> Peer {
    Peer::new("192.0.2.1:50000".parse().unwrap(), "192.0.2.2:443".parse().unwrap())
}

fn config(issuer: &str) -> ServerConfig {
    ServerConfig {
        base_url: BASE.to_owned(),
        resource: None,
        provider: ProviderConfig {
            kind: ProviderKind::Oidc,
            issuer: issuer.to_owned(),
            client_id: "muster".to_owned(),
            client_secret: "canary-client-secret".to_owned().into(),
            connector: None,
            audiences: Vec::new(),
            policy: AddressPolicy::Loopback,
            timeout: Duration::from_millis(500),
        },
        trusted_audiences: vec!["kubectl".to_owned()],
        trusted_issuers: vec![TrustedIssuerConfig::new(
            format!("{issuer}/other"),
            vec!["gateway".to_owned()],
        )],
        registration_token: Some(REGISTRATION.to_owned().into()),
        public_registration: true,
        trusted_schemes: vec!["cursor".to_owned()],
        trusted_uris: Vec::new(),
        client_documents: Some(AddressPolicy::Public),
        allow_loopback_redirects: true,
        session_duration: Duration::from_secs(24 * 3600),
        origins: Vec::new(),
        proxies: TrustedProxies::default(),
        allowed: SharedPrincipalList::default(),
        own_callback: OwnCallback::Refused,
        broker: None,
    }
}

pub(crate) fn location(reply: &Response<Bytes>) -> String {
    let location = reply.headers().get("location");
    location.map(|url| url.to_str().unwrap().to_owned()).unwrap_or_default()
}

pub(crate) fn parameter(url: &str, name: &str) -> Option<String> {
    let query = url.split_once('?')?.1;
    let found = form_urlencoded::parse(query.as_bytes()).find(|(known, _)| known == name);
    found.map(|(_, value)| value.into_owned())
}

pub(crate) fn text_of(reply: &Response<Bytes>) -> String {
    String::from_utf8(reply.body().to_vec()).unwrap()
}

pub(crate) fn json_of(reply: &Response<Bytes>) -> Value {
    serde_json::from_slice(reply.body()).unwrap()
}

/// A response in one line: the error that a redirect carries, or that of the body.
pub(crate) fn outcome(reply: &Response<Bytes>) -> String {
    let url = location(reply);
    if !url.is_empty() {
        assert_eq!(parameter(&url, "state").as_deref(), Some(STATE), "{url}");
        assert_eq!(parameter(&url, "iss").as_deref(), Some(BASE), "{url}");
        let value = |name| parameter(&url, name).unwrap_or_default();
        return format!("redirect: {}: {}", value("error"), value("error_description"));
    }
    let status = reply.status().as_u16();
    let retry = reply.headers().get("retry-after").map_or("", |_| " (retry)");
    match serde_json::from_slice::<Value>(reply.body()) {
        Ok(body) if body["error"].is_string() => format!(
            "{status} {}: {}{retry}",
            body["error"].as_str().unwrap(),
            body["error_description"].as_str().unwrap()
        ),
        _ => format!("{status}"),
    }
}
