//! How many calls each backend ran, how they ended and how long they took. Never what they were about.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use muster_core::{call::Outcome, name::BackendName};
use tokio::sync::watch;

use super::Ending;

/// Powers of two of microseconds, up to half an hour.
const BUCKETS: usize = 31;

/// The counts of all backends, since the gateway was started. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Tally {
    backends: watch::Sender<Backends>,
    began: Instant,
}

/// Read with every call, written with the first one of a backend.
type Backends = Arc<BTreeMap<BackendName, Arc<Counts>>>;

impl Default for Tally {
    fn default() -> Self {
        Self { backends: watch::Sender::default(), began: Instant::now() }
    }
}

#[derive(Debug)]
struct Counts {
    running: AtomicU64,
    worked: AtomicU64,
    failed: AtomicU64,
    cancelled: AtomicU64,
    /// How long calls took that came to an end.
    micros: AtomicU64,
    longest: AtomicU64,
    buckets: [AtomicU64; BUCKETS],
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            running: AtomicU64::new(0),
            worked: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            cancelled: AtomicU64::new(0),
            micros: AtomicU64::new(0),
            longest: AtomicU64::new(0),
            buckets: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }
}

/// The counts of one backend at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Counted {
    /// Calls that are being run.
    pub running: u64,
    /// Calls that worked.
    pub worked: u64,
    /// Calls that did not, or whose result says so.
    pub failed: u64,
    /// Calls that were taken back.
    pub cancelled: u64,
    /// How long a call took in the middle.
    pub average: Duration,
    /// How long all but one of twenty took, to the next power of two.
    pub most: Duration,
    /// How long the longest took.
    pub longest: Duration,
}

impl Tally {
    /// How long the gateway has been counting.
    pub fn age(&self) -> Duration {
        self.began.elapsed()
    }

    /// The counts of every backend that was called.
    pub fn counted(&self) -> BTreeMap<BackendName, Counted> {
        let backends = Arc::clone(&self.backends.borrow());
        backends.iter().map(|(name, counts)| (name.clone(), counts.now())).collect()
    }

    /// A call begins.
    pub(super) fn begin(&self, backend: &BackendName) -> Running {
        let known = self.backends.borrow().get(backend).map(Arc::clone);
        let counts = known.unwrap_or_else(|| self.added(backend));
        counts.running.fetch_add(1, Ordering::Relaxed);
        Running { counts, began: Instant::now(), ended: false }
    }

    fn added(&self, backend: &BackendName) -> Arc<Counts> {
        let mut counts = Arc::<Counts>::default();
        self.backends.send_modify(|backends| {
            let entry = Arc::make_mut(backends).entry(backend.clone());
            counts = Arc::clone(entry.or_insert_with(|| Arc::clone(&counts)));
        });
        counts
    }
}

impl Counts {
    fn now(&self) -> Counted {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let (worked, failed) = (read(&self.worked), read(&self.failed));
        let ended = worked + failed;
        Counted {
            running: read(&self.running),
            worked,
            failed,
            cancelled: read(&self.cancelled),
            average: Duration::from_micros(read(&self.micros).checked_div(ended).unwrap_or(0)),
            most: self.most(ended),
            longest: Duration::from_micros(read(&self.longest)),
        }
    }

    fn most(&self, ended: u64) -> Duration {
        let wanted = ended - ended / 20;
        let mut seen = 0;
        for (power, bucket) in (0_u32..).zip(&self.buckets) {
            seen += bucket.load(Ordering::Relaxed);
            if seen >= wanted && seen > 0 {
                return Duration::from_micros(2_u64.saturating_pow(power));
            }
        }
        Duration::ZERO
    }
}

/// A call that is being run. When it is dropped before its end, it was cancelled.
#[derive(Debug)]
pub(super) struct Running {
    counts: Arc<Counts>,
    began: Instant,
    ended: bool,
}

impl Running {
    pub(super) fn end(mut self, ending: Ending<'_>) {
        self.ended = true;
        let micros = u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX);
        let counts = &self.counts;
        let count = if failed(ending) { &counts.failed } else { &counts.worked };
        count.fetch_add(1, Ordering::Relaxed);
        counts.micros.fetch_add(micros, Ordering::Relaxed);
        counts.longest.fetch_max(micros, Ordering::Relaxed);
        let power = u64::BITS - micros.saturating_sub(1).leading_zeros();
        let power = usize::try_from(power).unwrap_or(BUCKETS).min(BUCKETS - 1);
        if let Some(bucket) = counts.buckets.get(power) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.counts.running.fetch_sub(1, Ordering::Relaxed);
        if !self.ended {
            self.counts.cancelled.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn failed(ending: Ending<'_>) -> bool {
    match ending {
        Ending::Outcome(Outcome::Text { failed, .. }) => *failed,
        // A result is not opened for this: the key is enough, and inside of texts its quotes are escaped.
        Ending::Outcome(Outcome::Raw(raw)) => {
            let after = raw.get().split_once("\"isError\"").map(|(_, after)| after.trim_start());
            after
                .and_then(|after| after.strip_prefix(':'))
                .is_some_and(|value| value.trim_start().starts_with("true"))
        }
        Ending::Outcome(Outcome::InputRequired(_)) => false,
        Ending::Bulk(bulk) => bulk.failed(),
        Ending::Error(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use muster_core::{call::Outcome, json::raw, name::BackendName};
    use serde_json::json;

    use super::{Ending, Tally};

    #[test]
    fn every_call_is_counted_once_by_how_it_ended() {
        let tally = Tally::default();
        let name = BackendName::new("a");
        tally.begin(&name).end(Ending::Outcome(&Outcome::text("x")));
        tally.begin(&name).end(Ending::Outcome(&Outcome::failure("x")));
        tally.begin(&name).end(Ending::Outcome(&Outcome::Raw(raw(&json!({"isError": true})))));
        let quoted = json!({"content": [{"text": "{\"isError\":true}"}], "isError": false});
        tally.begin(&name).end(Ending::Outcome(&Outcome::Raw(raw(&quoted))));
        drop(tally.begin(&name));
        let _running = tally.begin(&name);
        let counted = tally.counted()[&name];
        assert_eq!((counted.worked, counted.failed), (2, 2));
        assert_eq!((counted.cancelled, counted.running), (1, 1));
        assert!(counted.longest >= counted.average);
        assert!(!counted.most.is_zero());
    }
}
