//! The authorization endpoint: from the client to the consent page, to the identity provider, and back.
//!
//! A cookie binds a flow to the browser that started it, so that a user cannot finish another user's flow.
//! Users consent to an untrusted client before the provider logs them in, because the provider knows only
//! the gateway and would not ask.

mod browser;
mod callback;
mod consent;

use std::time::Duration;

use http::{HeaderMap, HeaderValue, header};
use serde::{Deserialize, Serialize};

use super::{
    Inner,
    config::{OwnCallback, ProviderKind},
    params::Params,
    provider::ProviderError,
    responses::{self, OAuthError, Reply},
};
use crate::{oauth::with_query, random};

/// How long a user may take to log in.
const FLOW_TTL: Duration = Duration::from_secs(10 * 60);

/// The minimum length of `state`, which must be unguessable.
const MIN_STATE_LENGTH: usize = 32;

/// The maximum length of a parameter: anybody can start a flow, and flows are stored.
const MAX_PARAM_LENGTH: usize = 2048;

/// An authorization in progress.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct AuthorizationFlow {
    client: String,
    client_name: String,
    redirect_uri: String,
    state: String,
    scope: Option<String>,
    challenge: String,
    /// The digest of the browser's cookie; `None` if the redirect URI is the gateway's own callback.
    browser: Option<String>,
    /// The gateway's own PKCE verifier at the provider.
    verifier: String,
    nonce: String,
}

/// The grant that an authorization code is redeemed for.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct CodeGrant {
    pub(super) client: String,
    pub(super) redirect_uri: String,
    pub(super) challenge: String,
    pub(super) scope: Option<String>,
    pub(super) login: String,
}

/// An error of an authorization request, and where it is reported.
enum AuthorizeError {
    /// Shown in the browser.
    Show(OAuthError),
    /// Reported to the client at its redirect URI.
    Redirect(OAuthError),
}

