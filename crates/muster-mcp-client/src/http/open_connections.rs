//! The number of open HTTP connections to upstream servers, for metrics.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// Counts the open HTTP connections to upstream servers, in use or idle in a pool. Clones share the count.
#[derive(Debug, Clone, Default)]
pub struct OpenConnections(Arc<AtomicUsize>);

/// An open connection; it is counted until this is dropped.
#[derive(Debug)]
pub(crate) struct CountedConnection(OpenConnections);

impl OpenConnections {
    /// The number of open connections.
    pub fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Counts one more connection.
    pub(crate) fn opened(&self) -> CountedConnection {
        self.0.fetch_add(1, Ordering::Relaxed);
        CountedConnection(self.clone())
    }
}

impl Drop for CountedConnection {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}
