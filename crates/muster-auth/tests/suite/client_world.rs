//! A scripted server with its issuer, and a gateway through which users log in there.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use muster_auth::{
    client::{OAuthClient, OAuthClientOptions},
    clock::Clock,
    store::{KeyValueStore, MemoryStore, Vault},
};
use muster_core::{
    backend::BoxFuture,
    call::Owner,
    credentials::{Peer, WebPages as _},
    logins::{
        AccessTokenSource, LoginError, LoginObserver, LoginService, LoginSubject, ProtectedServer,
    },
};
use muster_net::{HttpClient, TrustStore};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::task::TaskTracker;

const LOCAL: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8090);

use crate::{idp::Gate, shared::SharedStore};

/// A request that the issuer received.
#[derive(Debug, Clone)]
pub(crate) struct RecordedRequest {
    pub(crate) path: String,
    pub(crate) form: BTreeMap<String, String>,
    pub(crate) authorization: Option<String>,
}

/// A canned response: status, a header, body; `$base` stands for the issuer's URL.
#[derive(Debug, Clone)]
pub(crate) struct Canned(pub(crate) u16, pub(crate) &'static str, pub(crate) String);

#[derive(Debug, Default)]
struct Script {
    canned: BTreeMap<String, Canned>,
    metadata: BTreeMap<String, Value>,
    gates: BTreeMap<String, Arc<Gate>>,
    requests: Vec<RecordedRequest>,
    issued: usize,
    refresh: String,
}

/// The server and its issuer.
#[derive(Debug, Clone)]
pub(crate) struct Issuer {
    pub(crate) base: String,
    script: Arc<Mutex<Script>>,
}

impl Issuer {
    pub(crate) async fn start(tasks: &TaskTracker) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let base = format!("http://127.0.0.1:{}", listener.local_addr().unwrap().port());
        let issuer = Self { base, script: Arc::default() };
        let (serving, own) = (issuer.clone(), tasks.clone());
        tasks.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let issuer = serving.clone();
                own.spawn(async move {
                    let service = service_fn(|request| issuer.clone().serve(request));
                    let served =
                        http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                    drop(served.await);
                });
            }
        });
        issuer
    }

    /// A server of this issuer.
    pub(crate) fn site(&self, path: &str) -> ProtectedServer {
        let name = path.trim_start_matches('/').to_owned();
        ProtectedServer { name, url: format!("{}{path}", self.base), ..ProtectedServer::default() }
    }

    /// Sets the response of a path.
    pub(crate) fn respond_with(&self, path: &str, canned: Canned) {
        self.script.lock().unwrap().canned.insert(path.to_owned(), canned);
    }

    pub(crate) fn reset(&self, path: &str) {
        self.script.lock().unwrap().canned.remove(path);
    }

    /// Delays the next response of a path until the gate opens.
    pub(crate) fn hold(&self, path: &str) -> Arc<Gate> {
        let gate = Arc::<Gate>::default();
        self.script.lock().unwrap().gates.insert(path.to_owned(), Arc::clone(&gate));
        gate
    }

    /// Changes a field of the issuer's metadata.
    pub(crate) fn set_metadata(&self, key: &str, value: Value) {
        self.script.lock().unwrap().metadata.insert(key.to_owned(), value);
    }

    /// Sets the refresh token that is valid next.
    pub(crate) fn expect_refresh_token(&self, refresh: &str) {
        refresh.clone_into(&mut self.script.lock().unwrap().refresh);
    }

    /// Revokes all refresh tokens.
    pub(crate) fn revoke_refresh_tokens(&self) {
        self.script.lock().unwrap().refresh.clear();
    }

    pub(crate) fn requests(&self, path: &str) -> Vec<RecordedRequest> {
        let script = self.script.lock().unwrap();
        script.requests.iter().filter(|request| request.path == path).cloned().collect()
    }

    /// The number of refresh requests.
    pub(crate) fn refreshes(&self) -> usize {
        let renews = |request: &&RecordedRequest| {
            request.form.get("grant_type").is_some_and(|g| g == "refresh_token")
        };
        self.requests("/token").iter().filter(renews).count()
    }

    async fn serve(
        self,
        request: Request<Incoming>,
    ) -> Result<Response<Full<Bytes>>, hyper::Error> {
        let path = request.uri().path().to_owned();
        let authorization = request.headers().get("authorization");
        let authorization = authorization.map(|value| value.to_str().unwrap().to_owned());
        let body = request.into_body().collect().await?.to_bytes();
        let form = form_urlencoded::parse(&body).into_owned().collect();
        let received = RecordedRequest { path, form, authorization };
        let Canned(status, header, body) = self.respond(&received);
        let gate = self.script.lock().unwrap().gates.remove(&received.path);
        if let Some(gate) = gate {
            gate.arrived.notify_one();
            gate.open.notified().await;
        }
        let mut response = Response::new(Full::new(Bytes::from(body.replace("$base", &self.base))));
        *response.status_mut() = status.try_into().unwrap();
        let (name, value) = header.split_once(": ").unwrap_or(("content-type", "application/json"));
        response.headers_mut().insert(name, value.parse().unwrap());
        Ok(response)
    }

    fn respond(&self, request: &RecordedRequest) -> Canned {
        let mut script = self.script.lock().unwrap();
        script.requests.push(request.clone());
        if let Some(canned) = script.canned.get(&request.path) {
            return canned.clone();
        }
        let json = |status: u16, value: Value| Canned(status, "", value.to_string());
        match request.path.as_str() {
            "/.well-known/oauth-protected-resource/mcp" => json(
                200,
                json!({
                    "resource": "$base/mcp", "authorization_servers": ["$base"], "scopes_supported": ["read"],
                }),
            ),
            "/.well-known/oauth-protected-resource/other" => json(
                200,
                json!({
                    "resource": "$base/other", "authorization_servers": ["$base"],
                }),
            ),
            "/.well-known/oauth-authorization-server" => {
                let mut metadata = json!({
                    "issuer": "$base",
                    "authorization_endpoint": "$base/authorize",
                    "token_endpoint": "$base/token",
                    "registration_endpoint": "$base/register",
                    "code_challenge_methods_supported": ["S256"],
                });
                for (key, value) in &script.metadata {
                    metadata[key] = value.clone();
                }
                json(200, metadata)
            }
            "/register" => json(201, json!({"client_id": "client-1"})),
            "/token" => script.token(&request.form),
            _ => json(404, json!({})),
        }
    }
}

