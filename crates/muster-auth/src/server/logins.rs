//! Logins and their tokens.
//!
//! A login is one user in one browser. Access tokens are short-lived, and refresh tokens can be used only once: if
//! one is used twice, the login ends, because one of the two users is an attacker. Tokens are stored under their
//! digests, so that the storage reveals none.

mod provider_tokens;

use std::{sync::Arc, time::Duration};

use muster_core::credentials::Principal;
use serde::{Deserialize, Serialize};

use super::{
    Inner,
    provider::{Identity, ProviderTokens},
    responses::OAuthError,
};
use crate::{access::recent_logins::login_session_id, random, store::StoreError};

pub(super) use self::provider_tokens::LoginIdTokens;

/// The lifetime of an access token.
pub(super) const ACCESS_TOKEN_TTL: Duration = Duration::from_secs(30 * 60);

/// A user's login.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Login {
    pub(super) id: String,
    pub(super) subject: String,
    pub(super) email: Option<String>,
    pub(super) name: Option<String>,
    pub(super) groups: Vec<String>,
    /// The tokens that the provider issued for it.
    #[serde(rename = "upstream")]
    pub(super) provider_tokens: ProviderTokens,
    /// When it began.
    pub(super) since: u64,
}

/// The record of an access or refresh token.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct TokenRecord {
    pub(super) login: String,
    pub(super) client: String,
    pub(super) scope: Option<String>,
    #[serde(rename = "until")]
    pub(super) expires: u64,
}

/// A token response.
#[derive(Debug, Serialize)]
pub(super) struct IssuedTokens {
    access_token: String,
    token_type: &'static str,
    expires_in: u64,
    refresh_token: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<String>,
}

pub(super) fn login_key(id: &str) -> String {
    format!("login:{id}")
}

pub(super) fn access_key(token: &str) -> String {
    format!("access:{}", random::digest_of(token))
}

pub(super) fn refresh_key(token: &str) -> String {
    format!("refresh:{}", random::digest_of(token))
}

fn spent_key(token: &str) -> String {
    format!("spent:{}", random::digest_of(token))
}

/// The key of a user's last login.
pub(super) fn last_login_key(principal: &str) -> String {
    format!("last:{}", random::digest_of(principal))
}

/// The storage key by which any replica finds the login of a session id.
fn session_key(session: &str) -> String {
    format!("session:{session}")
}

impl Inner {
    /// Creates a login.
    pub(super) async fn create_login(
        &self,
        identity: Identity,
        provider_tokens: ProviderTokens,
    ) -> Result<Login, OAuthError> {
        let login = Login {
            id: random::token()?,
            subject: identity.subject,
            email: identity.email,
            name: identity.name,
            groups: identity.groups,
            provider_tokens,
            since: self.clock.now(),
        };
        self.save(&login).await?;
        let principal = Principal::id_of(&self.provider.config.issuer, &login.subject);
        self.vault
            .put(&last_login_key(&principal), &login.id, self.config.session_duration)
            .await?;
        let session = session_key(&login_session_id(&login.id));
        self.vault.put(&session, &login.id, self.config.session_duration).await?;
        Ok(login)
    }

    /// Stores a login until it expires.
    async fn save(&self, login: &Login) -> Result<(), StoreError> {
        self.vault.put(&login_key(&login.id), login, self.remaining(login)).await
    }

    /// The remaining lifetime of a login.
    fn remaining(&self, login: &Login) -> Duration {
        let elapsed = Duration::from_secs(self.clock.now().saturating_sub(login.since));
        self.config.session_duration.saturating_sub(elapsed)
    }

    pub(super) async fn login(&self, id: &str) -> Result<Option<Login>, StoreError> {
        let login: Option<Login> = self.vault.get(&login_key(id)).await?;
        Ok(login.filter(|login| !self.remaining(login).is_zero()))
    }

    /// The login behind the id of a session.
    pub(super) async fn login_of_session(
        &self,
        session: &str,
    ) -> Result<Option<String>, StoreError> {
        self.vault.get(&session_key(session)).await
    }

