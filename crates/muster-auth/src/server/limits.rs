//! How often one address may ask.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv6Addr},
    time::Duration,
};

use tokio::time::Instant;

use crate::lock::Lock;

/// No more addresses than this are remembered. The ones that asked least are forgotten then.
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
        let peer = whose(peer);
        let mut full = self.full.lock();
        if full.len() >= MOST && !full.contains_key(&peer) {
            make_room(&mut full, now);
        }
        let next = full.get(&peer).copied().unwrap_or(now).max(now) + self.each;
        if next.duration_since(now) > self.each * self.burst {
            return false;
        }
        full.insert(peer, next);
        true
    }
}

/// Where an address belongs: whoever has one of version 6 has as many as they like beside it.
fn whose(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V4(four) => four.into(),
        IpAddr::V6(six) => Ipv6Addr::from_bits(six.to_bits() & (!0 << 64)).into(),
    }
}

/// Forgets at least the half that asked least.
fn make_room(full: &mut BTreeMap<IpAddr, Instant>, now: Instant) {
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

    use super::{Limit, MOST};

    #[test]
    fn whoever_has_many_addresses_asks_no_more_often() {
        let limit = Limit::new(3, Duration::from_secs(1));
        let now = Instant::now();
        let asks = |peer: &str| limit.allows_at(peer.parse().unwrap(), now);
        assert!(asks("2001:db8::1") && asks("2001:db8::2") && asks("2001:db8:0:0:ffff::3"));
        assert!(!asks("2001:db8::4"));
        assert!(asks("2001:db8:0:1::1"), "a neighbour");
        // Those of version 4 are told apart, however they are written.
        assert!(asks("::ffff:192.0.2.1") && asks("192.0.2.1") && asks("192.0.2.1"));
        assert!(!asks("::ffff:192.0.2.1"));
        assert!(asks("::ffff:192.0.2.2"));
    }

    #[test]
    fn there_is_an_end_to_what_is_remembered() {
        let limit = Limit::new(3, Duration::from_secs(1));
        let now = Instant::now();
        let often: IpAddr = "192.0.2.1".parse().unwrap();
        while limit.allows_at(often, now) {}
        for number in 0..3 * u32::try_from(MOST).unwrap() {
            assert!(limit.allows_at(IpAddr::V4(number.into()), now));
            assert!(limit.full.lock().len() <= MOST);
        }
        assert!(!limit.allows_at(often, now), "who asks too often is not forgotten");
    }

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
