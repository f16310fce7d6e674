//! Async locks by key.

use std::{collections::BTreeMap, sync::Arc};

use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::lock::Lock;

/// An async lock per key. A caller that had to wait can use the result of the previous holder.
#[derive(Debug, Default)]
pub(crate) struct KeyedLock(Lock<BTreeMap<String, Arc<Mutex<()>>>>);

impl KeyedLock {
    /// Locks a key until the guard is dropped.
    pub(crate) async fn lock(&self, key: &str) -> OwnedMutexGuard<()> {
        let lock = {
            let mut locks = self.0.lock();
            // Evict the locks that have neither a holder nor a waiter.
            locks.retain(|_, lock| Arc::strong_count(lock) > 1);
            Arc::clone(locks.entry(key.to_owned()).or_default())
        };
        lock.lock_owned().await
    }
}
