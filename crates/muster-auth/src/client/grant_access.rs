//! Access to a server by a grant of its issuer.

use std::sync::Arc;

use muster_core::{
    backend::BoxFuture,
    call::Owner,
    credentials::BearerToken,
    logins::{AccessTokenSource, LoginError},
};

use super::{OAuthClient, grant_cache::GrantCacheEntry};
use crate::oauth::BearerChallenge;

/// One owner's grant of the issuer of one server.
#[derive(Debug)]
pub(super) struct GrantAccess {
    pub(super) client: Arc<OAuthClient>,
    pub(super) owner: Owner,
    pub(super) server: String,
    pub(super) entry: Arc<GrantCacheEntry>,
    /// The resource that the tokens are for.
    pub(super) resource: String,
}

impl AccessTokenSource for GrantAccess {
    fn token(&self) -> BoxFuture<'_, Result<BearerToken, LoginError>> {
        Box::pin(self.client.token(&self.owner, &self.entry, &self.resource, None))
    }

    fn replace_rejected<'a>(
        &'a self,
        token: &'a BearerToken,
        challenge: Option<&'a str>,
    ) -> BoxFuture<'a, Result<BearerToken, LoginError>> {
        Box::pin(async move {
            let challenge = BearerChallenge::parse(challenge.unwrap_or_default());
            if challenge.is_insufficient_scope() {
                // Another login may have stepped up meanwhile.
                if let Some(other) = self.entry.latest(&self.resource).filter(|own| own != token) {
                    return Ok(other);
                }
                let granted = self.entry.get().map(|grant| grant.scope).unwrap_or_default();
                let (wanted, now) = (challenge.scope.unwrap_or_default(), self.client.clock.now());
                let key = (&self.owner, self.server.as_str());
                return Err(self.client.step_up.require(key, &granted, &wanted, now));
            }
            self.client.token(&self.owner, &self.entry, &self.resource, Some(token)).await
        })
    }
}
