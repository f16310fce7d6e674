//! Token requests to the provider.

use http::header;
use muster_net::HttpRequest;
use serde::{Deserialize, Serialize};

use super::{Provider, ProviderError, body};
use crate::{jwt::Jwt, oauth::basic_credentials, secret::Secret};

/// How many seconds a token must still be valid to be used.
const MARGIN: u64 = 30;

/// The lifetime in seconds that is assumed if the provider names none.
const DEFAULT_LIFETIME: u64 = 3600;

/// The provider's tokens of one login.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::server) struct ProviderTokens {
    pub(in crate::server) access: Secret,
    pub(in crate::server) refresh: Option<Secret>,
    pub(in crate::server) id_token: Option<Secret>,
    /// When the access token expires.
    #[serde(rename = "until")]
    pub(in crate::server) expires: u64,
}

impl ProviderTokens {
    /// Whether the access token does not expire soon.
    pub(in crate::server) const fn is_fresh(&self, now: u64) -> bool {
        self.expires > now + MARGIN
    }

    /// The ID token, if it does not expire soon.
    pub(in crate::server) fn fresh_id_token(&self, now: u64) -> Option<&str> {
        let token = self.id_token.as_ref()?.reveal().as_str();
        (Jwt::parse(token)?.unverified_claims().expires() > now + MARGIN).then_some(token)
    }
}

#[derive(Deserialize)]
struct TokenBody {
    access_token: String,
    token_type: String,
    refresh_token: Option<String>,
    id_token: Option<String>,
    expires_in: Option<f64>,
}

impl Provider {
    /// Redeems an authorization code.
    pub(in crate::server) async fn redeem(
        &self,
        code: &str,
        verifier: &str,
        callback: &str,
    ) -> Result<ProviderTokens, ProviderError> {
        self.request_tokens(&[
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", callback),
            ("code_verifier", verifier),
        ])
        .await
    }

    /// Refreshes tokens. Tokens that the response omits are kept.
    pub(in crate::server) async fn refresh(
        &self,
        old: &ProviderTokens,
    ) -> Result<ProviderTokens, ProviderError> {
        let Some(refresh) = &old.refresh else {
            return Err(ProviderError::Refused("invalid_grant".to_owned()));
        };
        let fields =
            [("grant_type", "refresh_token"), ("refresh_token", refresh.reveal().as_str())];
        let mut new = self.request_tokens(&fields).await?;
        new.refresh = new.refresh.or_else(|| old.refresh.clone());
        new.id_token = new.id_token.or_else(|| old.id_token.clone());
        Ok(new)
    }

    /// Revokes the tokens of a login (RFC 7009), if the provider supports it. Revoking the refresh token also
    /// revokes the access token.
    pub(in crate::server) async fn revoke(
        &self,
        old: &ProviderTokens,
    ) -> Result<(), ProviderError> {
        let metadata = self.metadata()?;
        let Some(endpoint) = metadata.revocation_endpoint.as_deref() else { return Ok(()) };
        let (token, hint) = match &old.refresh {
            Some(refresh) => (refresh, "refresh_token"),
            None => (&old.access, "access_token"),
        };
        let fields = [("token", token.reveal().as_str()), ("token_type_hint", hint)];
        let response = self.send(self.authenticated_form(endpoint, &fields)).await?;
        body(&response).map(drop)
    }

    /// A form request with the gateway's client credentials.
    fn authenticated_form(&self, endpoint: &str, fields: &[(&str, &str)]) -> HttpRequest {
        let (id, secret) = (self.config.client_id.as_str(), &self.config.client_secret);
        let mut fields = fields.to_vec();
        fields.push(("client_id", id));
        let request = HttpRequest::form(endpoint, self.config.policy, &fields);
        if secret.reveal().is_empty() {
            return request;
        }
        request.header(header::AUTHORIZATION, &basic_credentials(id, secret.reveal()))
    }

    async fn request_tokens(
        &self,
        fields: &[(&str, &str)],
    ) -> Result<ProviderTokens, ProviderError> {
        let metadata = self.metadata()?;
        let response = self.send(self.authenticated_form(&metadata.token_endpoint, fields)).await?;
        let tokens: TokenBody = serde_json::from_slice(body(&response)?).map_err(|_| {
            ProviderError::Invalid(
                "the identity provider's token response cannot be read".to_owned(),
            )
        })?;
        if !tokens.token_type.eq_ignore_ascii_case("bearer") || tokens.access_token.is_empty() {
            let message = "the identity provider returned no bearer token";
            return Err(ProviderError::Invalid(message.to_owned()));
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is within the range"
        )]
        let lifetime = tokens
            .expires_in
            .filter(|seconds| (0.0..1e9).contains(seconds))
            .map_or(DEFAULT_LIFETIME, |seconds| seconds as u64);
        Ok(ProviderTokens {
            access: tokens.access_token.into(),
            refresh: tokens.refresh_token.filter(|token| !token.is_empty()).map(Secret::new),
            id_token: tokens.id_token.filter(|token| !token.is_empty()).map(Secret::new),
            expires: self.clock.now().saturating_add(lifetime),
        })
    }
}