    /// Ends a login, which invalidates all its tokens.
    pub(super) async fn end_login(&self, id: &str) -> Result<(), StoreError> {
        self.vault.remove(&login_key(id)).await?;
        // Evict after the removal: otherwise a validation in between would cache the token again.
        self.tokens.evict_login(id);
        // Best effort: the entry expires by itself, and its login is gone.
        drop(self.vault.remove(&session_key(&login_session_id(id))).await);
        Ok(())
    }

    /// Ends a login at the user's request, and revokes its tokens at the provider.
    pub(super) async fn log_out(&self, id: &str) -> Result<(), StoreError> {
        let login = self.login(id).await?;
        self.end_login(id).await?;
        if let Some(login) = login
            && let Err(err) = self.provider.revoke(&login.provider_tokens).await
        {
            tracing::warn!("cannot revoke the tokens of a login at the identity provider: {err}");
        }
        Ok(())
    }

    /// The principal of a login, with a token that was issued to `client`.
    pub(super) fn principal(self: &Arc<Self>, login: &Login, client: &str) -> Principal {
        let issuer = self.provider.config.issuer.as_str();
        Principal {
            id: Principal::id_of(issuer, &login.subject),
            issuer: issuer.into(),
            subject: login.subject.as_str().into(),
            email: login.email.as_deref().map(Into::into),
            name: login.name.as_deref().map(Into::into),
            groups: login.groups.clone().into(),
            login: login.id.as_str().into(),
            identity: Some(Arc::new(LoginIdTokens::of_login(self, login.id.clone()))),
            client: Some(client.into()),
        }
    }

    /// Issues tokens of a login to a client.
    pub(super) async fn issue(
        &self,
        login: &Login,
        client: &str,
        scope: Option<String>,
    ) -> Result<IssuedTokens, OAuthError> {
        let remaining = self.remaining(login);
        let ttl = ACCESS_TOKEN_TTL.min(remaining);
        let (access, refresh) = (random::token()?, random::token()?);
        let now = self.clock.now();
        let record = |ttl: Duration| TokenRecord {
            login: login.id.clone(),
            client: client.to_owned(),
            scope: scope.clone(),
            expires: now.saturating_add(ttl.as_secs()),
        };
        self.vault.put(&access_key(&access), &record(ttl), ttl).await?;
        self.vault.put(&refresh_key(&refresh), &record(remaining), remaining).await?;
        Ok(IssuedTokens {
            access_token: access,
            token_type: "Bearer",
            expires_in: ttl.as_secs(),
            refresh_token: refresh,
            scope,
        })
    }

    /// Issues new tokens for a refresh token. The provider's tokens are refreshed first: if the provider is
    /// unavailable, the refresh token stays valid, and if it refuses the user, the login ends here too.
    pub(super) async fn refresh(
        self: &Arc<Self>,
        refresh: &str,
        client: &str,
        scope: Option<&str>,
    ) -> Result<IssuedTokens, OAuthError> {
        let invalid = || OAuthError::grant("the refresh token is not valid");
        let record: TokenRecord =
            self.vault.get(&refresh_key(refresh)).await?.ok_or_else(invalid)?;
        if record.client != client {
            return Err(invalid());
        }
        if let (Some(requested), Some(granted)) = (scope, &record.scope)
            && !requested.split(' ').all(|one| granted.split(' ').any(|granted| granted == one))
        {
            let message = "the scope exceeds the granted one";
            return Err(OAuthError { code: "invalid_scope", ..OAuthError::request(message) });
        }
        if self.vault.get::<bool>(&spent_key(refresh)).await?.is_some() {
            return self.end_reused(&record).await;
        }
        let login = self.login(&record.login).await?.ok_or_else(invalid)?;
        let login = self.refresh_provider_tokens(login).await?;
        // Issue the new tokens before spending the old one: if the gateway crashes in between, the old one stays valid.
        let remaining = self.remaining(&login);
        let issued = self.issue(&login, client, record.scope.clone()).await?;
        if !self.vault.claim(&spent_key(refresh), &true, remaining).await? {
            return self.end_reused(&record).await;
        }
        Ok(issued)
    }

    async fn end_reused(&self, record: &TokenRecord) -> Result<IssuedTokens, OAuthError> {
        tracing::warn!("a refresh token was used twice, its login is ended");
        self.end_login(&record.login).await?;
        Err(OAuthError::grant("the refresh token was already used; log in again"))
    }
}
