//! Leases on stored values: of the gateways that share a storage, one at a time changes a value.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::OAuthClient;

/// How long a gateway may hold a lease.
const LEASE_TTL: Duration = Duration::from_secs(20);
const LEASE_POLL: Duration = Duration::from_millis(100);
/// How long to wait for a lease: one that is not released ends earlier by itself.
pub(super) const LEASE_TIMEOUT: Duration = LEASE_TTL.saturating_add(Duration::from_secs(2));

impl OAuthClient {
    /// Acquires the lease on a value; `false` if another gateway holds it until the timeout. Where the storage is not
    /// shared or not available, there is nobody to wait for.
    pub(super) async fn acquire_lease(&self, key: &str, timeout: Duration) -> bool {
        if !self.vault.is_shared() {
            return true;
        }
        let deadline = Instant::now() + timeout;
        while !self.vault.claim(&lease_key(key), &true, LEASE_TTL).await.unwrap_or(true) {
            if Instant::now() >= deadline {
                return false;
            }
            sleep(LEASE_POLL).await;
        }
        true
    }

    /// Releases a lease that this gateway holds.
    pub(super) async fn release_lease(&self, key: &str) {
        if self.vault.is_shared()
            && let Err(error) = self.vault.remove(&lease_key(key)).await
        {
            tracing::debug!("cannot release the lease on a login, it expires by itself: {error}");
        }
    }
}

fn lease_key(key: &str) -> String {
    format!("{key}/renewing")
}
