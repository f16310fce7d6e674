//! A scripted identity provider.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::{Notify, watch},
};
use tokio_util::task::TaskTracker;

/// A scripted response.
#[derive(Debug, Clone)]
pub(crate) enum ScriptedResponse {
    /// A JSON document.
    Json(u16, Value),
    /// An HTML page.
    Text(u16, String),
    /// No response at all.
    Silence,
    /// Half a response, then the connection closes.
    Break,
    /// The valid response, once the gate opens.
    Held(Arc<Gate>),
}

/// Delays a response.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    /// A request has arrived.
    pub(crate) arrived: Notify,
    /// The response may be sent.
    pub(crate) open: Notify,
}

/// A signing key.
pub(crate) struct Signer {
    pair: EcdsaKeyPair,
    pub(crate) kid: String,
}

impl std::fmt::Debug for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Signer")
    }
}

impl Signer {
    pub(crate) fn new(kid: &str) -> Self {
        let random = SystemRandom::new();
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let key = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, key.as_ref(), &random).unwrap();
        Self { pair, kid: kid.to_owned() }
    }

    pub(crate) fn jwk(&self) -> Value {
        let point = self.pair.public_key().as_ref();
        json!({"kty": "EC", "crv": "P-256", "kid": self.kid, "use": "sig", "alg": "ES256",
               "x": b64(&point[1..33]), "y": b64(&point[33..])})
    }

    pub(crate) fn sign(&self, claims: &Value) -> String {
        self.sign_with(&json!({}), claims)
    }

    /// Signs claims with more header fields.
    pub(crate) fn sign_with(&self, more: &Value, claims: &Value) -> String {
        let mut head = json!({"alg": "ES256", "kid": self.kid});
        merge(&mut head, more.as_object().unwrap().iter());
        let head = b64(head.to_string().as_bytes());
        let signed = format!("{head}.{}", b64(claims.to_string().as_bytes()));
        let signature = self.pair.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
        format!("{signed}.{}", b64(signature.as_ref()))
    }
}

