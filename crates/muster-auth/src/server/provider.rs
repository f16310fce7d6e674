//! Whoever knows the users: found, asked to log someone in, and asked who someone is.
//!
//! It may be away when the gateway starts. Then it is looked for until it answers, and what needs it is
//! told to come again.

mod identity;
mod tokens;

use std::{sync::Arc, time::Duration};

use muster_net::{HttpClient, HttpError, HttpRequest, HttpResponse};
use serde::Deserialize;
use thiserror::Error;
use tokio::sync::watch;

use super::config::{Kind, ProviderConfig};
use crate::{clock::Clock, jwks::Keys};

pub(super) use self::{identity::Identity, tokens::Upstream};

/// How long to wait before it is looked for again, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Why the provider did not do what was asked.
#[derive(Debug, Error)]
pub(super) enum ProviderError {
    /// It has not been found yet, does not answer, or says that it cannot now.
    #[error("{0}")]
    Away(String),
    /// It refused, with a code of OAuth.
    #[error("the identity provider refused: {0}")]
    Refused(String),
    /// What it said cannot be right.
    #[error("{0}")]
    Wrong(String),
}

impl From<HttpError> for ProviderError {
    fn from(err: HttpError) -> Self {
        Self::Away(err.to_string())
    }
}

/// What the provider says about itself.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) authorization_endpoint: String,
    token_endpoint: String,
    userinfo_endpoint: Option<String>,
    revocation_endpoint: Option<String>,
    keys: Option<Keys>,
    /// Whether its answers name it.
    pub(super) names_itself: bool,
    /// What can be asked for, if it says so.
    scopes: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Document {
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

/// The one who knows the users.
#[derive(Debug)]
pub(super) struct Provider {
    pub(super) config: ProviderConfig,
    dialer: HttpClient,
    clock: Clock,
    known: watch::Sender<Option<Arc<Known>>>,
}

impl Provider {
    pub(super) fn new(config: ProviderConfig, dialer: HttpClient, clock: Clock) -> Self {
        Self { config, dialer, clock, known: watch::Sender::new(None) }
    }

    /// Whether it has been found.
    pub(super) fn is_known(&self) -> bool {
        self.known.borrow().is_some()
    }

    pub(super) fn known(&self) -> Result<Arc<Known>, ProviderError> {
        let away =
            || ProviderError::Away("the identity provider has not been reached yet".to_owned());
        self.known.borrow().clone().ok_or_else(away)
    }

    /// Looks for it until it is found.
    pub(super) async fn find(&self) {
        let mut pause = FIRST_PAUSE;
        loop {
            match self.discover().await {
                Ok(known) => {
                    tracing::info!("the identity provider `{}` is there", self.config.issuer);
                    self.known.send_replace(Some(Arc::new(known)));
                    return;
                }
                Err(err) => {
                    tracing::warn!(
                        "no logins yet, the identity provider is looked for again: {err}"
                    );
                }
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// What it says about itself, once.
    async fn discover(&self) -> Result<Known, ProviderError> {
        let issuer = self.config.issuer.trim_end_matches('/');
        let url = format!("{issuer}/.well-known/openid-configuration");
        let answer = self.send(HttpRequest::get(url, self.config.reach).redirects(2)).await?;
        if !answer.status.is_success() {
            let status = answer.status.as_u16();
            return Err(ProviderError::Away(format!("its metadata came with status {status}")));
        }
        let document: Document = serde_json::from_slice(&answer.body)
            .map_err(|err| ProviderError::Wrong(format!("its metadata cannot be read: {err}")))?;
        if document.issuer.trim_end_matches('/') != issuer {
            let message = format!(
                "its metadata is that of `{}`, not of `{issuer}`\nhint: set `issuerUrl` to what the provider calls itself",
                document.issuer
            );
            return Err(ProviderError::Wrong(message));
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
                .reach
                .parse(endpoint)
                .map_err(|err| ProviderError::Wrong(format!("its metadata: {err}")))?;
        }
        let keys = |url| Keys::new(self.dialer.clone(), url, self.config.reach);
        Ok(Known {
            authorization_endpoint: document.authorization_endpoint,
            token_endpoint: document.token_endpoint,
            userinfo_endpoint: document.userinfo_endpoint,
            revocation_endpoint: document.revocation_endpoint,
            keys: document.jwks_uri.map(keys),
            names_itself: document.authorization_response_iss_parameter_supported,
            scopes: document.scopes_supported,
        })
    }

    async fn send(&self, outgoing: HttpRequest) -> Result<HttpResponse, ProviderError> {
        Ok(self.dialer.send(outgoing.timeout(self.config.patience)).await?)
    }

    /// What is asked for. What the provider says it does not have is left out.
    pub(super) fn scopes(&self, known: Option<&Known>) -> Vec<String> {
        let mut wanted: Vec<String> = match self.config.kind {
            Kind::Oidc => ["openid", "profile", "email", "groups", "offline_access"].as_slice(),
            Kind::Google => ["openid", "profile", "email"].as_slice(),
        }
        .iter()
        .map(|scope| (*scope).to_owned())
        .collect();
        if let Some(offered) = known.and_then(|known| known.scopes.as_ref()) {
            wanted.retain(|scope| scope == "openid" || offered.contains(scope));
        }
        let mut audiences = self.config.audiences.clone();
        audiences.sort();
        audiences.dedup();
        wanted.extend(audiences.iter().map(|one| format!("audience:server:client_id:{one}")));
        wanted
    }
}

/// An answer's document; servers in trouble are away, and the rest of refusals is told apart by code.
fn judged(answer: &HttpResponse) -> Result<&[u8], ProviderError> {
    #[derive(Deserialize)]
    struct Refusal {
        error: String,
    }
    if answer.status.is_success() {
        return Ok(&answer.body);
    }
    let code = serde_json::from_slice::<Refusal>(&answer.body).ok().map(|refusal| refusal.error);
    let status = answer.status.as_u16();
    let away = answer.status.is_server_error() || status == 429 || status == 408;
    match code {
        Some(code) if code == "temporarily_unavailable" || code == "server_error" || away => {
            Err(ProviderError::Away(format!("the identity provider answered {}", word(&code))))
        }
        Some(code) => Err(ProviderError::Refused(word(&code))),
        None if away => {
            Err(ProviderError::Away(format!("the identity provider answered with status {status}")))
        }
        None => Err(ProviderError::Refused(format!("status_{status}"))),
    }
}

/// A code as OAuth has them; nothing else of a stranger's answer is repeated.
fn word(code: &str) -> String {
    let letters = code.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_');
    letters.take(40).collect()
}
