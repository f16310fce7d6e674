//! The way of a browser: from a client to consent, to the provider, and back.
//!
//! A flow belongs to the browser that began it, known by a cookie; nobody can finish what somebody else
//! began. A client that is not vouched for is shown to the user before the provider is: the provider knows
//! only us, and would not ask.

mod callback;
mod consent;

use std::time::Duration;

use http::{HeaderMap, HeaderValue, header};
use serde::{Deserialize, Serialize};

use super::{
    Inner,
    config::Kind,
    fields::Fields,
    provider::ProviderError,
    reply::{self, Failure, Reply},
};
use crate::{oauth::with_query, random};

/// How long a user may take.
const PATIENCE: Duration = Duration::from_secs(10 * 60);

/// The shortest state that is taken: it must not be guessed.
const LEAST_STATE: usize = 32;

/// The longest of what is taken: anybody can begin a flow, and it is kept for a while.
const LONGEST: usize = 2048;

/// A flow that has begun.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Flow {
    client: String,
    client_name: String,
    redirect_uri: String,
    state: String,
    scope: Option<String>,
    challenge: String,
    /// The digest of the browser's cookie; none where the code comes back to ourselves.
    browser: Option<String>,
    /// Ours, for the provider.
    verifier: String,
    nonce: String,
}

/// What a code stands for.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Grant {
    pub(super) client: String,
    pub(super) redirect_uri: String,
    pub(super) challenge: String,
    pub(super) scope: Option<String>,
    pub(super) login: String,
}

/// A refusal: for the client if it is known where that is, for the browser otherwise.
enum Turned {
    Here(Failure),
    Back(Failure),
}

impl From<Failure> for Turned {
    fn from(failure: Failure) -> Self {
        Self::Here(failure)
    }
}

impl Inner {
    /// `GET /oauth/authorize`.
    pub(super) async fn authorize(
        &self,
        headers: &HeaderMap,
        fields: &Fields,
    ) -> Result<Reply, Failure> {
        for name in ["client_id", "state", "scope", "resource", "redirect_uri"] {
            if fields.get(name).is_some_and(|value| value.len() > LONGEST) {
                let message = format!("{name} must have at most {LONGEST} characters");
                return Err(Failure::request(message));
            }
        }
        let client_id = fields.need("client_id")?;
        let state = fields.need("state")?;
        if state.len() < LEAST_STATE {
            let message = format!("state must have at least {LEAST_STATE} characters");
            return Err(Failure::request(message));
        }
        let client = self.client(client_id).await.map_err(|failure| {
            // There is no client to prove itself here, only a browser.
            Failure { status: http::StatusCode::BAD_REQUEST, ..failure }
        })?;
        let redirect_uri = match (fields.get("redirect_uri"), client.redirect_uris.as_slice()) {
            (Some(asked), _) => asked,
            (None, [only]) => only,
            (None, _) => return Err(Failure::request("redirect_uri is required")),
        };
        if client.redirect(redirect_uri).is_none() {
            return Err(Failure::request("redirect_uri is not one that the client registered"));
        }
        let ours = redirect_uri == self.callback();
        let cookie = self.cookie(headers);
        let browser = match (ours, &cookie) {
            (true, _) => None,
            (false, Some(cookie)) => Some(cookie.clone()),
            (false, None) => Some(random::token()?),
        };
        let digest = browser.as_deref().map(random::digest_of);
        let known = ours
            || client.vouched
            || self.has_consented(&client.id, redirect_uri, digest.as_deref()).await?;
        let flow = match self.asked(fields) {
            Ok((challenge, scope)) => Flow {
                client: client.id.clone(),
                client_name: client.name.clone(),
                redirect_uri: redirect_uri.to_owned(),
                state: state.to_owned(),
                scope,
                challenge,
                browser: digest,
                verifier: random::token()?,
                nonce: random::token()?,
            },
            Err(Turned::Here(failure)) => return Err(failure),
            // Anybody may be a client: nobody is sent to one whom they have not let in.
            Err(Turned::Back(failure)) if !known && !client.is_here(redirect_uri) => {
                return Err(failure);
            }
            Err(Turned::Back(failure)) => {
                return Ok(self.back(redirect_uri, state, &failure));
            }
        };
        let mut reply = if known { self.to_provider(flow).await? } else { self.ask(flow).await? };
        if let (Some(browser), None) = (&browser, &cookie) {
            self.set_cookie(&mut reply, browser);
        }
        Ok(reply)
    }

