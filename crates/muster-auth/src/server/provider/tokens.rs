//! The provider's tokens: got for a code, and renewed.

use http::header;
use muster_net::HttpRequest;
use serde::{Deserialize, Serialize};

use super::{Provider, ProviderError, judged};
use crate::{jwt::Jwt, oauth::basic_credentials, secret::Secret};

/// Shorter than this they are not worth handing on.
const SOON: u64 = 30;

/// What is taken for the life of a token that does not tell.
const USUAL_LIFE: u64 = 3600;

/// Tokens of the provider, of one login.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::server) struct Upstream {
    pub(in crate::server) access: Secret,
    pub(in crate::server) refresh: Option<Secret>,
    pub(in crate::server) id_token: Option<Secret>,
    /// Until when the access token is good.
    pub(in crate::server) until: u64,
}

impl Upstream {
    /// Whether the access token is good for a while yet.
    pub(in crate::server) const fn is_fresh(&self, now: u64) -> bool {
        self.until > now + SOON
    }

    /// The ID token, if it is good for a while yet.
    pub(in crate::server) fn fresh_id_token(&self, now: u64) -> Option<&str> {
        let token = self.id_token.as_ref()?.reveal().as_str();
        (Jwt::read(token)?.claimed().end() > now + SOON).then_some(token)
    }
}

#[derive(Deserialize)]
struct Tokens {
    access_token: String,
    token_type: String,
    refresh_token: Option<String>,
    id_token: Option<String>,
    expires_in: Option<f64>,
}

impl Provider {
    /// Tokens for a code that a browser brought.
    pub(in crate::server) async fn redeem(
        &self,
        code: &str,
        verifier: &str,
        callback: &str,
    ) -> Result<Upstream, ProviderError> {
        self.ask(&[
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", callback),
            ("code_verifier", verifier),
        ])
        .await
    }

    /// New tokens for old ones. What the answer leaves out stays what it was.
    pub(in crate::server) async fn renew(&self, old: &Upstream) -> Result<Upstream, ProviderError> {
        let Some(refresh) = &old.refresh else {
            return Err(ProviderError::Refused("invalid_grant".to_owned()));
        };
        let fields =
            [("grant_type", "refresh_token"), ("refresh_token", refresh.reveal().as_str())];
        let mut new = self.ask(&fields).await?;
        new.refresh = new.refresh.or_else(|| old.refresh.clone());
        new.id_token = new.id_token.or_else(|| old.id_token.clone());
        Ok(new)
    }

    /// Gives the tokens of a login back (RFC 7009), if the provider takes them. It takes the access token
    /// with the refresh token.
    pub(in crate::server) async fn give_back(&self, old: &Upstream) -> Result<(), ProviderError> {
        let known = self.known()?;
        let Some(endpoint) = known.revocation_endpoint.as_deref() else { return Ok(()) };
        let (token, hint) = match &old.refresh {
            Some(refresh) => (refresh, "refresh_token"),
            None => (&old.access, "access_token"),
        };
        let fields = [("token", token.reveal().as_str()), ("token_type_hint", hint)];
        let answer = self.send(self.as_us(endpoint, &fields)).await?;
        judged(&answer).map(drop)
    }

    /// A form that says who we are.
    fn as_us(&self, endpoint: &str, fields: &[(&str, &str)]) -> HttpRequest {
        let (id, secret) = (self.config.client_id.as_str(), &self.config.client_secret);
        let mut fields = fields.to_vec();
        fields.push(("client_id", id));
        let outgoing = HttpRequest::form(endpoint, self.config.reach, &fields);
        if secret.reveal().is_empty() {
            return outgoing;
        }
        outgoing.header(header::AUTHORIZATION, &basic_credentials(id, secret.reveal()))
    }

    async fn ask(&self, fields: &[(&str, &str)]) -> Result<Upstream, ProviderError> {
        let known = self.known()?;
        let answer = self.send(self.as_us(&known.token_endpoint, fields)).await?;
        let tokens: Tokens = serde_json::from_slice(judged(&answer)?).map_err(|_| {
            ProviderError::Wrong("the identity provider's tokens cannot be read".to_owned())
        })?;
        if !tokens.token_type.eq_ignore_ascii_case("bearer") || tokens.access_token.is_empty() {
            let message = "the identity provider gave a token that is none of the usual";
            return Err(ProviderError::Wrong(message.to_owned()));
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is within the range"
        )]
        let life = tokens
            .expires_in
            .filter(|life| (0.0..1e9).contains(life))
            .map_or(USUAL_LIFE, |life| life as u64);
        Ok(Upstream {
            access: tokens.access_token.into(),
            refresh: tokens.refresh_token.filter(|token| !token.is_empty()).map(Secret::new),
            id_token: tokens.id_token.filter(|token| !token.is_empty()).map(Secret::new),
            until: self.clock.now().saturating_add(life),
        })
    }
}
