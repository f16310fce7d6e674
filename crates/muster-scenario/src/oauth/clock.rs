//! The clock of a mock provider, which a scenario can advance.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// The system clock plus an offset.
#[derive(Debug, Default)]
pub struct MockClock {
    ahead_ms: AtomicU64,
}

impl MockClock {
    /// The current time since the Unix epoch.
    pub fn now(&self) -> Duration {
        let real = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        real + Duration::from_millis(self.ahead_ms.load(Ordering::Relaxed))
    }

    /// Advances the clock.
    pub fn advance(&self, by: Duration) {
        let by = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        self.ahead_ms.fetch_add(by, Ordering::Relaxed);
    }
}
