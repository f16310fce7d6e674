//! The OAuth client of the fake, correct or with one defect.

use std::collections::BTreeMap;

use muster_scenario::oauth::jwt;
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::Mutex,
};

use super::at;

const VERIFIER: &str = "the-verifier-of-a-fake-muster-is-always-the-same-one";

/// Session, server and token endpoint.
type Begun = (String, String, String);

pub(crate) struct Logins {
    base: String,
    defect: String,
    /// By session and server.
    tokens: Mutex<BTreeMap<(String, String), String>>,
    /// By state.
    begun: Mutex<BTreeMap<String, Begun>>,
}

impl Logins {
    pub(crate) fn new(port: u16, defect: &str) -> Self {
        Self {
            base: format!("http://localhost:{port}"),
            defect: defect.to_owned(),
            tokens: Mutex::default(),
            begun: Mutex::default(),
        }
    }

    /// The tokens of a session by server; of all sessions, with the defect `shared-login`.
    pub(crate) async fn tokens(&self, session: &str) -> BTreeMap<String, String> {
        let tokens = self.tokens.lock().await;
        let own =
            tokens.iter().filter(|((of, _), _)| of == session || self.defect == "shared-login");
        own.map(|((_, server), token)| (server.clone(), token.clone())).collect()
    }

    /// The login URL, or a message that no login is required.
    pub(crate) async fn begin(
        &self,
        server: &str,
        port: u16,
        session: &str,
    ) -> Result<String, String> {
        if self.tokens(session).await.contains_key(server) {
            return Ok(format!("Successfully connected to '{server}'!"));
        }
        let place = format!("http://localhost:{port}/.well-known/oauth-protected-resource");
        let about = fetch(&place, None).await?;
        let issuer = at(&about, "/authorization_servers/0").as_str().unwrap_or_default().to_owned();
        let place = format!("{issuer}/.well-known/oauth-authorization-server");
        let provider = fetch(&place, None).await?;
        let endpoint = |name: &str| at(&provider, name).as_str().unwrap_or_default().to_owned();
        let state = format!("{session}--{server}");
        let begun = (session.to_owned(), server.to_owned(), endpoint("/token_endpoint"));
        self.begun.lock().await.insert(state.clone(), begun);
        let scope = at(&about, "/scopes_supported/0").as_str().unwrap_or_default();
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.append_pair("response_type", "code").append_pair("client_id", "fake");
        query.append_pair("redirect_uri", &self.callback());
        query.append_pair("scope", if self.defect == "wrong-scope" { "openid" } else { scope });
        if self.defect != "no-state" {
            query.append_pair("state", &state);
        }
        if self.defect != "no-pkce" {
            query.append_pair("code_challenge", &jwt::challenge_of(VERIFIER));
            query.append_pair("code_challenge_method", "S256");
        }
        Ok(format!("Sign in:\n{}?{}\n", endpoint("/authorization_endpoint"), query.finish()))
    }

    fn callback(&self) -> String {
        match self.defect.as_str() {
            "wrong-callback" => "http://localhost:1/elsewhere".to_owned(),
            _ => format!("{}/oauth/proxy/callback", self.base),
        }
    }

    /// Handles the callback.
    pub(crate) async fn end(&self, path: &str) -> Result<(), String> {
        let query = path.split_once('?').map(|(_, query)| query).unwrap_or_default();
        let value = |name: &str| {
            let mut pairs = form_urlencoded::parse(query.as_bytes());
            pairs.find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
        };
        let state = value("state").unwrap_or_default();
        let begun = self.begun.lock().await.remove(&state);
        let (session, server, endpoint) = begun.ok_or("unknown state")?;
        let code = value("code").ok_or("no code")?;
        let verifier = if self.defect == "wrong-verifier" { "another" } else { VERIFIER };
        let other = format!("{}/other", self.base);
        let callback = self.callback();
        let redirect_uri = if self.defect == "wrong-redirect" { &other } else { &callback };
        let form = form_urlencoded::Serializer::new(String::new())
            .append_pair("grant_type", "authorization_code")
            .append_pair("code", &code)
            .append_pair("redirect_uri", redirect_uri)
            .append_pair("client_id", "fake")
            .append_pair("code_verifier", verifier)
            .finish();
        let answer = fetch(&endpoint, Some(&form)).await?;
        let token = at(&answer, "/access_token").as_str().ok_or_else(|| answer.to_string())?;
        let token = if self.defect == "wrong-token" { "made-up" } else { token };
        self.tokens.lock().await.insert((session, server), token.to_owned());
        Ok(())
    }
}

/// Fetches JSON from localhost.
async fn fetch(url: &str, form: Option<&str>) -> Result<Value, String> {
    let rest = url.strip_prefix("http://localhost:").ok_or_else(|| format!("not here: {url}"))?;
    let (port, path) = rest.split_once('/').ok_or("no path")?;
    let port: u16 = port.parse().map_err(|_| "no port")?;
    let (method, body) = form.map_or(("GET", ""), |form| ("POST", form));
    let request = format!(
        "{method} /{path} HTTP/1.1\r\nhost: localhost:{port}\r\nconnection: close\r\ncontent-type: application/x-www-form-urlencoded\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let talk = async {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await?;
        Ok::<_, std::io::Error>(text)
    };
    let text = talk.await.map_err(|err| err.to_string())?;
    let body = text.split_once("\r\n\r\n").map(|(_, body)| body).unwrap_or_default();
    serde_json::from_str(body).map_err(|err| format!("{err}: {text}"))
}