    /// What a client asks for: its challenge and its scope.
    fn asked(&self, fields: &Fields) -> Result<(String, Option<String>), Turned> {
        let back = |code, text: &str| Turned::Back(Failure { code, ..Failure::request(text) });
        if fields.get("response_type") != Some("code") {
            return Err(back("unsupported_response_type", "response_type must be code"));
        }
        let Some(challenge) = fields.get("code_challenge") else {
            return Err(back("invalid_request", "code_challenge is required (PKCE)"));
        };
        if fields.get("code_challenge_method") != Some("S256") {
            return Err(back("invalid_request", "code_challenge_method must be S256"));
        }
        if challenge.len() != 43 || random::from_base64url(challenge).is_none() {
            return Err(back("invalid_request", "code_challenge is not one of S256"));
        }
        if let Some(resource) = fields.get("resource")
            && !self.is_resource(resource)
        {
            return Err(back("invalid_target", "resource is not this server"));
        }
        if !self.provider.is_known() {
            return Err(Turned::Here(Failure::later("the identity provider is not available")));
        }
        Ok((challenge.to_owned(), fields.get("scope").map(str::to_owned)))
    }

    /// On to the provider, which will send the browser back with our state.
    async fn to_provider(&self, flow: Flow) -> Result<Reply, Failure> {
        let known = self.provider.known().map_err(|err| later(&err))?;
        let state = random::token()?;
        let scopes = self.provider.scopes(Some(&known)).join(" ");
        let (callback, challenge) = (self.callback(), random::digest_of(&flow.verifier));
        let mut query = vec![
            ("response_type", "code"),
            ("client_id", self.provider.config.client_id.as_str()),
            ("redirect_uri", &callback),
            ("scope", &scopes),
            ("state", &state),
            ("nonce", &flow.nonce),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
        ];
        match (self.provider.config.kind, &self.provider.config.connector) {
            (Kind::Google, _) => query.extend([("access_type", "offline"), ("prompt", "consent")]),
            (Kind::Oidc, Some(connector)) => query.push(("connector_id", connector)),
            (Kind::Oidc, None) => {}
        }
        let location = with_query(&known.authorization_endpoint, &query);
        self.vault.put(&flow_key(&state), &flow, PATIENCE).await?;
        Ok(reply::redirect(&location))
    }

    /// An error that a client is told of.
    fn back(&self, redirect_uri: &str, state: &str, failure: &Failure) -> Reply {
        reply::redirect(&with_query(
            redirect_uri,
            &[
                ("error", failure.code),
                ("error_description", &failure.description),
                ("state", state),
                ("iss", &self.config.base_url),
            ],
        ))
    }

    pub(super) fn callback(&self) -> String {
        format!("{}/oauth/callback", self.config.base_url)
    }

    /// Whether a name is one of the resource that we protect.
    pub(super) fn is_resource(&self, name: &str) -> bool {
        let base = self.config.base_url.as_str();
        let name = name.trim_end_matches('/');
        name == base
            || name.strip_prefix(base) == Some("/mcp")
            || self.config.resource.as_deref() == Some(name)
    }

    fn cookie_name(&self) -> &'static str {
        // Browsers take this prefix only over TLS.
        if self.is_secure() { "__Host-muster-browser" } else { "muster-browser" }
    }

    fn is_secure(&self) -> bool {
        self.config.base_url.starts_with("https://")
    }

    fn cookie(&self, headers: &HeaderMap) -> Option<String> {
        let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
        let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.split_once('='));
        let mut values = pairs.filter(|(name, _)| name.trim() == self.cookie_name());
        values.next().map(|(_, value)| value.trim().to_owned()).filter(|value| value.len() == 43)
    }

    fn set_cookie(&self, reply: &mut Reply, browser: &str) {
        let secure = if self.is_secure() { "; Secure" } else { "" };
        let name = self.cookie_name();
        let cookie =
            format!("{name}={browser}; Path=/; HttpOnly; SameSite=Lax; Max-Age=2592000{secure}");
        if let Ok(value) = HeaderValue::from_str(&cookie) {
            reply.headers_mut().insert(header::SET_COOKIE, value);
        }
    }
}

fn flow_key(state: &str) -> String {
    format!("flow:{}", random::digest_of(state))
}

fn later(err: &ProviderError) -> Failure {
    tracing::warn!("{err}");
    Failure::later("the identity provider is not available")
}
