//! Exponential backoff.

use std::time::Duration;

/// An exponential backoff: each delay is twice the one before, up to a maximum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// The first delay.
    pub first: Duration,
    /// The longest delay.
    pub max: Duration,
}

impl Backoff {
    /// Returns the delay after this many retries.
    pub fn delay(self, retries: u64) -> Duration {
        let doublings = u32::try_from(retries).unwrap_or(u32::MAX).min(31);
        self.first.saturating_mul(1 << doublings).min(self.max)
    }

    /// Returns the delay plus a jitter of up to a quarter of it, so that clients that lost a server at the same time do
    /// not all reconnect at the same time. `random` is any random number.
    pub fn jittered(self, retries: u64, random: u64) -> Duration {
        let delay = self.delay(retries);
        let steps = u32::try_from(random % 1024).unwrap_or_default();
        delay.saturating_add(delay.saturating_mul(steps) / 4096)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Backoff;

    const BACKOFF: Backoff =
        Backoff { first: Duration::from_secs(30), max: Duration::from_secs(1800) };

    #[test]
    fn doubles_up_to_the_maximum() {
        for (retries, seconds) in
            [(0, 30), (1, 60), (2, 120), (5, 960), (6, 1800), (u64::MAX, 1800)]
        {
            assert_eq!(BACKOFF.delay(retries), Duration::from_secs(seconds), "{retries}");
        }
    }

    #[test]
    fn jitter_extends_a_delay_by_a_quarter_at_most() {
        assert_eq!(BACKOFF.jittered(1, 0), Duration::from_secs(60));
        assert_eq!(BACKOFF.jittered(1, 512), Duration::from_millis(67_500));
        assert!(BACKOFF.jittered(1, u64::MAX) < Duration::from_secs(75));
        let longest = Backoff { first: Duration::MAX, max: Duration::MAX };
        assert_eq!(longest.jittered(u64::MAX, u64::MAX), Duration::MAX);
    }
}
