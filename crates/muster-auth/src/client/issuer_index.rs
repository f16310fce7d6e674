//! The index of the issuers that an owner has grants of. It exists because the storage cannot be listed.

use muster_core::call::Owner;

use super::{
    OAuthClient,
    grant_cache::{GRANT_TTL, owner_digest},
    lease::LEASE_TIMEOUT,
};
use crate::store::StoreError;

impl OAuthClient {
    /// The issuers that an owner has grants of.
    pub(super) async fn issuers_of(&self, owner: &Owner) -> Result<Vec<String>, StoreError> {
        let stored: Option<Vec<String>> = self.vault.get(&index_key(owner)).await?;
        let mut issuers = stored.unwrap_or_default();
        // Include those that could not be added to the index.
        for issuer in self.cached_issuers(owner) {
            if !issuers.contains(&issuer) {
                issuers.push(issuer);
            }
        }
        Ok(issuers)
    }

    /// The issuers of an owner's grants in the cache.
    pub(super) fn cached_issuers(&self, owner: &Owner) -> Vec<String> {
        let grants = self.grants.lock();
        let own = grants.range((owner.clone(), String::new())..);
        let own = own.take_while(|((other, _), _)| other == owner);
        let own = own.filter(|(_, entry)| entry.get().is_some());
        own.map(|((_, issuer), _)| issuer.clone()).collect()
    }

    /// Adds an issuer to the index and renews the TTL of the index. Leaves an index unchanged that cannot be read.
    pub(super) async fn index_issuer(&self, owner: &Owner, issuer: &str) {
        let key = index_key(owner);
        let _writing = self.index_locks.lock(&key).await;
        let lease = self.acquire_lease(&key, LEASE_TIMEOUT).await;
        let written = async {
            let mut issuers = self.issuers_of(owner).await?;
            if !issuers.iter().any(|known| known == issuer) {
                issuers.push(issuer.to_owned());
            }
            self.vault.put(&key, &issuers, GRANT_TTL).await
        };
        if let Err(error) = written.await {
            tracing::warn!("cannot store the index of a user's logins: {error}");
        }
        if let Some(until) = lease {
            self.release_lease(&key, until).await;
        }
    }
}

fn index_key(owner: &Owner) -> String {
    format!("backend/logins/{}", owner_digest(owner))
}
