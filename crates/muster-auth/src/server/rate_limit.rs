//! Rate limiting by client address.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv6Addr},
    time::Duration,
};

use tokio::time::Instant;

use crate::lock::Lock;

/// The maximum number of tracked addresses. Beyond it, those with the fewest requests are evicted.
const MAX_TRACKED: usize = 10_000;

/// The limit of requests to OAuth endpoints and pages: a browser that logs in at many servers sends a burst.
const REQUEST_BURST: u32 = 100;
/// The interval after which another request is allowed: 50 in a second.
const REQUEST_INTERVAL: Duration = Duration::from_millis(20);

/// A rate limiter: a token bucket for each address.
#[derive(Debug)]
pub(crate) struct RateLimit {
    interval: Duration,
    burst: u32,
    /// When the bucket of an address will be full again.
    full_at: Lock<BTreeMap<IpAddr, Instant>>,
}

impl RateLimit {
    /// The limit of requests to OAuth endpoints and pages.
    pub(crate) fn of_requests() -> Self {
        Self::new(REQUEST_BURST, REQUEST_INTERVAL)
    }

    /// Allows `burst` requests at once, and one more after each `interval`.
    pub(crate) fn new(burst: u32, interval: Duration) -> Self {
        Self { interval, burst, full_at: Lock::default() }
    }

    /// Counts a request of an address, and returns whether it is within the limit.
    pub(crate) fn allows(&self, peer: IpAddr) -> bool {
        self.allows_at(peer, Instant::now())
    }

    /// Whether the next request of an address would exceed the limit. Does not count as a request.
    pub(super) fn is_exhausted(&self, peer: IpAddr) -> bool {
        let now = Instant::now();
        let full = self.full_at.lock().get(&bucket(peer)).copied().unwrap_or(now).max(now);
        full.duration_since(now) + self.interval > self.interval * self.burst
    }

    fn allows_at(&self, peer: IpAddr, now: Instant) -> bool {
        let peer = bucket(peer);
        let mut full = self.full_at.lock();
        if full.len() >= MAX_TRACKED && !full.contains_key(&peer) {
            evict(&mut full, now);
        }
        let next = full.get(&peer).copied().unwrap_or(now).max(now) + self.interval;
        if next.duration_since(now) > self.interval * self.burst {
            return false;
        }
        full.insert(peer, next);
        true
    }
}

/// The key that requests are counted by: an IPv4 address or an IPv6 /64 network, which one client usually has.
fn bucket(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V4(v4) => v4.into(),
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & (!0 << 64)).into(),
    }
}

/// Evicts at least the half with the fewest requests.
fn evict(full: &mut BTreeMap<IpAddr, Instant>, now: Instant) {
    let mut ends: Vec<Instant> = full.values().copied().collect();
    let middle = ends.len() / 2;
    let (_, half, _) = ends.select_nth_unstable(middle);
    let half = now.max(*half);
    full.retain(|_, full| *full > half);
}

#[cfg(test)]
mod tests {
    use std::{net::IpAddr, time::Duration};

    use tokio::time::Instant;

    use super::{MAX_TRACKED, RateLimit};

    #[test]
    fn ipv6_clients_are_limited_by_their_network() {
        let limit = RateLimit::new(3, Duration::from_secs(1));
        let now = Instant::now();
        let allows = |peer: &str| limit.allows_at(peer.parse().unwrap(), now);
        assert!(allows("2001:db8::1") && allows("2001:db8::2") && allows("2001:db8:0:0:ffff::3"));
        assert!(!allows("2001:db8::4"));
        assert!(allows("2001:db8:0:1::1"), "a neighbour");
        // IPv4 addresses are counted individually, also in their IPv6-mapped form.
        assert!(allows("::ffff:192.0.2.1") && allows("192.0.2.1") && allows("192.0.2.1"));
        assert!(!allows("::ffff:192.0.2.1"));
        assert!(allows("::ffff:192.0.2.2"));
    }

    #[test]
    fn the_number_of_tracked_addresses_is_limited() {
        let limit = RateLimit::new(3, Duration::from_secs(1));
        let now = Instant::now();
        let busy: IpAddr = "192.0.2.1".parse().unwrap();
        while limit.allows_at(busy, now) {}
        for number in 0..3 * u32::try_from(MAX_TRACKED).unwrap() {
            assert!(limit.allows_at(IpAddr::V4(number.into()), now));
            assert!(limit.full_at.lock().len() <= MAX_TRACKED);
        }
        assert!(!limit.allows_at(busy, now), "a client over the limit is not evicted");
    }

    #[test]
    fn a_burst_and_then_one_per_interval() {
        let limit = RateLimit::new(3, Duration::from_secs(1));
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