impl Script {
    fn token(&mut self, form: &BTreeMap<String, String>) -> Canned {
        let valid = match form.get("grant_type").map(String::as_str) {
            Some("authorization_code") => {
                form.get("code").is_some_and(|code| code == "good")
                    && form.get("code_verifier").is_some_and(|verifier| verifier.len() == 43)
            }
            Some("refresh_token") => {
                !self.refresh.is_empty() && form.get("refresh_token") == Some(&self.refresh)
            }
            _ => false,
        };
        if !valid {
            let error = json!({"error": "invalid_grant", "error_description": "it is used up"});
            return Canned(400, "", error.to_string());
        }
        self.issued += 1;
        self.refresh = format!("refresh-{}", self.issued);
        let response = json!({
            "access_token": format!("access-{}", self.issued), "token_type": "Bearer",
            "expires_in": 3600, "refresh_token": self.refresh,
        });
        Canned(200, "", response.to_string())
    }
}

/// A gateway, its issuer and its clock.
pub(crate) struct World {
    pub(crate) issuer: Issuer,
    pub(crate) client: Arc<OAuthClient>,
    pub(crate) logins: Arc<dyn LoginService>,
    pub(crate) time: Arc<AtomicU64>,
    clock: Clock,
    vault: Vault,
    tasks: TaskTracker,
}

#[derive(Debug)]
struct IgnoreArrival;

