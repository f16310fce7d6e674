//! How many requests have no answer yet.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts requests.
#[derive(Debug, Default)]
pub(super) struct UnderWay(AtomicUsize);

/// One request, until it is dropped.
pub(super) struct Counted<'a>(&'a AtomicUsize);

impl UnderWay {
    pub(super) fn count(&self) -> Counted<'_> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Counted(&self.0)
    }

    pub(super) fn is_at_most_one(&self) -> bool {
        self.0.load(Ordering::Relaxed) <= 1
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