impl Inner {
    /// `GET /oauth/authorize`.
    pub(super) async fn authorize(
        &self,
        headers: &HeaderMap,
        params: &Params,
    ) -> Result<Reply, OAuthError> {
        for name in ["client_id", "state", "scope", "resource", "redirect_uri"] {
            if params.get(name).is_some_and(|value| value.len() > MAX_PARAM_LENGTH) {
                let message = format!("{name} must have at most {MAX_PARAM_LENGTH} characters");
                return Err(OAuthError::request(message));
            }
        }
        let client_id = params.require("client_id")?;
        let state = params.require("state")?;
        if state.len() < MIN_STATE_LENGTH {
            let message = format!("state must have at least {MIN_STATE_LENGTH} characters");
            return Err(OAuthError::request(message));
        }
        let client = self.client(client_id).await.map_err(|error| {
            // A browser sends this request and cannot authenticate the client, so a 401 would be wrong.
            OAuthError { status: http::StatusCode::BAD_REQUEST, ..error }
        })?;
        let redirect_uri = match (params.get("redirect_uri"), client.redirect_uris.as_slice()) {
            (Some(requested), _) => requested,
            (None, [only]) => only,
            (None, _) => return Err(OAuthError::request("redirect_uri is required")),
        };
        if client.redirect_uri(redirect_uri).is_none() {
            return Err(OAuthError::request("redirect_uri is not registered for the client"));
        }
        let own_callback =
            self.config.own_callback == OwnCallback::Allowed && redirect_uri == self.callback_url();
        let cookie = self.cookie(headers);
        let browser = match (own_callback, &cookie) {
            (true, _) => None,
            (false, Some(cookie)) => Some(cookie.clone()),
            (false, None) => Some(random::token()?),
        };
        let digest = browser.as_deref().map(random::digest_of);
        let has_consent = own_callback
            || client.is_trusted
            || self.has_consented(&client.id, redirect_uri, digest.as_deref()).await?;
        let flow = match self.check_request(params) {
            Ok((challenge, scope)) => AuthorizationFlow {
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
            Err(AuthorizeError::Show(error)) => return Err(error),
            // Anybody can register a client: without consent this would be an open redirect.
            Err(AuthorizeError::Redirect(error))
                if !has_consent && !client.is_loopback_redirect(redirect_uri) =>
            {
                return Err(error);
            }
            Err(AuthorizeError::Redirect(error)) => {
                return Ok(self.redirect_error(redirect_uri, state, &error));
            }
        };
        let mut reply = if has_consent {
            self.redirect_to_provider(flow).await?
        } else {
            self.ask_consent(flow).await?
        };
        if let (Some(browser), None) = (&browser, &cookie) {
            self.set_cookie(&mut reply, browser);
        }
        Ok(reply)
    }

    /// Checks a request, and returns its PKCE challenge and its scope.
    fn check_request(&self, params: &Params) -> Result<(String, Option<String>), AuthorizeError> {
        let error = |code, text: &str| {
            AuthorizeError::Redirect(OAuthError { code, ..OAuthError::request(text) })
        };
        if params.get("response_type") != Some("code") {
            return Err(error("unsupported_response_type", "response_type must be code"));
        }
        let Some(challenge) = params.get("code_challenge") else {
            return Err(error("invalid_request", "code_challenge is required (PKCE)"));
        };
        if params.get("code_challenge_method") != Some("S256") {
            return Err(error("invalid_request", "code_challenge_method must be S256"));
        }
        if challenge.len() != 43 || random::from_base64url(challenge).is_none() {
            return Err(error("invalid_request", "code_challenge is not a S256 digest"));
        }
        if let Some(resource) = params.get("resource")
            && !self.is_resource(resource)
        {
            return Err(error("invalid_target", "resource is not this server"));
        }
        if !self.provider.is_discovered() {
            return Err(AuthorizeError::Show(OAuthError::unavailable(
                "the identity provider is not available",
            )));
        }
        Ok((challenge.to_owned(), params.get("scope").map(str::to_owned)))
    }

    /// Sends the browser to the provider.
    async fn redirect_to_provider(&self, flow: AuthorizationFlow) -> Result<Reply, OAuthError> {
        let metadata = self.provider.metadata().map_err(|err| unavailable(&err))?;
        let state = random::token()?;
        let asked = flow.scope.as_deref().unwrap_or_default();
        let scopes = self.provider.scopes_with(&metadata, asked).join(" ");
        let (callback, challenge) = (self.callback_url(), random::digest_of(&flow.verifier));
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
            (ProviderKind::Google, _) => {
                query.extend([("access_type", "offline"), ("prompt", "consent")]);
            }
            (ProviderKind::Oidc, Some(connector)) => query.push(("connector_id", connector)),
            (ProviderKind::Oidc, None) => {}
        }
        let location = with_query(&metadata.authorization_endpoint, &query);
        self.vault.put(&flow_key(&state), &flow, FLOW_TTL).await?;
        Ok(responses::redirect(&location))
    }

    /// Reports an error to a client at its redirect URI.
    fn redirect_error(&self, redirect_uri: &str, state: &str, error: &OAuthError) -> Reply {
        responses::redirect(&with_query(
            redirect_uri,
            &[
                ("error", error.code),
                ("error_description", &error.description),
                ("state", state),
                ("iss", &self.config.base_url),
            ],
        ))
    }

    /// The redirect URI of the gateway at the provider.
    pub(super) fn callback_url(&self) -> String {
        format!("{}/oauth/callback", self.config.base_url)
    }

    /// Whether a resource identifier is the gateway's.
    pub(super) fn is_resource(&self, name: &str) -> bool {
        let base = self.config.base_url.as_str();
        let name = name.trim_end_matches('/');
        name == base
            || name.strip_prefix(base) == Some("/mcp")
            || self.config.resource.as_deref() == Some(name)
    }

    fn cookie_name(&self) -> &'static str {
        // Browsers accept the `__Host-` prefix only over TLS.
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

fn unavailable(err: &ProviderError) -> OAuthError {
    tracing::warn!("{err}");
    OAuthError::unavailable("the identity provider is not available")
}
