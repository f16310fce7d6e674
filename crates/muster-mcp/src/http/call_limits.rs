//! Limits on the calls of one caller: how many at a time, and how many per second.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc, time::Duration};

use muster_core::call::{Caller, Owner};
use tokio::time::Instant;

use super::connections::peer_of;
use crate::lock::Lock;

/// The number of callers without a running call whose rate is remembered.
const MAX_REMEMBERED: usize = 10_000;

/// Who is limited: a user, a session, or the clients at an address.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CallerKey(Owner, Option<IpAddr>);

impl CallerKey {
    /// The key of a caller at an address; `session` is the caller's legacy session.
    pub(super) fn of(caller: &Caller, session: Option<&Caller>, address: IpAddr) -> Self {
        let owner = session.unwrap_or(caller).owner();
        let is_known = caller.principal.is_some() || matches!(owner, Owner::Session(_));
        Self(owner, (!is_known).then(|| peer_of(address)))
    }
}

/// The calls of all callers.
#[derive(Debug)]
pub(super) struct CallLimits {
    /// The calls of one caller at a time; 0 for any number.
    concurrent: usize,
    /// The calls of one caller per second; 0 for any number.
    per_second: u32,
    callers: Lock<BTreeMap<CallerKey, Calls>>,
}

#[derive(Debug)]
struct Calls {
    running: usize,
    /// How many calls may begin at once, as of `counted`: a second's worth at most.
    tokens: f64,
    counted: Instant,
}

/// A running call, until it is dropped.
#[derive(Debug)]
pub(super) struct CallPlace {
    limits: Arc<CallLimits>,
    key: CallerKey,
}

/// Why a call may not begin now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TooMany {
    /// Too many calls are running.
    AtATime(usize),
    /// Too many calls began within a second.
    PerSecond(u32),
}

impl std::fmt::Display for TooMany {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::AtATime(limit) => {
                write!(f, "Too many calls: a caller may run {limit} at a time; wait for one to end")
            }
            Self::PerSecond(limit) => {
                write!(f, "Too many calls: a caller may make {limit} per second; try again later")
            }
        }
    }
}

impl CallLimits {
    pub(super) fn new(concurrent: usize, per_second: u32) -> Arc<Self> {
        Arc::new(Self { concurrent, per_second, callers: Lock::default() })
    }

    /// Begins a call; `None` if calls are not limited.
    pub(super) fn begin(
        self: &Arc<Self>,
        key: impl FnOnce() -> CallerKey,
    ) -> Result<Option<CallPlace>, TooMany> {
        if self.concurrent == 0 && self.per_second == 0 {
            return Ok(None);
        }
        self.begin_at(Instant::now(), key()).map(Some)
    }

    fn begin_at(self: &Arc<Self>, now: Instant, key: CallerKey) -> Result<CallPlace, TooMany> {
        let most = f64::from(self.per_second);
        let mut callers = self.callers.lock();
        if callers.len() > MAX_REMEMBERED {
            let second = Duration::from_secs(1);
            callers.retain(|_, calls| calls.running > 0 || now - calls.counted < second);
        }
        let new = || Calls { running: 0, tokens: most, counted: now };
        let calls = callers.entry(key.clone()).or_insert_with(new);
        if self.concurrent > 0 && calls.running >= self.concurrent {
            return Err(TooMany::AtATime(self.concurrent));
        }
        if self.per_second > 0 {
            let earned = (now - calls.counted).as_secs_f64() * most;
            (calls.tokens, calls.counted) = ((calls.tokens + earned).min(most), now);
            if calls.tokens < 1.0 {
                return Err(TooMany::PerSecond(self.per_second));
            }
            calls.tokens -= 1.0;
        }
        calls.running += 1;
        Ok(CallPlace { limits: Arc::clone(self), key })
    }
}

impl Drop for CallPlace {
    fn drop(&mut self) {
        let mut callers = self.limits.callers.lock();
        if let Some(calls) = callers.get_mut(&self.key) {
            calls.running -= 1;
            if calls.running == 0 && self.limits.per_second == 0 {
                callers.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{net::IpAddr, time::Duration};

    use muster_core::call::Caller;
    use tokio::time::Instant;

    use super::{CallLimits, CallerKey, TooMany};

    fn key(address: &str, session: Option<&str>) -> CallerKey {
        let caller = Caller { session: session.map(Into::into), ..Caller::local() };
        CallerKey::of(&caller, None, address.parse::<IpAddr>().unwrap())
    }

    #[test]
    fn calls_at_a_time() {
        let limits = CallLimits::new(2, 0);
        let begin = |address, session| limits.begin(|| key(address, session));
        let one = begin("192.0.2.1", None).unwrap();
        let _two = begin("192.0.2.1", None).unwrap();
        assert_eq!(begin("192.0.2.1", None).unwrap_err(), TooMany::AtATime(2));
        assert!(begin("192.0.2.2", None).is_ok());
        assert!(begin("192.0.2.1", Some("s")).is_ok());
        drop(one);
        assert!(begin("192.0.2.1", None).is_ok());
        assert!(CallLimits::new(0, 0).begin(|| unreachable!()).unwrap().is_none());
    }

    #[test]
    fn calls_per_second() {
        let (limits, start) = (CallLimits::new(0, 3), Instant::now());
        let begin = |after| {
            let now = start + Duration::from_millis(after);
            limits.begin_at(now, key("192.0.2.1", None)).map(drop)
        };
        for _ in 0..3 {
            assert_eq!(begin(0), Ok(()));
        }
        assert_eq!(begin(0), Err(TooMany::PerSecond(3)));
        assert_eq!(begin(400), Ok(()));
        assert_eq!(begin(400), Err(TooMany::PerSecond(3)));
    }
}
