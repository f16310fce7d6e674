//! The time of a mock provider, which a scenario can move ahead.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// A clock: the real one, and how far it is ahead of it.
#[derive(Debug, Default)]
pub struct Clock {
    ahead_ms: AtomicU64,
}

impl Clock {
    /// Now, since 1970.
    pub fn now(&self) -> Duration {
        let real = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        real + Duration::from_millis(self.ahead_ms.load(Ordering::Relaxed))
    }

    /// Jumps ahead.
    pub fn advance(&self, by: Duration) {
        let by = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        self.ahead_ms.fetch_add(by, Ordering::Relaxed);
    }
}
