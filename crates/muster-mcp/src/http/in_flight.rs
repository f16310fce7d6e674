//! The number of requests in flight.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts requests in flight.
#[derive(Debug, Default)]
pub(super) struct InFlight(AtomicUsize);

/// A request in flight, until it is dropped.
pub(super) struct InFlightGuard<'a>(&'a AtomicUsize);

impl InFlight {
    pub(super) fn enter(&self) -> InFlightGuard<'_> {
        self.0.fetch_add(1, Ordering::Relaxed);
        InFlightGuard(&self.0)
    }

    pub(super) fn is_at_most_one(&self) -> bool {
        self.0.load(Ordering::Relaxed) <= 1
    }
}

impl Drop for InFlightGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
