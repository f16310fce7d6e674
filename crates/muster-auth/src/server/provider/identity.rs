//! Who someone is, by the provider's word.

use muster_net::HttpRequest;
use serde::Deserialize;

use super::{Provider, ProviderError, Upstream, judged};
use crate::{
    jwks::KeysError,
    jwt::{Claims, Expected, Jwt},
    server::config::Kind,
};

/// Where Google tells for whom a token is.
const GOOGLE_TOKENINFO: &str = "https://oauth2.googleapis.com/tokeninfo";

/// Who someone is.
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
    name: Option<String>,
    groups: Option<Vec<String>>,
}

impl From<Claims> for Identity {
    fn from(claims: Claims) -> Self {
        Self {
            subject: claims.sub,
            email: claims.email,
            name: claims.name,
            groups: claims.groups.unwrap_or_default(),
        }
    }
}

impl Provider {
    /// Who has just logged in. A signed ID token says it; without one, or to add what it leaves out,
    /// the provider is asked.
    pub(in crate::server) async fn identify(
        &self,
        tokens: &Upstream,
        nonce: &str,
    ) -> Result<Identity, ProviderError> {
        let token = tokens.id_token.as_ref().map(|token| token.reveal().as_str());
        let read = match token {
            None => return self.user_info(tokens.access.reveal()).await,
            Some(token) => Jwt::read(token).ok_or_else(|| untrusted("it is not a signed token"))?,
        };
        if read.is_unsigned() {
            // It came from the provider itself, but proves nothing by itself.
            let subject = read.claimed().sub.clone();
            let found = self.user_info(tokens.access.reveal()).await?;
            return if found.subject == subject {
                Ok(found)
            } else {
                Err(untrusted("it is about someone else"))
            };
        }
        let audiences = [self.config.client_id.clone()];
        let claims = self.claims(token.unwrap_or_default(), &audiences, Some(nonce)).await?;
        let complete = claims.email.is_some();
        let mut identity = Identity::from(claims);
        if !complete && let Ok(more) = self.user_info(tokens.access.reveal()).await {
            if more.subject != identity.subject {
                return Err(untrusted("the provider says it is about someone else"));
            }
            identity.email = more.email;
            identity.name = identity.name.or(more.name);
            if identity.groups.is_empty() {
                identity.groups = more.groups;
            }
        }
        Ok(identity)
    }

    /// What a token of the provider says, if it is for one of these.
    pub(in crate::server) async fn claims(
        &self,
        token: &str,
        audiences: &[String],
        nonce: Option<&str>,
    ) -> Result<Claims, ProviderError> {
        let known = self.known()?;
        let Some(keys) = &known.keys else {
            return Err(untrusted("the provider publishes no keys"));
        };
        let now = self.clock.now();
        let expected = Expected { issuer: &self.config.issuer, audiences, nonce, now };
        keys.verify(token, &expected).await.map_err(|err| match err {
            KeysError::Token(reason) => untrusted(&reason.to_string()),
            KeysError::Dial(_) | KeysError::Document => ProviderError::Away(err.to_string()),
        })
    }

    /// Whom an access token belongs to, by the provider's own word.
    pub(in crate::server) async fn user_info(
        &self,
        token: &str,
    ) -> Result<Identity, ProviderError> {
        let known = self.known()?;
        let Some(url) = known.userinfo_endpoint.as_deref() else {
            return Err(ProviderError::Refused("invalid_token".to_owned()));
        };
        if self.config.kind == Kind::Google {
            self.is_for_us(token).await?;
        }
        let answer = self.send(HttpRequest::get(url, self.config.reach).bearer(token)).await?;
        let found: UserInfo = serde_json::from_slice(judged(&answer)?).map_err(|_| {
            ProviderError::Wrong("the identity provider's word on a user cannot be read".to_owned())
        })?;
        if found.sub.is_empty() {
            return Err(untrusted("it names no subject"));
        }
        Ok(Identity {
            subject: found.sub,
            email: found.email,
            name: found.name,
            groups: found.groups.unwrap_or_default(),
        })
    }

    /// Google tells everybody's tokens apart only here: any other application's would do otherwise.
    async fn is_for_us(&self, token: &str) -> Result<(), ProviderError> {
        #[derive(Deserialize)]
        struct TokenInfo {
            aud: String,
        }
        let outgoing =
            HttpRequest::form(GOOGLE_TOKENINFO, self.config.reach, &[("access_token", token)]);
        let answer = self.send(outgoing).await?;
        let info: TokenInfo = serde_json::from_slice(judged(&answer)?).map_err(|_| {
            ProviderError::Wrong("Google's word on a token cannot be read".to_owned())
        })?;
        if info.aud == self.config.client_id {
            return Ok(());
        }
        Err(ProviderError::Refused("invalid_token".to_owned()))
    }
}

fn untrusted(reason: &str) -> ProviderError {
    ProviderError::Wrong(format!("the identity provider's token is not taken: {reason}"))
}
