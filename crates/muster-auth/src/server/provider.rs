//! The identity provider: discovery, logins, and user info.
//!
//! The provider may be unavailable when the gateway starts. Discovery is then retried with backoff, and requests
//! that need the provider fail with `temporarily_unavailable` meanwhile.

mod identity;
mod tokens;

use std::{sync::Arc, time::Duration};

use muster_core::backoff::Backoff;
use muster_net::{HttpClient, HttpError, HttpRequest, HttpResponse};
use serde::Deserialize;
use thiserror::Error;
use tokio::sync::watch;

use super::config::{ProviderConfig, ProviderKind};
use crate::{clock::Clock, jwks::JwksCache};

pub(super) use self::{identity::Identity, tokens::ProviderTokens};

/// The backoff between attempts of discovery.
const BACKOFF: Backoff = Backoff { first: Duration::from_secs(1), max: Duration::from_secs(30) };

/// Why a request to the provider failed.
#[derive(Debug, Error)]
pub(super) enum ProviderError {
    /// It is not discovered yet, does not respond, or reports that it is overloaded.
    #[error("{0}")]
    Unavailable(String),
    /// It refused, with an OAuth error code.
    #[error("the identity provider refused: {0}")]
    Refused(String),
    /// Its response is malformed or must not be trusted.
    #[error("{0}")]
    Invalid(String),
}

impl From<HttpError> for ProviderError {
    fn from(err: HttpError) -> Self {
        Self::Unavailable(err.to_string())
    }
}

/// The provider's metadata.
#[derive(Debug)]
pub(super) struct ProviderMetadata {
    pub(super) authorization_endpoint: String,
    token_endpoint: String,
    userinfo_endpoint: Option<String>,
    revocation_endpoint: Option<String>,
    keys: Option<JwksCache>,
    /// Whether its authorization responses name it (RFC 9207).
    pub(super) names_issuer: bool,
    /// The scopes that it supports, if it lists them.
    scopes: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct DiscoveryDocument {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    userinfo_endpoint: Option<String>,
    revocation_endpoint: Option<String>,
    jwks_uri: Option<String>,
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
    scopes_supported: Option<Vec<String>>,
}

/// The identity provider.
#[derive(Debug)]
pub(super) struct Provider {
    pub(super) config: ProviderConfig,
    http: HttpClient,
    clock: Clock,
    metadata: watch::Sender<Option<Arc<ProviderMetadata>>>,
}

impl Provider {
    pub(super) fn new(config: ProviderConfig, http: HttpClient, clock: Clock) -> Self {
        Self { config, http, clock, metadata: watch::Sender::new(None) }
    }

    /// Whether discovery has succeeded.
    pub(super) fn is_discovered(&self) -> bool {
        self.metadata.borrow().is_some()
    }

    pub(super) fn metadata(&self) -> Result<Arc<ProviderMetadata>, ProviderError> {
        let unavailable = || {
            ProviderError::Unavailable("the identity provider has not been reached yet".to_owned())
        };
        self.metadata.borrow().clone().ok_or_else(unavailable)
    }

    /// Discovers the provider, with retries until it succeeds.
    pub(super) async fn discover_with_retries(&self) {
        for retries in 0.. {
            match self.discover().await {
                Ok(metadata) => {
                    tracing::info!("discovered the identity provider `{}`", self.config.issuer);
                    self.metadata.send_replace(Some(Arc::new(metadata)));
                    return;
                }
                Err(err) => {
                    tracing::warn!(
                        "cannot discover the identity provider, logins are not available yet: {err}"
                    );
                }
            }
            let random = getrandom::u64().unwrap_or_default();
            tokio::time::sleep(BACKOFF.jittered(retries, random)).await;
        }
    }

    /// Fetches and checks the provider's metadata.
    async fn discover(&self) -> Result<ProviderMetadata, ProviderError> {
        let issuer = self.config.issuer.trim_end_matches('/');
        let url = format!("{issuer}/.well-known/openid-configuration");
        let response = self.send(HttpRequest::get(url, self.config.policy).redirects(2)).await?;
        if !response.status.is_success() {
            let status = response.status.as_u16();
            return Err(ProviderError::Unavailable(format!("its metadata has status {status}")));
        }
        let document: DiscoveryDocument = serde_json::from_slice(&response.body)
            .map_err(|err| ProviderError::Invalid(format!("its metadata cannot be read: {err}")))?;
        if document.issuer.trim_end_matches('/') != issuer {
            let message = format!(
                "its metadata is that of `{}`, not of `{issuer}`\nhint: set `issuerUrl` to the issuer in the provider's metadata",
                document.issuer
            );
            return Err(ProviderError::Invalid(message));
        }
        let endpoints = [
            Some(&document.authorization_endpoint),
            Some(&document.token_endpoint),
            document.userinfo_endpoint.as_ref(),
            document.revocation_endpoint.as_ref(),
            document.jwks_uri.as_ref(),
        ];
        for endpoint in endpoints.into_iter().flatten() {
            self.config
                .policy
                .parse(endpoint)
                .map_err(|err| ProviderError::Invalid(format!("its metadata: {err}")))?;
        }
        let keys = |url| JwksCache::new(self.http.clone(), url, self.config.policy);
        Ok(ProviderMetadata {
            authorization_endpoint: document.authorization_endpoint,
            token_endpoint: document.token_endpoint,
            userinfo_endpoint: document.userinfo_endpoint,
            revocation_endpoint: document.revocation_endpoint,
            keys: document.jwks_uri.map(keys),
            names_issuer: document.authorization_response_iss_parameter_supported,
            scopes: document.scopes_supported,
        })
    }

    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, ProviderError> {
        Ok(self.http.send(request.timeout(self.config.timeout)).await?)
    }

