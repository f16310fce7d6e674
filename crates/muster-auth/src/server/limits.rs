//! How often one address may ask.

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use tokio::time::Instant;

use crate::lock::Lock;

/// More addresses than this are not told apart for long.
const MOST: usize = 10_000;

/// Tokens that fill up with time; each request takes one.
#[derive(Debug)]
pub(super) struct Limit {
    each: Duration,
    burst: u32,
    /// When the bucket of an address will be full again.
    full: Lock<BTreeMap<IpAddr, Instant>>,
}

impl Limit {
    /// `burst` requests at once, and one more after each span of time.
    pub(super) fn new(burst: u32, each: Duration) -> Self {
        Self { each, burst, full: Lock::default() }
    }

    /// Whether an address may ask once more.
    pub(super) fn allows(&self, peer: IpAddr) -> bool {
        self.allows_at(peer, Instant::now())
    }

    fn allows_at(&self, peer: IpAddr, now: Instant) -> bool {
        let mut full = self.full.lock();
        if full.len() >= MOST {
            full.retain(|_, full| *full > now);
        }
        let next = full.get(&peer).copied().unwrap_or(now).max(now) + self.each;
        if next.duration_since(now) > self.each * self.burst {
            return false;
        }
        full.insert(peer, next);
        true
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::Limit;

    #[test]
    fn a_burst_and_then_one_at_a_time() {
        let limit = Limit::new(3, Duration::from_secs(1));
        let (one, other) = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
        let now = Instant::now();
        let burst: Vec<bool> = (0..4).map(|_| limit.allows_at(one, now)).collect();
        assert_eq!(burst, [true, true, true, false]);
        assert!(limit.allows_at(other, now));
        let later = now + Duration::from_secs(1);
        assert!(limit.allows_at(one, later));
        assert!(!limit.allows_at(one, later));
    }
}
