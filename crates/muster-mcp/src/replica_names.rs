//! Names that are unique among all replicas and identify the replica that issued them.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// Issues the names of this replica. Names are never reused: a session that was evicted and comes back must not get an
/// earlier name again.
#[derive(Debug)]
pub(crate) struct ReplicaNames {
    replica: Arc<str>,
    next_number: AtomicU64,
}

impl ReplicaNames {
    pub(crate) fn new(replica: &str) -> Arc<Self> {
        Arc::new(Self { replica: replica.into(), next_number: AtomicU64::new(0) })
    }

    /// The id of this replica.
    pub(crate) fn replica(&self) -> &str {
        &self.replica
    }

    /// A number that was not used before.
    pub(crate) fn next_number(&self) -> u64 {
        self.next_number.fetch_add(1, Ordering::Relaxed)
    }
}