    /// The scopes to request for a client: the gateway's own, and those of `asked` that the provider supports.
    pub(super) fn scopes_with(&self, metadata: &ProviderMetadata, asked: &str) -> Vec<String> {
        let mut scopes = self.scopes(Some(metadata));
        let supported = |scope: &str| {
            let listed = metadata.scopes.as_ref();
            listed.is_some_and(|listed| listed.iter().any(|known| known == scope))
        };
        // Only the operator chooses the audiences of tokens that servers receive.
        let allowed = |scope: &&str| !scope.starts_with("audience:") && supported(scope);
        for scope in asked.split(' ').filter(allowed) {
            if !scopes.iter().any(|known| known == scope) {
                scopes.push(scope.to_owned());
            }
        }
        scopes
    }

    /// The scopes that the gateway itself requests, without those that the provider does not support.
    pub(super) fn scopes(&self, metadata: Option<&ProviderMetadata>) -> Vec<String> {
        let mut scopes: Vec<String> = match self.config.kind {
            ProviderKind::Oidc => {
                ["openid", "profile", "email", "groups", "offline_access"].as_slice()
            }
            ProviderKind::Google => ["openid", "profile", "email"].as_slice(),
        }
        .iter()
        .map(|scope| (*scope).to_owned())
        .collect();
        if let Some(supported) = metadata.and_then(|metadata| metadata.scopes.as_ref()) {
            scopes.retain(|scope| scope == "openid" || supported.contains(scope));
        }
        let mut audiences = self.config.audiences.clone();
        audiences.sort();
        audiences.dedup();
        scopes.extend(audiences.iter().map(|one| format!("audience:server:client_id:{one}")));
        scopes
    }
}

/// Returns the body of a successful response, or the error that its status and code stand for.
fn body(response: &HttpResponse) -> Result<&[u8], ProviderError> {
    #[derive(Deserialize)]
    struct ErrorBody {
        error: String,
    }
    if response.status.is_success() {
        return Ok(&response.body);
    }
    let code = serde_json::from_slice::<ErrorBody>(&response.body).ok().map(|body| body.error);
    let status = response.status.as_u16();
    let unavailable = response.status.is_server_error() || status == 429 || status == 408;
    match code {
        Some(code)
            if code == "temporarily_unavailable" || code == "server_error" || unavailable =>
        {
            let code = sanitized(&code);
            Err(ProviderError::Unavailable(format!("the identity provider answered {code}")))
        }
        Some(code) => Err(ProviderError::Refused(sanitized(&code))),
        None if unavailable => {
            let message = format!("the identity provider answered with status {status}");
            Err(ProviderError::Unavailable(message))
        }
        None => Err(ProviderError::Refused(format!("status_{status}"))),
    }
}

/// Removes characters that an error code cannot have, and cuts it.
fn sanitized(code: &str) -> String {
    let letters = code.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_');
    letters.take(40).collect()
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use muster_net::{AddressPolicy, HttpClient, TrustStore};

    use super::{Provider, ProviderMetadata};
    use crate::{
        clock::Clock,
        server::config::{ProviderConfig, ProviderKind},
    };

    #[test]
    fn supported_scopes_of_clients_are_requested() {
        let config = ProviderConfig {
            kind: ProviderKind::Oidc,
            issuer: "https://idp.example".to_owned(),
            client_id: "muster".to_owned(),
            client_secret: String::new().into(),
            connector: None,
            audiences: vec!["cluster".to_owned()],
            policy: AddressPolicy::Public,
            timeout: Duration::from_secs(1),
        };
        let http = HttpClient::new(Arc::new(TrustStore::system()));
        let provider = Provider::new(config, http, Clock::system());
        let metadata = |scopes: Option<&[&str]>| ProviderMetadata {
            authorization_endpoint: String::new(),
            token_endpoint: String::new(),
            userinfo_endpoint: None,
            revocation_endpoint: None,
            keys: None,
            names_issuer: false,
            scopes: scopes.map(|all| all.iter().map(|scope| (*scope).to_owned()).collect()),
        };
        let listed = metadata(Some(&["openid", "email", "mcp:admin", "audience:x"]));
        let asked = "openid mcp:admin mcp:admin mcp:other audience:x";
        assert_eq!(
            provider.scopes_with(&listed, asked),
            ["openid", "email", "audience:server:client_id:cluster", "mcp:admin"]
        );
        // A provider that lists no scopes may refuse unknown ones.
        let unlisted = provider.scopes_with(&metadata(None), asked).join(" ");
        assert!(!unlisted.contains("mcp:admin"), "{unlisted}");
    }
}
