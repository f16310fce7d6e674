//! Starts the providers of a scenario, and sends raw requests to them.

use std::{path::Path, sync::Arc};

use muster_scenario::{
    load,
    oauth::{Providers, jwt},
    scenario::Scenario,
};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use serde_json::Value;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;

/// A scenario with this setup.
pub(crate) fn prepared(setup: &str) -> Scenario {
    let head = "name: m\ncategory: c\nconcept: c\nsteps: [{id: a, tool: b}]\npre_configuration:\n";
    let loaded = load::parse(Path::new("m"), &format!("{head}{setup}"));
    loaded.scenario.unwrap_or_else(|| panic!("{:?}", loaded.problems))
}

pub(crate) async fn providers(setup: &str) -> Providers {
    Providers::start(&prepared(setup).setup.oauth_servers).await.unwrap()
}

/// A response.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|err| panic!("{err}: {self:?}"))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// A query parameter of the redirect URL.
    pub(crate) fn parameter(&self, name: &str) -> Option<String> {
        let query = self.header("location")?.split_once('?')?.1;
        let mut pairs = form_urlencoded::parse(query.as_bytes());
        pairs.find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
    }

    /// The status and the OAuth error code, if any.
    pub(crate) fn error(&self) -> String {
        let body: Value = serde_json::from_str(&self.body).unwrap_or_default();
        match body["error"].as_str() {
            Some(error) => format!("{} {error}", self.status),
            None => self.status.to_string(),
        }
    }
}

pub(crate) async fn exchange_bytes(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    request: String,
) -> Reply {
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    // A peer may close a TLS connection without close_notify.
    let _ended = stream.read_to_end(&mut bytes).await;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    Reply { status: status.unwrap_or_default(), head: head.to_owned(), body: body.to_owned() }
}

/// Sends a request to localhost; only `ca` is trusted.
pub(crate) async fn send(
    method: &str,
    url: &str,
    head: &str,
    body: &str,
    ca: Option<&str>,
) -> Reply {
    let (scheme, rest) = url.split_once("://").unwrap();
    let slash = rest.find('/').unwrap_or(rest.len());
    let (host, path) = rest.split_at(slash);
    let port: u16 = host.rsplit_once(':').unwrap().1.parse().unwrap();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{head}content-length: {}\r\n\r\n{body}",
        body.len()
    );
    let stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    if scheme == "http" {
        return exchange_bytes(stream, request).await;
    }
    let mut roots = RootCertStore::empty();
    if let Some(ca) = ca {
        roots.add(CertificateDer::from_pem_slice(ca.as_bytes()).unwrap()).unwrap();
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    match TlsConnector::from(Arc::new(config)).connect(name, stream).await {
        Ok(stream) => exchange_bytes(stream, request).await,
        Err(err) => Reply { status: 0, head: err.to_string(), body: String::new() },
    }
}

pub(crate) async fn get(url: &str) -> Reply {
    send("GET", url, "", "", None).await
}

pub(crate) fn encoded(pairs: &[(&str, &str)]) -> String {
    form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish()
}

pub(crate) async fn post(url: &str, pairs: &[(&str, &str)]) -> Reply {
    let kind = "content-type: application/x-www-form-urlencoded\r\n";
    send("POST", url, kind, &encoded(pairs), None).await
}

pub(crate) const BACK: &str = "http://localhost:9/back";
pub(crate) const VERIFIER: &str = "a-verifier-that-is-long-enough-for-the-specification";

/// A valid authorization request with some parameters replaced, or omitted if empty.
pub(crate) fn authorization_query(changes: &[(&'static str, &str)]) -> String {
    let challenge = jwt::challenge_of(VERIFIER);
    let proper = [
        ("response_type", "code"),
        ("client_id", "me"),
        ("redirect_uri", BACK),
        ("state", "xyz"),
        ("scope", "openid read"),
        ("code_challenge", &challenge),
        ("code_challenge_method", "S256"),
    ];
    let changed =
        |key: &str| changes.iter().find(|(name, _)| *name == key).map(|(_, value)| *value);
    let mut pairs: Vec<(&str, &str)> =
        proper.iter().map(|(key, value)| (*key, changed(key).unwrap_or(value))).collect();
    let more = changes.iter().filter(|(key, _)| proper.iter().all(|(name, _)| name != key));
    pairs.extend(more);
    pairs.retain(|(_, value)| !value.is_empty());
    encoded(&pairs)
}

/// A valid token request, changed in the same way.
pub(crate) fn redemption<'a>(
    code: &'a str,
    changes: &[(&'a str, &'a str)],
) -> Vec<(&'a str, &'a str)> {
    let proper = [
        ("grant_type", "authorization_code"),
        ("code", code),
        ("redirect_uri", BACK),
        ("client_id", "me"),
        ("code_verifier", VERIFIER),
    ];
    let changed =
        |key: &str| changes.iter().find(|(name, _)| *name == key).map(|(_, value)| *value);
    let mut pairs: Vec<_> =
        proper.iter().map(|(key, value)| (*key, changed(key).unwrap_or(value))).collect();
    pairs.extend(changes.iter().filter(|(key, _)| proper.iter().all(|(name, _)| name != key)));
    pairs.retain(|(_, value)| !value.is_empty());
    pairs
}

/// Gets a code from a provider with auto_approve.
pub(crate) async fn code(issuer: &str, changes: &[(&'static str, &str)]) -> String {
    let reply = get(&format!("{issuer}/authorize?{}", authorization_query(changes))).await;
    reply.parameter("code").unwrap_or_else(|| panic!("{reply:?}"))
}
