//! The provider's tokens of a login, with single-flight refresh among all gateways.

use std::{
    fmt,
    sync::{Arc, Weak},
    time::Duration,
};

use muster_core::{
    backend::{BoxFuture, boxed},
    credentials::{BearerToken, IdTokenSource},
    logins::LoginError,
};
use tokio::time::Instant;

use super::{Login, last_login_key, login_key};
use crate::{
    jwt::Jwt,
    server::{
        Inner,
        provider::{ProviderError, ProviderTokens},
        responses::OAuthError,
    },
    store::StoreError,
};

/// How long a gateway may hold the lease to refresh.
const LEASE_TTL: Duration = Duration::from_secs(20);

/// How often a waiting gateway checks the lease.
const LEASE_POLL: Duration = Duration::from_millis(50);

/// Whether tokens need no refresh at a given time.
type IsFresh = fn(&ProviderTokens, u64) -> bool;

impl Inner {
    /// Refreshes the provider's tokens if they expire soon. Ends the login if the provider refuses.
    pub(super) async fn refresh_provider_tokens(
        self: &Arc<Self>,
        login: Login,
    ) -> Result<Login, OAuthError> {
        let tokens = &login.provider_tokens;
        if tokens.refresh.is_none() || tokens.is_fresh(self.clock.now()) {
            return Ok(login);
        }
        let id = login.id.clone();
        match self.refresh_stale_tokens(login, |tokens, now| tokens.is_fresh(now)).await {
            Ok(login) => Ok(login),
            Err(ProviderError::Refused(code)) => {
                tracing::info!("a login is ended because the identity provider refused it: {code}");
                self.end_login(&id).await?;
                Err(OAuthError::grant("the identity provider ended the login; log in again"))
            }
            Err(err @ (ProviderError::Unavailable(_) | ProviderError::Invalid(_))) => {
                tracing::warn!("cannot refresh a login: {err}");
                Err(OAuthError::unavailable("the identity provider is not available"))
            }
        }
    }

    /// Refreshes the provider's tokens as single flight, unless another caller has done so. Runs in a spawned task,
    /// because the caller may be cancelled: the tokens that replace a used refresh token must be stored.
    async fn refresh_stale_tokens(
        self: &Arc<Self>,
        login: Login,
        is_fresh: IsFresh,
    ) -> Result<Login, ProviderError> {
        let this = Arc::clone(self);
        let refreshing =
            self.tasks.spawn(boxed(async move { this.refresh_with_lease(login, is_fresh).await }));
        let ended = |_| Err(ProviderError::Unavailable("the gateway is shutting down".to_owned()));
        refreshing.await.unwrap_or_else(ended)
    }

    async fn refresh_with_lease(
        &self,
        login: Login,
        is_fresh: IsFresh,
    ) -> Result<Login, ProviderError> {
        let unavailable = |err: StoreError| ProviderError::Unavailable(err.to_string());
        let _refreshing = self.locks.lock(&login.id).await;
        let lease = format!("turn:{}", login.id);
        let deadline = Instant::now() + LEASE_TTL;
        loop {
            let login =
                self.login(&login.id).await.map_err(unavailable)?.ok_or_else(login_ended)?;
            if is_fresh(&login.provider_tokens, self.clock.now()) {
                return Ok(login);
            }
            if !self.vault.is_shared() {
                return self.refresh_now(login).await;
            }
            if self.vault.claim(&lease, &true, LEASE_TTL).await.map_err(unavailable)? {
                let refreshed = self.refresh_now(login).await;
                self.vault.remove(&lease).await.map_err(unavailable)?;
                return refreshed;
            }
            if Instant::now() >= deadline {
                let message = "another gateway has been refreshing the login for too long";
                return Err(ProviderError::Unavailable(message.to_owned()));
            }
            tokio::time::sleep(LEASE_POLL).await;
        }
    }

    async fn refresh_now(&self, mut login: Login) -> Result<Login, ProviderError> {
        let tokens = self.provider.refresh(&login.provider_tokens).await?;
        if let Some(token) = &tokens.id_token
            && Jwt::parse(token.reveal())
                .is_some_and(|token| token.unverified_claims().sub != login.subject)
        {
            let message = "the identity provider returned tokens of another user";
            return Err(ProviderError::Invalid(message.to_owned()));
        }
        login.provider_tokens = tokens;
        let remaining = self.remaining(&login);
        // Only replace an existing record: a user who has logged out meanwhile stays logged out.
        let saved = self.vault.replace(&login_key(&login.id), &login, remaining).await;
        if saved.map_err(|err| ProviderError::Unavailable(err.to_string()))? {
            return Ok(login);
        }
        if let Err(err) = self.provider.revoke(&login.provider_tokens).await {
            tracing::warn!("cannot revoke the tokens of a login at the identity provider: {err}");
        }
        Err(login_ended())
    }
}

fn login_ended() -> ProviderError {
    ProviderError::Refused("invalid_grant".to_owned())
}

/// The source of the ID tokens of a login. It holds a weak reference to `Inner`, whose token cache holds the source.
pub(in crate::server) struct LoginIdTokens {
    inner: Weak<Inner>,
    login: LoginRef,
}

/// A reference to a login.
enum LoginRef {
    /// The login with this id.
    Id(String),
    /// The last login of this principal, if there is one.
    LastOf(Arc<str>),
}

impl fmt::Debug for LoginIdTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LoginIdTokens")
    }
}

impl LoginIdTokens {
    pub(in crate::server) fn of_login(inner: &Arc<Inner>, login: String) -> Self {
        Self { inner: Arc::downgrade(inner), login: LoginRef::Id(login) }
    }

    pub(in crate::server) fn of_last_login(inner: &Arc<Inner>, principal: Arc<str>) -> Self {
        Self { inner: Arc::downgrade(inner), login: LoginRef::LastOf(principal) }
    }
}

impl IdTokenSource for LoginIdTokens {
    fn id_token(&self) -> BoxFuture<'_, Result<Option<BearerToken>, LoginError>> {
        Box::pin(async move {
            let unavailable = |reason: &str| LoginError::Unavailable(reason.to_owned());
            let inner =
                self.inner.upgrade().ok_or_else(|| unavailable("the gateway is shutting down"))?;
            let store_error = |err: StoreError| LoginError::Unavailable(err.to_string());
            let id = match &self.login {
                LoginRef::Id(id) => Some(id.clone()),
                LoginRef::LastOf(id) => {
                    inner.vault.get(&last_login_key(id)).await.map_err(store_error)?
                }
            };
            let Some(id) = id else { return Ok(None) };
            let Some(mut login) = inner.login(&id).await.map_err(store_error)? else {
                return Ok(None);
            };
            let tokens = &login.provider_tokens;
            if tokens.fresh_id_token(inner.clock.now()).is_none() && tokens.refresh.is_some() {
                let is_fresh: IsFresh = |tokens, now| tokens.fresh_id_token(now).is_some();
                match inner.refresh_stale_tokens(login, is_fresh).await {
                    Ok(refreshed) => login = refreshed,
                    Err(err @ ProviderError::Unavailable(_)) => {
                        tracing::warn!("cannot refresh an ID token: {err}");
                        return Err(unavailable("the identity provider is not available"));
                    }
                    Err(err @ (ProviderError::Refused(_) | ProviderError::Invalid(_))) => {
                        tracing::warn!("cannot refresh an ID token: {err}");
                        return Ok(None);
                    }
                }
            }
            Ok(login.provider_tokens.fresh_id_token(inner.clock.now()).map(BearerToken::new))
        })
    }
}
