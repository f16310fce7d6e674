//! Access by a token that a person's login gave.

use std::sync::Arc;

use muster_core::{
    backend::BoxFuture,
    call::Owner,
    credentials::Bearer,
    logins::{Access, LoginError},
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

impl Access for Kept {
    fn token(&self) -> BoxFuture<'_, Result<Bearer, LoginError>> {
        Box::pin(self.client.token(&self.owner, &self.slot, &self.resource, None))
    }

    fn refused<'a>(
        &'a self,
        token: &'a Bearer,
        challenge: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Bearer, LoginError>> {
        Box::pin(async move {
            let challenge = Challenge::parse(challenge.unwrap_or_default());
            if challenge.wants_more() {
                let granted = self.slot.get().map(|grant| grant.scope).unwrap_or_default();
                let scope = challenge.scope.unwrap_or_default();
                return Err(self.client.step_up(&self.owner, &self.server, &granted, &scope));
            }
            self.client.token(&self.owner, &self.slot, &self.resource, Some(token)).await
        })
    }
}
