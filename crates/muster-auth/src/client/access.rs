//! Access by a token that a person's login gave.

use std::sync::Arc;

use muster_core::{
    backend::BoxFuture,
    call::Owner,
    credentials::BearerToken,
    logins::{AccessTokenSource, LoginError},
};

use super::{Client, challenge::Challenge, kept::Slot};

/// What one person has of the issuer of one server.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) client: Arc<Client>,
    pub(super) owner: Owner,
    pub(super) server: String,
    pub(super) slot: Arc<Slot>,
    /// What the tokens are made for.
    pub(super) resource: String,
}

impl AccessTokenSource for Kept {
    fn token(&self) -> BoxFuture<'_, Result<BearerToken, LoginError>> {
        Box::pin(self.client.token(&self.owner, &self.slot, &self.resource, None))
    }

    fn replace_rejected<'a>(
        &'a self,
        token: &'a BearerToken,
        challenge: Option<&'a str>,
    ) -> BoxFuture<'a, Result<BearerToken, LoginError>> {
        Box::pin(async move {
            let challenge = Challenge::parse(challenge.unwrap_or_default());
            if challenge.wants_more() {
                // Someone may have seen to it meanwhile.
                if let Some(other) = self.slot.latest(&self.resource).filter(|own| own != token) {
                    return Ok(other);
                }
                let granted = self.slot.get().map(|grant| grant.scope).unwrap_or_default();
                let (wanted, now) = (challenge.scope.unwrap_or_default(), self.client.clock.now());
                let whose = (&self.owner, self.server.as_str());
                return Err(self.client.steps.up(whose, &granted, &wanted, now));
            }
            self.client.token(&self.owner, &self.slot, &self.resource, Some(token)).await
        })
    }
}
