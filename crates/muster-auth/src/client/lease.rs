//! Leases on stored values: only one of the gateways that share a storage changes a value at a time.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::OAuthClient;

/// How long a gateway may hold a lease.
const LEASE_TTL: Duration = Duration::from_secs(20);
const LEASE_POLL: Duration = Duration::from_millis(100);
/// How long to wait for a lease: longer than `LEASE_TTL`, so that the lease of a crashed gateway expires first.
pub(super) const LEASE_TIMEOUT: Duration = LEASE_TTL.saturating_add(Duration::from_secs(2));

impl OAuthClient {
    /// Acquires the lease on a value and returns when it expires; `None` if another gateway holds it until the timeout.
    /// Succeeds at once if the storage is not shared or not available.
    pub(super) async fn acquire_lease(&self, key: &str, timeout: Duration) -> Option<Instant> {
        let deadline = Instant::now() + timeout;
        loop {
            let until = Instant::now() + LEASE_TTL;
            if !self.vault.is_shared()
                || self.vault.claim(&lease_key(key), &true, LEASE_TTL).await.unwrap_or(true)
            {
                return Some(until);
            }
            if Instant::now() >= deadline {
                return None;
            }
            sleep(LEASE_POLL).await;
        }
    }

    /// Releases a lease, unless it has expired: another gateway may hold it by now.
    pub(super) async fn release_lease(&self, key: &str, until: Instant) {
        if self.vault.is_shared()
            && Instant::now() < until
            && let Err(error) = self.vault.remove(&lease_key(key)).await
        {
            tracing::debug!("cannot release the lease on a login, it expires by itself: {error}");
        }
    }
}

fn lease_key(key: &str) -> String {
    format!("{key}/renewing")
}
