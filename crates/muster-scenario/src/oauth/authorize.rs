//! The authorization endpoint: checks the request and issues a code.

use std::time::Duration;

use http::Request;
use serde_json::Value;

use super::{
    config::{Clients, Feature},
    provider_state::ProviderState,
    records::{AuthorizationCode, UserIdentity},
    responses::OAuthError,
};
use crate::{http as web, instance::random_hex};

/// The lifetime of an authorization code.
const CODE_LIFETIME: Duration = Duration::from_secs(600);

/// An authorization request.
#[derive(Debug, Default)]
pub(crate) struct AuthorizationRequest {
    response_type: String,
    client_id: String,
    pub(crate) redirect_uri: String,
    state: Option<String>,
    scope: String,
    challenge: Option<String>,
    method: Option<String>,
    nonce: Option<String>,
    resources: Vec<String>,
}

impl AuthorizationRequest {
    pub(crate) fn read(query: &str) -> Self {
        let mut request = Self::default();
        for (key, value) in form_urlencoded::parse(query.as_bytes()) {
            let value = value.into_owned();
            match &*key {
                "response_type" => request.response_type = value,
                "client_id" => request.client_id = value,
                "redirect_uri" => request.redirect_uri = value,
                "state" => request.state = Some(value),
                "scope" => request.scope = value,
                "code_challenge" => request.challenge = Some(value),
                "code_challenge_method" => request.method = Some(value),
                "nonce" => request.nonce = Some(value),
                "resource" => request.resources.push(value),
                _ => {}
            }
        }
        request
    }

    /// The redirect URL with these parameters.
    fn redirect_url(&self, provider: &ProviderState, pairs: &[(&str, &str)]) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.extend_pairs(pairs);
        if let Some(state) = &self.state {
            query.append_pair("state", state);
        }
        query.append_pair("iss", provider.issuer());
        let joint = if self.redirect_uri.contains('?') { '&' } else { '?' };
        format!("{}{joint}{}", self.redirect_uri, query.finish())
    }
}

/// Why no code was issued.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AuthorizeError {
    /// The client is not trusted, so the error is shown to the user.
    #[error("{0}")]
    Displayed(OAuthError),
    /// The error is sent to the client by a redirect to this URL.
    #[error("{0}")]
    Redirected(OAuthError, String),
}

impl ProviderState {
    /// Checks a request and approves it as `identity`; returns the redirect URL.
    pub(crate) async fn authorize(
        &self,
        request: &AuthorizationRequest,
        identity: &UserIdentity,
    ) -> Result<String, AuthorizeError> {
        self.count_request("authorize");
        let known = self.check_client(request).await;
        self.record_rejection("authorize", known).map_err(AuthorizeError::Displayed)?;
        let checked = self.record_rejection("authorize", self.check_parameters(request));
        checked.map_err(|refusal| {
            let pairs = [("error", &*refusal.error), ("error_description", &refusal.description)];
            let back = request.redirect_url(self, &pairs);
            AuthorizeError::Redirected(refusal, back)
        })?;
        let grant =
            self.grant(&request.client_id, identity, &request.scope, request.resources.clone());
        let code = AuthorizationCode {
            grant,
            redirect_uri: request.redirect_uri.clone(),
            challenge: request.challenge.clone(),
            nonce: request.nonce.clone(),
            expires: self.clock.now() + CODE_LIFETIME,
        };
        let value = format!("mock-code-{}{}", random_hex(), random_hex());
        self.update(|records| records.codes.insert(value.clone(), code));
        Ok(request.redirect_url(self, &[("code", &value)]))
    }

    /// Checks the client and its redirect URI.
    async fn check_client(&self, request: &AuthorizationRequest) -> Result<(), OAuthError> {
        let AuthorizationRequest { client_id, redirect_uri, .. } = request;
        let wrong = |text: &str| Err(OAuthError::new("invalid_request", text));
        if client_id.is_empty() {
            return wrong("client_id is missing");
        }
        let uri: Result<http::Uri, _> = redirect_uri.parse();
        match uri {
            Ok(uri) if uri.scheme().is_some() && !redirect_uri.contains('#') => {}
            Ok(_) | Err(_) => return wrong("redirect_uri is missing or not an absolute URL"),
        }
        if *client_id == self.config.client_id && self.config.clients != Clients::Any {
            return Ok(());
        }
        let unknown = || OAuthError::new("invalid_client", format!("unknown client `{client_id}`"));
        let uris = match self.config.clients {
            Clients::Any => return Ok(()),
            Clients::Static => return Err(unknown()),
            Clients::Dynamic => {
                let client = self.read(|records| records.clients.get(client_id).cloned());
                client.ok_or_else(unknown)?.redirect_uris
            }
            Clients::Metadata => document_uris(client_id).await?,
        };
        match uris.contains(redirect_uri) {
            true => Ok(()),
            false => wrong("redirect_uri is not one of the client's"),
        }
    }

    fn check_parameters(&self, request: &AuthorizationRequest) -> Result<(), OAuthError> {
        let wrong = |text: &str| Err(OAuthError::new("invalid_request", text));
        if request.response_type != "code" {
            return Err(OAuthError::new(
                "unsupported_response_type",
                "response_type must be `code`",
            ));
        }
        if request.state.as_deref().unwrap_or_default().is_empty() {
            return wrong("state is missing");
        }
        match (&request.challenge, request.method.as_deref()) {
            (Some(challenge), Some("S256")) if challenge.len() == 43 => {}
            (Some(_), Some("S256")) => return wrong("code_challenge is not a SHA-256 digest"),
            (Some(_), _) => return wrong("code_challenge_method must be `S256`"),
            (None, _) if self.config.has(Feature::PkceRequired) => {
                return wrong("code_challenge is missing");
            }
            (None, _) => {}
        }
        if self.config.has(Feature::BindResources) && request.resources.is_empty() {
            return Err(OAuthError::new("invalid_target", "resource is missing"));
        }
        Ok(())
    }
}

/// The redirect URIs in a client metadata document. Only documents on localhost are fetched.
async fn document_uris(client_id: &str) -> Result<Vec<String>, OAuthError> {
    let wrong = |text: String| OAuthError::new("invalid_client", text);
    let uri: http::Uri =
        client_id.parse().map_err(|_| wrong(format!("unknown client `{client_id}`")))?;
    let (Some("localhost" | "127.0.0.1"), Some(port)) = (uri.host(), uri.port_u16()) else {
        return Err(wrong(format!("`{client_id}` is not on localhost")));
    };
    let unread = |why: String| wrong(format!("cannot read `{client_id}`: {why}"));
    let request = Request::get(uri.path()).header("accept", "application/json");
    let response = web::send(port, request, String::new()).await;
    let response = response.map_err(|err| unread(err.to_string()))?;
    if !response.status.is_success() {
        return Err(unread(format!("status {}", response.status)));
    }
    let text = response.text().await.map_err(|err| unread(err.to_string()))?;
    let document: Value = serde_json::from_str(&text).map_err(|err| unread(err.to_string()))?;
    if document.get("client_id").and_then(Value::as_str) != Some(client_id) {
        return Err(unread("its client_id differs".to_owned()));
    }
    let uris = document.get("redirect_uris").and_then(Value::as_array).into_iter().flatten();
    Ok(uris.filter_map(|uri| uri.as_str().map(str::to_owned)).collect())
}
