//! Logins and the tokens that came of them.
//!
//! A login is what one person did in one browser. Access tokens are short, refresh tokens are good for one
//! use; whoever uses one twice ends the login, because one of the two is a thief. Tokens are kept by their
//! digests: who reads the store cannot use what it finds.

mod upstream;

use std::{sync::Arc, time::Duration};

use muster_core::credentials::Principal;
use serde::{Deserialize, Serialize};

use super::{
    Inner,
    provider::{Identity, Upstream},
    reply::Failure,
};
use crate::{random, store::StoreError};

pub(super) use self::upstream::LoginTokens;

/// How long an access token is good.
pub(super) const ACCESS_LIFE: Duration = Duration::from_secs(30 * 60);

/// A login.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Login {
    pub(super) id: String,
    pub(super) subject: String,
    pub(super) email: Option<String>,
    pub(super) name: Option<String>,
    pub(super) groups: Vec<String>,
    pub(super) upstream: Upstream,
    /// When it began.
    pub(super) since: u64,
}

/// What an access or a refresh token stands for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Token {
    pub(super) login: String,
    pub(super) client: String,
    pub(super) scope: Option<String>,
    pub(super) until: u64,
}

/// What a client gets.
#[derive(Debug, Serialize)]
pub(super) struct Issued {
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

/// The last login of somebody.
pub(super) fn last_key(principal: &str) -> String {
    format!("last:{}", random::digest_of(principal))
}

impl Inner {
    /// Begins a login.
    pub(super) async fn begin(
        &self,
        identity: Identity,
        upstream: Upstream,
    ) -> Result<Login, Failure> {
        let login = Login {
            id: random::token()?,
            subject: identity.subject,
            email: identity.email,
            name: identity.name,
            groups: identity.groups,
            upstream,
            since: self.clock.now(),
        };
        self.save(&login).await?;
        let principal = Principal::id_of(&self.provider.config.issuer, &login.subject);
        self.vault.put(&last_key(&principal), &login.id, self.config.session).await?;
        Ok(login)
    }

    /// Keeps a login until it ends.
    async fn save(&self, login: &Login) -> Result<(), StoreError> {
        self.vault.put(&login_key(&login.id), login, self.left(login)).await
    }

    /// How long a login still lasts.
    fn left(&self, login: &Login) -> Duration {
        let gone = Duration::from_secs(self.clock.now().saturating_sub(login.since));
        self.config.session.saturating_sub(gone)
    }

    pub(super) async fn login(&self, id: &str) -> Result<Option<Login>, StoreError> {
        let login: Option<Login> = self.vault.get(&login_key(id)).await?;
        Ok(login.filter(|login| !self.left(login).is_zero()))
    }

    /// Ends a login: none of its tokens is good any more.
    pub(super) async fn end(&self, id: &str) -> Result<(), StoreError> {
        self.vault.remove(&login_key(id)).await?;
        // Only now: what is judged in between would be remembered.
        self.cache.forget(id);
        Ok(())
    }

    /// Ends a login that its owner has had enough of; the provider is told, if it can be.
    pub(super) async fn log_out(&self, id: &str) -> Result<(), StoreError> {
        let login = self.login(id).await?;
        self.end(id).await?;
        if let Some(login) = login
            && let Err(err) = self.provider.give_back(&login.upstream).await
        {
            tracing::warn!("the identity provider was not told of a logout: {err}");
        }
        Ok(())
    }

    /// Who a login belongs to.
    pub(super) fn principal(self: &Arc<Self>, login: &Login) -> Principal {
        let issuer = self.provider.config.issuer.as_str();
        Principal {
            id: Principal::id_of(issuer, &login.subject),
            issuer: issuer.into(),
            subject: login.subject.as_str().into(),
            email: login.email.as_deref().map(Into::into),
            name: login.name.as_deref().map(Into::into),
            groups: login.groups.clone().into(),
            login: login.id.as_str().into(),
            identity: Some(Arc::new(LoginTokens::of_login(self, login.id.clone()))),
        }
    }

    /// New tokens of a login, for a client.
    pub(super) async fn issue(
        &self,
        login: &Login,
        client: &str,
        scope: Option<String>,
    ) -> Result<Issued, Failure> {
        let left = self.left(login);
        let life = ACCESS_LIFE.min(left);
        let (access, refresh) = (random::token()?, random::token()?);
        let now = self.clock.now();
        let token = |life: Duration| Token {
            login: login.id.clone(),
            client: client.to_owned(),
            scope: scope.clone(),
            until: now.saturating_add(life.as_secs()),
        };
        self.vault.put(&access_key(&access), &token(life), life).await?;
        self.vault.put(&refresh_key(&refresh), &token(left), left).await?;
        Ok(Issued {
            access_token: access,
            token_type: "Bearer",
            expires_in: life.as_secs(),
            refresh_token: refresh,
            scope,
        })
    }

    /// New tokens for a refresh token. The provider is asked first: while it is away nothing is spent,
    /// and who is no longer welcome there is no longer welcome here.
    pub(super) async fn rotate(
        self: &Arc<Self>,
        refresh: &str,
        client: &str,
        scope: Option<&str>,
    ) -> Result<Issued, Failure> {
        let unknown = || Failure::grant("the refresh token is not valid");
        let token: Token = self.vault.get(&refresh_key(refresh)).await?.ok_or_else(unknown)?;
        if token.client != client {
            return Err(unknown());
        }
        if let (Some(asked), Some(granted)) = (scope, &token.scope)
            && !asked.split(' ').all(|one| granted.split(' ').any(|granted| granted == one))
        {
            let message = "more is asked for than was granted";
            return Err(Failure { code: "invalid_scope", ..Failure::request(message) });
        }
        if self.vault.get::<bool>(&spent_key(refresh)).await?.is_some() {
            return self.stolen(&token).await;
        }
        let login = self.login(&token.login).await?.ok_or_else(unknown)?;
        let login = self.welcome_still(login).await?;
        // First the new, then the old: a gateway that ends in between leaves the old one good.
        let left = self.left(&login);
        let issued = self.issue(&login, client, token.scope.clone()).await?;
        if !self.vault.claim(&spent_key(refresh), &true, left).await? {
            return self.stolen(&token).await;
        }
        Ok(issued)
    }

    async fn stolen(&self, token: &Token) -> Result<Issued, Failure> {
        tracing::warn!("a refresh token was used twice, and its login is ended");
        self.end(&token.login).await?;
        Err(Failure::grant("the refresh token was used before; log in again"))
    }
}