pub(crate) fn b64(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// A token without a valid signature.
pub(crate) fn unsigned(algorithm: &str, claims: &Value) -> String {
    let head = b64(json!({"alg": algorithm}).to_string().as_bytes());
    format!(
        "{head}.{}.{}",
        b64(claims.to_string().as_bytes()),
        if algorithm == "none" { "" } else { "eA" }
    )
}

/// The identity provider.
#[derive(Debug)]
pub(crate) struct FakeProvider {
    pub(crate) issuer: String,
    pub(crate) signer: Signer,
    /// Responses in place of the valid ones, by path.
    pub(crate) scripted: Mutex<BTreeMap<String, ScriptedResponse>>,
    /// Changes to the valid responses, by path.
    pub(crate) changed: Mutex<BTreeMap<String, Value>>,
    /// Changes to the claims of ID tokens; `null` removes one.
    pub(crate) claims: Mutex<BTreeMap<String, Value>>,
    /// An ID token in place of the valid one.
    pub(crate) id_token: Mutex<Option<String>>,
    /// The nonce of the login in progress.
    pub(crate) nonce: Mutex<String>,
    /// The clock that the gateway shares.
    pub(crate) now: Arc<AtomicUsize>,
    /// The number of requests, by path.
    pub(crate) requests: watch::Sender<BTreeMap<String, usize>>,
    /// The bodies of requests to the token and revocation endpoints.
    pub(crate) sent: Mutex<Vec<String>>,
}

impl FakeProvider {
    pub(crate) async fn start(now: Arc<AtomicUsize>) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let idp = Arc::new(Self {
            issuer: format!("http://127.0.0.1:{port}"),
            signer: Signer::new("one"),
            scripted: Mutex::default(),
            changed: Mutex::default(),
            claims: Mutex::default(),
            id_token: Mutex::default(),
            nonce: Mutex::default(),
            now,
            requests: watch::Sender::default(),
            sent: Mutex::default(),
        });
        let tracker = TaskTracker::new();
        let (serving, each) = (Arc::clone(&idp), tracker.clone());
        tracker.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                each.spawn(Arc::clone(&serving).serve(stream));
            }
        });
        idp
    }

    pub(crate) fn respond(&self, path: &str, response: ScriptedResponse) {
        self.scripted.lock().unwrap().insert(path.to_owned(), response);
    }

    pub(crate) fn change(&self, path: &str, with: Value) {
        self.changed.lock().unwrap().insert(path.to_owned(), with);
    }

    pub(crate) fn claim(&self, name: &str, value: Value) {
        self.claims.lock().unwrap().insert(name.to_owned(), value);
    }

    pub(crate) fn reset(&self) {
        self.scripted.lock().unwrap().clear();
        self.changed.lock().unwrap().clear();
    }

    pub(crate) fn requests_to(&self, path: &str) -> usize {
        self.requests.borrow().get(path).copied().unwrap_or(0)
    }

    /// Waits for the first request to a path.
    pub(crate) async fn requested(&self, path: &str) {
        let mut requests = self.requests.subscribe();
        drop(requests.wait_for(|requests| requests.contains_key(path)).await.unwrap());
    }

    /// The claims of a valid ID token, with the scripted changes.
    pub(crate) fn valid_claims(&self) -> Value {
        let now = self.now.load(Ordering::SeqCst);
        let mut claims = json!({"iss": self.issuer, "aud": "muster", "sub": "alice", "iat": now, "exp": now + 300,
            "nonce": *self.nonce.lock().unwrap(), "email": "alice@example.com", "name": "Alice", "groups": ["staff"]});
        merge(&mut claims, self.claims.lock().unwrap().iter());
        claims
    }

    fn valid_response(&self, path: &str) -> Value {
        let at = |path: &str| format!("{}{path}", self.issuer);
        let mut response = match path {
            "/.well-known/openid-configuration" => json!({"issuer": self.issuer,
                "authorization_endpoint": at("/auth"), "token_endpoint": at("/token"),
                "userinfo_endpoint": at("/userinfo"), "jwks_uri": at("/jwks")}),
            "/jwks" => json!({"keys": [self.signer.jwk()]}),
            "/userinfo" => json!({"sub": "alice", "email": "alice@example.com", "name": "Alice"}),
            "/token" => {
                let token = self.id_token.lock().unwrap().clone();
                let token = token.unwrap_or_else(|| self.signer.sign(&self.valid_claims()));
                json!({"access_token": "upstream-access", "token_type": "Bearer", "expires_in": 300,
                       "refresh_token": format!("upstream-refresh-{}", self.requests_to("/token")), "id_token": token})
            }
            "/revoke" => json!({}),
            _ => json!({"error": "not_found"}),
        };
        if let Some(Value::Object(more)) = self.changed.lock().unwrap().get(path) {
            merge(&mut response, more.iter());
        }
        response
    }

    async fn serve(self: Arc<Self>, mut stream: TcpStream) {
        let mut bytes = Vec::new();
        let (head, body) = loop {
            let mut more = [0; 8192];
            let Ok(read @ 1..) = stream.read(&mut more).await else { return };
            bytes.extend_from_slice(&more[..read]);
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
            let length = head.lines().find_map(|line| {
                line.to_lowercase().strip_prefix("content-length: ").map(|it| it.parse().unwrap())
            });
            if body.len() >= length.unwrap_or(0) {
                break (head.to_owned(), body.to_owned());
            }
        };
        let path = head.split(' ').nth(1).unwrap_or_default();
        let path = path.split('?').next().unwrap_or_default().to_owned();
        self.requests.send_modify(|all| *all.entry(path.clone()).or_default() += 1);
        if path == "/token" || path == "/revoke" {
            self.sent.lock().unwrap().push(body);
        }
        let scripted = self.scripted.lock().unwrap().get(&path).cloned();
        let lower = head.to_lowercase();
        let known = ["upstream-", "opaque", "canary-opaque"];
        let unknown = path == "/userinfo"
            && !known.iter().any(|own| lower.contains(&format!("authorization: bearer {own}")));
        let response = match scripted {
            Some(response) => response,
            None if unknown => ScriptedResponse::Json(401, json!({"error": "invalid_token"})),
            None => ScriptedResponse::Json(200, self.valid_response(&path)),
        };
        let (status, content_type, text) = match response {
            ScriptedResponse::Json(status, body) => (status, "application/json", body.to_string()),
            ScriptedResponse::Text(status, body) => (status, "text/html", body),
            ScriptedResponse::Silence => return std::future::pending().await,
            ScriptedResponse::Held(gate) => {
                gate.arrived.notify_one();
                gate.open.notified().await;
                (200, "application/json", self.valid_response(&path).to_string())
            }
            ScriptedResponse::Break => {
                drop(stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{").await);
                return;
            }
        };
        let length = text.len();
        let response = format!(
            "HTTP/1.1 {status} X\r\ncontent-type: {content_type}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{text}"
        );
        drop(stream.write_all(response.as_bytes()).await);
    }
}

fn merge<'a>(into: &mut Value, more: impl Iterator<Item = (&'a String, &'a Value)>) {
    let into = into.as_object_mut().unwrap();
    for (name, value) in more {
        if value.is_null() {
            into.remove(name);
        } else {
            into.insert(name.clone(), value.clone());
        }
    }
}
