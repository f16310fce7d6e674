//! Metrics of calls by backend: counts and durations, never tools or arguments.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use muster_core::name::BackendName;
use tokio::sync::watch;

/// Histogram buckets: powers of two of microseconds, up to half an hour.
const BUCKETS: usize = 31;

/// The metrics of all backends since the gateway started. Clones share the counters.
#[derive(Debug, Clone)]
pub struct CallMetrics {
    backends: watch::Sender<Backends>,
    started: Instant,
}

/// Read with every call, written with the first call of a backend.
type Backends = Arc<BTreeMap<BackendName, Arc<Counts>>>;

impl Default for CallMetrics {
    fn default() -> Self {
        Self { backends: watch::Sender::default(), started: Instant::now() }
    }
}

#[derive(Debug)]
struct Counts {
    running: AtomicU64,
    succeeded: AtomicU64,
    failed: AtomicU64,
    cancelled: AtomicU64,
    /// The total duration of finished calls, in microseconds.
    micros: AtomicU64,
    longest: AtomicU64,
    buckets: [AtomicU64; BUCKETS],
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            running: AtomicU64::new(0),
            succeeded: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            cancelled: AtomicU64::new(0),
            micros: AtomicU64::new(0),
            longest: AtomicU64::new(0),
            buckets: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }
}

/// The metrics of one backend at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct BackendMetrics {
    /// Calls in progress.
    pub running: u64,
    /// Calls that succeeded.
    pub succeeded: u64,
    /// Calls that did not run, or whose result is an error.
    pub failed: u64,
    /// Calls that were cancelled.
    pub cancelled: u64,
    /// The average duration.
    pub average: Duration,
    /// The 95th percentile of the duration, rounded up to a power of two.
    pub p95: Duration,
    /// The longest duration.
    pub longest: Duration,
}

impl CallMetrics {
    /// The time since the gateway started.
    pub fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    /// The metrics of every backend that was called.
    pub fn backends(&self) -> BTreeMap<BackendName, BackendMetrics> {
        let backends = Arc::clone(&self.backends.borrow());
        backends.iter().map(|(name, counts)| (name.clone(), counts.now())).collect()
    }

    /// Counts a call that begins.
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
    fn now(&self) -> BackendMetrics {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let (succeeded, failed) = (read(&self.succeeded), read(&self.failed));
        let ended = succeeded + failed;
        BackendMetrics {
            running: read(&self.running),
            succeeded,
            failed,
            cancelled: read(&self.cancelled),
            average: Duration::from_micros(read(&self.micros).checked_div(ended).unwrap_or(0)),
            p95: self.p95(ended),
            longest: Duration::from_micros(read(&self.longest)),
        }
    }

    fn p95(&self, ended: u64) -> Duration {
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

/// A call in progress. A call that is dropped before its end counts as cancelled.
#[derive(Debug)]
pub(super) struct Running {
    counts: Arc<Counts>,
    began: Instant,
    ended: bool,
}

impl Running {
    pub(super) fn end(mut self, failed: bool) {
        self.ended = true;
        let micros = u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX);
        let counts = &self.counts;
        let count = if failed { &counts.failed } else { &counts.succeeded };
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

#[cfg(test)]
mod tests {
    use muster_core::name::BackendName;

    use super::CallMetrics;

    #[test]
    fn every_call_is_counted_once() {
        let metrics = CallMetrics::default();
        let name = BackendName::new("a");
        for failed in [false, true, true, false] {
            metrics.begin(&name).end(failed);
        }
        drop(metrics.begin(&name));
        let _running = metrics.begin(&name);
        let counted = metrics.backends()[&name];
        assert_eq!((counted.succeeded, counted.failed), (2, 2));
        assert_eq!((counted.cancelled, counted.running), (1, 1));
        assert!(counted.longest >= counted.average);
        assert!(!counted.p95.is_zero());
    }
}
