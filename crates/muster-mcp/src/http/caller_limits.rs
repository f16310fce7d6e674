//! Rate limits: how many calls one caller may make per second, and how many at a time.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc, time::Duration};

use muster_core::{
    backend::BoxFuture,
    call::{Caller, Role},
    client::{CallCounter, CallRetry, CallSlot, TooManyCalls},
};
use tokio::time::Instant;

use super::{connections::peer_of, shared_limits::SharedLimits};
use crate::lock::Lock;

/// The number of callers without a running call whose rate is remembered.
const MAX_REMEMBERED: usize = 10_000;

/// The key that calls are limited by: a user, or all clients at an address that are not logged in. Sessions have no
/// limit of their own, because a client could begin a new session with every call. Operators are counted apart from
/// agents.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CallerKey {
    User(Arc<str>),
    Address(IpAddr, Role),
}

impl CallerKey {
    /// The key of a caller at an address.
    pub(super) fn of(caller: &Caller, address: IpAddr) -> Self {
        match &caller.principal {
            Some(_) => Self::User(Arc::clone(&caller.subject)),
            None => Self::Address(peer_of(address), caller.role),
        }
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
    /// The tokens in the bucket as of `counted`: at most the calls of one second.
    tokens: f64,
    counted: Instant,
}

/// The place of a running call, until it is dropped.
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
    PerSecond {
        /// The limit.
        limit: u32,
        /// The time until the next one may begin.
        after: Duration,
    },
}

impl CallPlace {
    /// The limits on further calls of the same request.
    pub(super) fn counter(&self, shared: Option<&Arc<SharedLimits>>) -> Arc<dyn CallCounter> {
        let (limits, key) = (Arc::clone(&self.limits), self.key.clone());
        Arc::new(FurtherCalls { limits, shared: shared.cloned(), key })
    }
}

/// Counts the further calls of a request.
#[derive(Debug)]
struct FurtherCalls {
    limits: Arc<CallLimits>,
    /// The limits of all replicas together.
    shared: Option<Arc<SharedLimits>>,
    key: CallerKey,
}

impl CallCounter for FurtherCalls {
    fn begin(&self) -> BoxFuture<'_, Result<CallSlot, TooManyCalls>> {
        Box::pin(async move {
            // The rate first: a call that then has to wait for another one to end counts towards the rate.
            self.limits.count_at(Instant::now(), &self.key)?;
            if let Some(shared) = &self.shared
                && let Err(too_many) = shared.begin(&self.key).await
            {
                // The call will be retried, and must be counted only once.
                self.limits.give_back(&self.key);
                return Err(too_many.into());
            }
            let place = self.limits.place_at(Instant::now(), self.key.clone())?;
            Ok(Box::new(place) as CallSlot)
        })
    }
}

impl From<TooMany> for TooManyCalls {
    fn from(too_many: TooMany) -> Self {
        let retry = match too_many {
            TooMany::AtATime(_) => CallRetry::WhenOneEnds,
            TooMany::PerSecond { after, .. } => CallRetry::After(after),
        };
        Self { message: too_many.to_string(), retry }
    }
}

impl std::fmt::Display for TooMany {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::AtATime(limit) => {
                write!(f, "Too many calls: a caller may run {limit} at a time; wait for one to end")
            }
            Self::PerSecond { limit, .. } => {
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
        self.with_caller(now, key.clone(), |calls| {
            // A request that is refused because others are running does not count towards the rate.
            calls.check_place(self.concurrent)?;
            calls.count(now, self.per_second)?;
            calls.running += 1;
            Ok(())
        })?;
        Ok(CallPlace { limits: Arc::clone(self), key })
    }

    /// Counts a call towards the rate limit.
    fn count_at(&self, now: Instant, key: &CallerKey) -> Result<(), TooMany> {
        self.with_caller(now, key.clone(), |calls| calls.count(now, self.per_second))
    }

    /// Undoes the counting of a call.
    fn give_back(&self, key: &CallerKey) {
        if let Some(calls) = self.callers.lock().get_mut(key) {
            calls.tokens = (calls.tokens + 1.0).min(f64::from(self.per_second));
        }
    }

    /// Takes the place of a running call.
    fn place_at(self: &Arc<Self>, now: Instant, key: CallerKey) -> Result<CallPlace, TooMany> {
        self.with_caller(now, key.clone(), |calls| {
            calls.check_place(self.concurrent)?;
            calls.running += 1;
            Ok(())
        })?;
        Ok(CallPlace { limits: Arc::clone(self), key })
    }

    /// Applies a change to the calls of one caller.
    fn with_caller<T>(
        &self,
        now: Instant,
        key: CallerKey,
        change: impl FnOnce(&mut Calls) -> T,
    ) -> T {
        let mut callers = self.callers.lock();
        if callers.len() > MAX_REMEMBERED {
            let second = Duration::from_secs(1);
            callers.retain(|_, calls| calls.running > 0 || now - calls.counted < second);
        }
        let tokens = f64::from(self.per_second);
        let new = || Calls { running: 0, tokens, counted: now };
        change(callers.entry(key).or_insert_with(new))
    }
}

impl Calls {
    /// Checks that a further call may run; a limit of 0 allows any number.
    const fn check_place(&self, limit: usize) -> Result<(), TooMany> {
        if limit > 0 && self.running >= limit { Err(TooMany::AtATime(limit)) } else { Ok(()) }
    }

