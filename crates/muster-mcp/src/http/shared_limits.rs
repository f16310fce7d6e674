//! The rate limit on the calls of one caller, at all replicas together.
//!
//! A replica takes a part of the limit at a time, so that most calls need no round trip. The part that it does not use
//! within the second is lost: callers may be refused a little early, but never make more calls than allowed within a
//! second of the clock.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use muster_core::shared::SharedState;

use super::{
    WallClock,
    caller_limits::{CallerKey, TooMany},
    replica_sessions::digest,
};
use crate::lock::Lock;

/// The part of the limit that a replica takes at a time.
const PARTS: u64 = 10;
/// How long a count is stored.
const TTL: Duration = Duration::from_secs(3);
/// The number of callers that are remembered within a second.
const MAX_REMEMBERED: usize = 10_000;

/// The calls of all callers at all replicas.
pub(super) struct SharedLimits {
    state: Arc<dyn SharedState>,
    per_second: u32,
    clock: WallClock,
    allowances: Lock<BTreeMap<CallerKey, Allowance>>,
}

/// The calls that this replica may still begin for a caller within a second.
#[derive(Debug, Clone, Copy)]
struct Allowance {
    second: u64,
    left: u64,
    is_exhausted: bool,
}

impl fmt::Debug for SharedLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedLimits").field("per_second", &self.per_second).finish_non_exhaustive()
    }
}

impl SharedLimits {
    /// A limit of calls per second; `None` if there is no limit.
    pub(super) fn new(
        state: Arc<dyn SharedState>,
        per_second: u32,
        clock: WallClock,
    ) -> Option<Self> {
        (per_second > 0).then(|| Self { state, per_second, clock, allowances: Lock::default() })
    }

    /// Counts a call. If the shared state is not available, only the limit of this replica applies.
    pub(super) async fn begin(&self, key: &CallerKey) -> Result<(), TooMany> {
        let past = (self.clock)();
        let rest = Duration::from_nanos(1_000_000_000 - u64::from(past.subsec_nanos()));
        let too_many = TooMany::PerSecond { limit: self.per_second, after: rest };
        let is_allowed = self.is_allowed(past.as_secs(), key).await;
        is_allowed.then_some(()).ok_or(too_many)
    }

    /// Counts a call within a second of the clock, if the limit allows one more.
    async fn is_allowed(&self, second: u64, key: &CallerKey) -> bool {
        {
            let mut allowances = self.allowances.lock();
            let allowance = allowances.get_mut(key).filter(|allowance| allowance.second == second);
            match allowance {
                Some(Allowance { left, .. }) if *left > 0 => {
                    *left -= 1;
                    return true;
                }
                Some(Allowance { is_exhausted: true, .. }) => return false,
                Some(_) | None => (),
            }
        }
        let limit = u64::from(self.per_second);
        let part = limit.div_ceil(PARTS);
        let count = format!("rate:{}:{second}", digest(&format!("{key:?}")));
        let sum = match self.state.add(&count, part, TTL).await {
            Ok(sum) => sum,
            Err(error) => {
                tracing::debug!("calls are limited at this replica only: {error}");
                return true;
            }
        };
        let granted = limit.saturating_sub(sum.saturating_sub(part)).min(part);
        let mut allowances = self.allowances.lock();
        if allowances.len() > MAX_REMEMBERED {
            allowances.retain(|_, allowance| allowance.second == second);
        }
        let new = Allowance { second, left: 0, is_exhausted: false };
        let allowance = allowances.entry(key.clone()).or_insert(new);
        if allowance.second != second {
            *allowance = new;
        }
        allowance.is_exhausted = granted < part;
        match granted.checked_sub(1) {
            Some(more) => {
                allowance.left += more;
                true
            }
            None => false,
        }
    }
}