impl LoginObserver for IgnoreArrival {
    fn logged_in(&self, _: LoginSubject, _: String) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::with(|clock| Arc::new(MemoryStore::new(clock))).await
    }

    /// A gateway whose storage others share.
    pub(crate) async fn sharing() -> Self {
        Self::with(|clock| SharedStore::new(clock)).await
    }

    pub(crate) async fn with(store: impl FnOnce(Clock) -> Arc<dyn KeyValueStore>) -> Self {
        let tasks = TaskTracker::new();
        let issuer = Issuer::start(&tasks).await;
        let time = Arc::new(AtomicU64::new(1_000_000));
        let shared_time = Arc::clone(&time);
        let clock = Clock::new(move || shared_time.load(Ordering::Relaxed));
        let vault = Vault::new(store(clock.clone()), None);
        let options = OAuthClientOptions::new("http://localhost:8090/");
        Self::of(options, TrustStore::system(), issuer, (time, clock, vault, tasks))
    }

    fn of(
        options: OAuthClientOptions,
        trust: TrustStore,
        issuer: Issuer,
        (time, clock, vault, tasks): (Arc<AtomicU64>, Clock, Vault, TaskTracker),
    ) -> Self {
        let http = HttpClient::new(Arc::new(trust));
        let client = OAuthClient::new(options, http, vault.clone(), clock.clone());
        let logins = client.logins();
        Self { issuer, client, logins, time, clock, vault, tasks }
    }

    /// Another gateway with the same issuer, storage and time.
    pub(crate) fn second_gateway(&self) -> Self {
        self.second_gateway_as(
            OAuthClientOptions::new("http://localhost:8090/"),
            TrustStore::system(),
        )
    }

    /// Another gateway with other options.
    pub(crate) fn second_gateway_as(&self, options: OAuthClientOptions, trust: TrustStore) -> Self {
        let shared =
            (Arc::clone(&self.time), self.clock.clone(), self.vault.clone(), self.tasks.clone());
        Self::of(options, trust, self.issuer.clone(), shared)
    }

    pub(crate) fn tasks(&self) -> &TaskTracker {
        &self.tasks
    }

    pub(crate) fn advance(&self, seconds: u64) {
        self.time.fetch_add(seconds, Ordering::Relaxed);
    }

    pub(crate) fn site(&self, path: &str) -> ProtectedServer {
        self.issuer.site(path)
    }

    /// Starts a login, and returns the parameters of its URL.
    pub(crate) async fn begin(
        &self,
        who: &str,
        site: &ProtectedServer,
    ) -> Result<BTreeMap<String, String>, LoginError> {
        self.begin_as(&person(who), site).await
    }

    /// Starts a login of a user who may have logged in to the gateway.
    pub(crate) async fn begin_as(
        &self,
        person: &LoginSubject,
        site: &ProtectedServer,
    ) -> Result<BTreeMap<String, String>, LoginError> {
        let url = self.logins.begin(person, site, Arc::new(IgnoreArrival)).await?;
        let (_, query) = url.split_once('?').unwrap();
        Ok(form_urlencoded::parse(query.as_bytes()).into_owned().collect())
    }

    /// Opens the callback: the status, and the text of the page.
    pub(crate) async fn open(&self, parameters: &[(&str, &str)]) -> String {
        let query =
            form_urlencoded::Serializer::new(String::new()).extend_pairs(parameters).finish();
        let uri = format!("/oauth/proxy/callback?{query}");
        let request = Request::builder().uri(uri).body(Bytes::new()).unwrap();
        let page = self.client.pages().respond(request, &Peer::new(LOCAL, LOCAL)).await;
        let body = String::from_utf8(page.body().to_vec()).unwrap();
        let (_, text) = body.split_once("<body>").unwrap();
        let text = text.replace("<h1>", "").replace("</h1><p>", ": ");
        let (text, _) = text.split_once("</p>").unwrap();
        format!("{} {text}", page.status().as_u16())
    }

    /// Logs in, and returns the access token or the error.
    pub(crate) async fn log_in(
        &self,
        who: &str,
        site: &ProtectedServer,
        extra: &[(&str, &str)],
    ) -> String {
        let parameters = match self.begin(who, site).await {
            Ok(parameters) => parameters,
            Err(error) => return format!("no URL: {error}"),
        };
        let state = parameters["state"].clone();
        let mut parameters = vec![("state", state.as_str()), ("code", "good")];
        parameters.retain(|(name, _)| !extra.iter().any(|(other, _)| other == name));
        parameters.extend(extra.iter().filter(|(_, value)| !value.is_empty()));
        let page = self.open(&parameters).await;
        if !page.starts_with("200") {
            return page;
        }
        match self.access(who, site).await {
            Ok(access) => token_text(access.token().await),
            Err(error) => format!("no access: {error}"),
        }
    }

    pub(crate) async fn access(
        &self,
        who: &str,
        site: &ProtectedServer,
    ) -> Result<Arc<dyn AccessTokenSource>, LoginError> {
        self.logins.access(&person(who), site).await
    }
}

pub(crate) fn person(who: &str) -> LoginSubject {
    LoginSubject { owner: Owner::Session(who.into()), principal: None }
}

pub(crate) fn token_text(
    token: Result<muster_core::credentials::BearerToken, LoginError>,
) -> String {
    match token {
        Ok(token) => token.reveal().to_owned(),
        Err(error) => format!("no token: {error:?}"),
    }
}
