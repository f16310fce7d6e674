//! The identity of a user, as the provider reports it.

use muster_net::HttpRequest;
use serde::Deserialize;
use serde_json::Value;

use super::{Provider, ProviderError, ProviderTokens, body};
use crate::{
    jwks::JwksError,
    jwt::{Claims, ExpectedClaims, Jwt},
    server::config::ProviderKind,
};

/// Google's endpoint for the audience of an access token.
const GOOGLE_TOKENINFO: &str = "https://oauth2.googleapis.com/tokeninfo";

/// The identity of a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::server) struct Identity {
    pub(in crate::server) subject: String,
    pub(in crate::server) email: Option<String>,
    pub(in crate::server) name: Option<String>,
    pub(in crate::server) groups: Vec<String>,
}

#[derive(Deserialize)]
struct UserInfo {
    sub: String,
    email: Option<String>,
    email_verified: Option<Value>,
    name: Option<String>,
    groups: Option<Vec<String>>,
}

/// The email address, unless the provider reports it as unverified: anybody could have entered it.
fn verified(email: Option<String>, is_verified: Option<&Value>) -> Option<String> {
    let is_unverified =
        |said: &Value| *said == Value::Bool(false) || said.as_str() == Some("false");
    email.filter(|_| !is_verified.is_some_and(is_unverified))
}

impl From<Claims> for Identity {
    fn from(claims: Claims) -> Self {
        Self {
            subject: claims.sub,
            email: verified(claims.email, claims.email_verified.as_ref()),
            name: claims.name,
            groups: claims.groups.unwrap_or_default(),
        }
    }
}

impl Provider {
    /// Determines the identity of a user who has just logged in: from the ID token if it is signed, completed by
    /// the user info endpoint.
    pub(in crate::server) async fn identify(
        &self,
        tokens: &ProviderTokens,
        nonce: &str,
    ) -> Result<Identity, ProviderError> {
        let token = tokens.id_token.as_ref().map(|token| token.reveal().as_str());
        let jwt = match token {
            None => return self.user_info(tokens.access.reveal()).await,
            Some(token) => {
                Jwt::parse(token).ok_or_else(|| untrusted("it is not a signed token"))?
            }
        };
        if jwt.is_unsigned() {
            // Without a signature, only the user info endpoint proves the identity.
            let subject = jwt.unverified_claims().sub.clone();
            let found = self.user_info(tokens.access.reveal()).await?;
            return if found.subject == subject {
                Ok(found)
            } else {
                Err(untrusted("it is about another user"))
            };
        }
        let audiences = [self.config.client_id.clone()];
        let claims = self.claims(token.unwrap_or_default(), &audiences, Some(nonce)).await?;
        let is_complete = claims.email.is_some();
        let mut identity = Identity::from(claims);
        if !is_complete && let Ok(more) = self.user_info(tokens.access.reveal()).await {
            if more.subject != identity.subject {
                return Err(untrusted("the user info is about another user"));
            }
            identity.email = more.email;
            identity.name = identity.name.or(more.name);
            if identity.groups.is_empty() {
                identity.groups = more.groups;
            }
        }
        Ok(identity)
    }

    /// Verifies a token of the provider that must be for one of these audiences, and returns its claims.
    pub(in crate::server) async fn claims(
        &self,
        token: &str,
        audiences: &[String],
        nonce: Option<&str>,
    ) -> Result<Claims, ProviderError> {
        let metadata = self.metadata()?;
        let Some(keys) = &metadata.keys else {
            return Err(untrusted("the provider publishes no keys"));
        };
        let now = self.clock.now();
        let expected = ExpectedClaims { issuer: &self.config.issuer, audiences, nonce, now };
        keys.verify(token, &expected).await.map_err(|err| match err {
            JwksError::Token(reason) => untrusted(&reason.to_string()),
            JwksError::Fetch(_) | JwksError::Malformed | JwksError::BackingOff => {
                ProviderError::Unavailable(err.to_string())
            }
        })
    }

    /// Looks up the user of an access token at the user info endpoint.
    pub(in crate::server) async fn user_info(
        &self,
        token: &str,
    ) -> Result<Identity, ProviderError> {
        let metadata = self.metadata()?;
        let Some(url) = metadata.userinfo_endpoint.as_deref() else {
            return Err(ProviderError::Refused("invalid_token".to_owned()));
        };
        if self.config.kind == ProviderKind::Google {
            self.check_google_audience(token).await?;
        }
        let response = self.send(HttpRequest::get(url, self.config.policy).bearer(token)).await?;
        let found: UserInfo = serde_json::from_slice(body(&response)?).map_err(|_| {
            ProviderError::Invalid("the identity provider's user info cannot be read".to_owned())
        })?;
        if found.sub.is_empty() {
            return Err(untrusted("it has no subject"));
        }
        Ok(Identity {
            subject: found.sub,
            email: verified(found.email, found.email_verified.as_ref()),
            name: found.name,
            groups: found.groups.unwrap_or_default(),
        })
    }

    /// Checks that a Google access token was issued to this client, because Google's user info endpoint accepts
    /// tokens of any application.
    async fn check_google_audience(&self, token: &str) -> Result<(), ProviderError> {
        #[derive(Deserialize)]
        struct TokenInfo {
            aud: String,
        }
        let request =
            HttpRequest::form(GOOGLE_TOKENINFO, self.config.policy, &[("access_token", token)]);
        let response = self.send(request).await?;
        let info: TokenInfo = serde_json::from_slice(body(&response)?)
            .map_err(|_| ProviderError::Invalid("Google's token info cannot be read".to_owned()))?;
        if info.aud == self.config.client_id {
            return Ok(());
        }
        Err(ProviderError::Refused("invalid_token".to_owned()))
    }
}

fn untrusted(reason: &str) -> ProviderError {
    ProviderError::Invalid(format!("the identity provider's token is not valid: {reason}"))
}
