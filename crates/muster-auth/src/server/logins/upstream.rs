//! The provider's tokens of a login, renewed by one at a time among all gateways.

use std::{
    fmt,
    sync::{Arc, Weak},
    time::Duration,
};

use muster_core::{
    backend::BoxFuture,
    credentials::{BearerToken, IdTokenSource},
    logins::LoginError,
};
use tokio::time::Instant;

use super::{Login, last_key, login_key};
use crate::{
    jwt::Jwt,
    server::{
        Inner,
        provider::{ProviderError, Upstream},
        reply::Failure,
    },
    store::StoreError,
};

/// How long one gateway may take to renew before another may try.
const TURN: Duration = Duration::from_secs(20);

/// How often those who wait look whether it is done.
const LOOK: Duration = Duration::from_millis(50);

/// Whether tokens need not be renewed.
type Good = fn(&Upstream, u64) -> bool;

impl Inner {
    /// A login whose owner the provider still knows.
    pub(super) async fn welcome_still(self: &Arc<Self>, login: Login) -> Result<Login, Failure> {
        if login.upstream.refresh.is_none() || login.upstream.is_fresh(self.clock.now()) {
            return Ok(login);
        }
        let id = login.id.clone();
        match self.renew(login, |upstream, now| upstream.is_fresh(now)).await {
            Ok(login) => Ok(login),
            Err(ProviderError::Refused(code)) => {
                tracing::info!("a login is ended, the identity provider refused it: {code}");
                self.end(&id).await?;
                Err(Failure::grant("the identity provider ended the login; log in again"))
            }
            Err(err @ (ProviderError::Away(_) | ProviderError::Wrong(_))) => {
                tracing::warn!("a login cannot be renewed: {err}");
                Err(Failure::later("the identity provider is not available"))
            }
        }
    }

    /// Renews the provider's tokens unless they are good enough by then. Whoever asks may leave at any
    /// moment; what the provider gives for the old token must not be lost by that.
    async fn renew(self: &Arc<Self>, login: Login, good: Good) -> Result<Login, ProviderError> {
        let this = Arc::clone(self);
        let renewing = self.tasks.spawn(async move { this.renew_once(login, good).await });
        let ended = |_| Err(ProviderError::Away("the gateway is shutting down".to_owned()));
        renewing.await.unwrap_or_else(ended)
    }

    async fn renew_once(&self, login: Login, good: Good) -> Result<Login, ProviderError> {
        let away = |err: StoreError| ProviderError::Away(err.to_string());
        let _refreshing = self.locks.lock(&login.id).await;
        let name = format!("turn:{}", login.id);
        let patience = Instant::now() + TURN;
        loop {
            let login = self.login(&login.id).await.map_err(away)?.ok_or_else(gone)?;
            if good(&login.upstream, self.clock.now()) {
                return Ok(login);
            }
            if !self.vault.is_shared() {
                return self.renew_now(login).await;
            }
            if self.vault.claim(&name, &true, TURN).await.map_err(away)? {
                let renewed = self.renew_now(login).await;
                self.vault.remove(&name).await.map_err(away)?;
                return renewed;
            }
            if Instant::now() >= patience {
                let message = "another gateway has been renewing the login for too long";
                return Err(ProviderError::Away(message.to_owned()));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn renew_now(&self, mut login: Login) -> Result<Login, ProviderError> {
        let upstream = self.provider.renew(&login.upstream).await?;
        if let Some(token) = &upstream.id_token
            && Jwt::read(token.reveal()).is_some_and(|token| token.claimed().sub != login.subject)
        {
            let message = "the identity provider renewed the login of someone else";
            return Err(ProviderError::Wrong(message.to_owned()));
        }
        login.upstream = upstream;
        let left = self.left(&login);
        // Only if it is still there: who has logged out meanwhile stays out.
        let saved = self.vault.replace(&login_key(&login.id), &login, left).await;
        if saved.map_err(|err| ProviderError::Away(err.to_string()))? {
            return Ok(login);
        }
        if let Err(err) = self.provider.give_back(&login.upstream).await {
            tracing::warn!("the identity provider was not told of a logout: {err}");
        }
        Err(gone())
    }
}

/// There is no such login any more.
fn gone() -> ProviderError {
    ProviderError::Refused("invalid_grant".to_owned())
}

/// The ID tokens of one login. What remembers them must not be kept alive by them.
pub(in crate::server) struct LoginTokens {
    inner: Weak<Inner>,
    whose: Whose,
}

/// Which login it is.
enum Whose {
    /// This one.
    Login(String),
    /// The last one of somebody, if there is one by then.
    Person(Arc<str>),
}

impl fmt::Debug for LoginTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LoginTokens")
    }
}

impl LoginTokens {
    pub(in crate::server) fn of_login(inner: &Arc<Inner>, login: String) -> Self {
        Self { inner: Arc::downgrade(inner), whose: Whose::Login(login) }
    }

    pub(in crate::server) fn of_person(inner: &Arc<Inner>, principal: Arc<str>) -> Self {
        Self { inner: Arc::downgrade(inner), whose: Whose::Person(principal) }
    }
}

impl IdTokenSource for LoginTokens {
    fn id_token(&self) -> BoxFuture<'_, Result<Option<BearerToken>, LoginError>> {
        Box::pin(async move {
            let away = |what: &str| LoginError::Unavailable(what.to_owned());
            let inner = self.inner.upgrade().ok_or_else(|| away("the gateway is shutting down"))?;
            let stored = |err: StoreError| LoginError::Unavailable(err.to_string());
            let id = match &self.whose {
                Whose::Login(id) => Some(id.clone()),
                Whose::Person(id) => inner.vault.get(&last_key(id)).await.map_err(stored)?,
            };
            let Some(id) = id else { return Ok(None) };
            let Some(mut login) = inner.login(&id).await.map_err(stored)? else { return Ok(None) };
            if login.upstream.fresh_id_token(inner.clock.now()).is_none()
                && login.upstream.refresh.is_some()
            {
                let good: Good = |upstream, now| upstream.fresh_id_token(now).is_some();
                match inner.renew(login, good).await {
                    Ok(renewed) => login = renewed,
                    Err(err @ ProviderError::Away(_)) => {
                        tracing::warn!("no ID token can be had: {err}");
                        return Err(away("the identity provider is not available"));
                    }
                    Err(err @ (ProviderError::Refused(_) | ProviderError::Wrong(_))) => {
                        tracing::warn!("no ID token can be had: {err}");
                        return Ok(None);
                    }
                }
            }
            Ok(login.upstream.fresh_id_token(inner.clock.now()).map(BearerToken::new))
        })
    }
}