    /// Counts a call that begins now; a limit of 0 allows any number.
    fn count(&mut self, now: Instant, limit: u32) -> Result<(), TooMany> {
        if limit == 0 {
            return Ok(());
        }
        let most = f64::from(limit);
        let earned = (now - self.counted).as_secs_f64() * most;
        (self.tokens, self.counted) = ((self.tokens + earned).min(most), now);
        if self.tokens < 1.0 {
            // A little longer, so that rounding does not refuse the next attempt.
            let after =
                Duration::from_secs_f64((1.0 - self.tokens) / most) + Duration::from_micros(1);
            return Err(TooMany::PerSecond { limit, after });
        }
        self.tokens -= 1.0;
        Ok(())
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
    use std::{net::IpAddr, sync::Arc, time::Duration};

    use muster_core::{
        call::{Caller, Role},
        client::CallRetry,
        shared::SharedState as _,
    };
    use muster_shared::{MemoryShared, clock::Clock};
    use tokio::time::Instant;

    use super::{CallLimits, CallerKey, SharedLimits, TooMany};
    use crate::http::replica_sessions::digest;

    fn key(address: &str, session: Option<&str>) -> CallerKey {
        let caller = Caller { session: session.map(Into::into), ..Caller::local() };
        CallerKey::of(&caller, address.parse::<IpAddr>().unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn further_calls_of_a_request_count_too() {
        let limits = CallLimits::new(2, 0);
        let request = limits.begin(|| key("192.0.2.1", None)).unwrap().unwrap();
        let counter = request.counter(None);
        let second = counter.begin().await.unwrap();
        assert_eq!(counter.begin().await.unwrap_err().retry, CallRetry::WhenOneEnds);
        drop(second);
        assert!(counter.begin().await.is_ok());
        let limits = CallLimits::new(0, 1);
        let request = limits.begin(|| key("192.0.2.1", None)).unwrap().unwrap();
        let refused = request.counter(None).begin().await.unwrap_err();
        assert_eq!(refused.retry, CallRetry::After(Duration::from_micros(1_000_001)));
    }

    #[tokio::test(start_paused = true)]
    async fn calls_that_wait_for_another_one_count_as_made() {
        let limits = CallLimits::new(1, 3);
        let request = limits.begin(|| key("192.0.2.1", None)).unwrap().unwrap();
        let counter = request.counter(None);
        for _ in 0..2 {
            assert_eq!(counter.begin().await.unwrap_err().retry, CallRetry::WhenOneEnds);
        }
        let CallRetry::After(pause) = counter.begin().await.unwrap_err().retry else {
            panic!("more calls than allowed per second")
        };
        tokio::time::advance(pause).await;
        assert_eq!(counter.begin().await.unwrap_err().retry, CallRetry::WhenOneEnds);
        // A refused request does not count towards the rate.
        tokio::time::advance(pause).await;
        assert_eq!(limits.begin(|| key("192.0.2.1", None)).unwrap_err(), TooMany::AtATime(1));
        assert_eq!(counter.begin().await.unwrap_err().retry, CallRetry::WhenOneEnds);
    }

    #[tokio::test(start_paused = true)]
    async fn further_calls_count_at_all_replicas_together() {
        let state = Arc::new(MemoryShared::new(Clock::system()));
        let clock = Arc::new(|| Duration::from_secs(1_000));
        let shared = SharedLimits::new(state, 3, clock).map(Arc::new);
        let counters = [(), ()].map(|()| {
            let limits = CallLimits::new(0, 100);
            let request = limits.begin(|| key("192.0.2.1", None)).unwrap().unwrap();
            request.counter(shared.as_ref())
        });
        let mut made = 0;
        for counter in counters.iter().cycle().take(12) {
            made += usize::from(counter.begin().await.is_ok());
        }
        assert_eq!(made, 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_is_tried_again_is_counted_once() {
        let state = Arc::new(MemoryShared::new(Clock::system()));
        let key = || key("192.0.2.1", None);
        // Other replicas have used up this second.
        let count = format!("rate:{}:1000", digest(&format!("{:?}", key())));
        state.add(&count, 100, Duration::from_secs(60)).await.unwrap();
        let clock = Arc::new(|| Duration::from_secs(1_000));
        let shared = SharedLimits::new(state, 10, clock).map(Arc::new);
        let limits = CallLimits::new(0, 2);
        let request = limits.begin(key).unwrap().unwrap();
        let counter = request.counter(shared.as_ref());
        for _ in 0..5 {
            let refused = counter.begin().await.unwrap_err();
            assert!(refused.message.contains("10 per second"), "{}", refused.message);
        }
        assert!(limits.begin(key).is_ok(), "the second call of this replica");
    }

    #[test]
    fn calls_at_a_time() {
        let limits = CallLimits::new(2, 0);
        let begin = |address, session| limits.begin(|| key(address, session));
        let one = begin("192.0.2.1", None).unwrap();
        let _two = begin("192.0.2.1", None).unwrap();
        assert_eq!(begin("192.0.2.1", None).unwrap_err(), TooMany::AtATime(2));
        assert!(begin("192.0.2.2", None).is_ok());
        assert_eq!(begin("192.0.2.1", Some("s")).unwrap_err(), TooMany::AtATime(2));
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
        assert!(matches!(begin(0), Err(TooMany::PerSecond { limit: 3, .. })));
        assert_eq!(begin(400), Ok(()));
        assert!(matches!(begin(400), Err(TooMany::PerSecond { limit: 3, .. })));
    }

    #[test]
    fn operators_are_counted_apart_from_agents() {
        let limits = CallLimits::new(1, 0);
        let begin = |role| {
            let caller = Caller { role, ..Caller::local() };
            limits.begin(|| CallerKey::of(&caller, IpAddr::from([127, 0, 0, 1])))
        };
        let _agent = begin(Role::Agent).unwrap();
        assert_eq!(begin(Role::Agent).unwrap_err(), TooMany::AtATime(1));
        assert!(begin(Role::Operator).is_ok());
    }
}
