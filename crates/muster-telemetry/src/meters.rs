//! Counters of calls by server and tool: how they ended and how long they took.

use std::{
    array,
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use muster_core::{
    catalog::ToolEntry,
    name::{BackendName, ToolName},
    observer::{CallStatus, FinishedCall},
};
use tokio::sync::watch;

/// The upper bounds of the histogram's buckets, in microseconds. The last bucket has none.
pub(crate) const BOUNDS: [u64; 17] = [
    250,
    500,
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    60_000_000,
    300_000_000,
];
/// The number of buckets.
const BUCKETS: usize = BOUNDS.len() + 1;
/// The number of statuses.
const STATUSES: usize = CallStatus::ALL.len();
/// The number of tools with counters of their own. The calls of all others of a server are counted together.
const MAX_TOOLS: usize = 1_000;
/// The name for tools without counters of their own.
const OTHER_TOOLS: &str = "other";

/// The counters of all servers since the gateway started.
#[derive(Debug)]
pub struct CallMeters {
    servers: watch::Sender<Servers>,
    /// The number of tools with counters of their own.
    tools: AtomicUsize,
    /// Calls of tools that do not exist.
    unknown: ToolMeter,
    started: Instant,
}

/// Read with every call, written with the first call of a server.
type Servers = Arc<BTreeMap<BackendName, Arc<ServerMeter>>>;

/// The counters of one server.
#[derive(Debug, Default)]
struct ServerMeter {
    running: AtomicU64,
    tools: watch::Sender<Arc<BTreeMap<ToolName, Arc<ToolMeter>>>>,
    /// Tools without counters of their own.
    other: ToolMeter,
}

/// The counters of one tool.
#[derive(Debug)]
struct ToolMeter {
    by_status: [AtomicU64; STATUSES],
    buckets: [AtomicU64; BUCKETS],
    /// The total duration of the calls in the buckets, in microseconds.
    micros: AtomicU64,
    longest: AtomicU64,
    result_bytes: AtomicU64,
}

/// What the counters of a tool, or of all tools of a server, say at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub struct CallCounts {
    by_status: [u64; STATUSES],
    pub(crate) buckets: [u64; BUCKETS],
    pub(crate) micros: u64,
    longest: u64,
    /// The bytes of all results.
    pub result_bytes: u64,
}

/// The counters of one server at one moment.
#[derive(Debug, Clone, Default)]
pub struct ServerCounts {
    /// Calls in progress.
    pub running: u64,
    /// All its calls.
    pub all: CallCounts,
    /// Its calls by tool. Tools beyond the limit are counted as `other`.
    pub tools: BTreeMap<ToolName, CallCounts>,
}

impl Default for CallMeters {
    fn default() -> Self {
        Self {
            servers: watch::Sender::default(),
            tools: AtomicUsize::new(0),
            unknown: ToolMeter::default(),
            started: Instant::now(),
        }
    }
}

impl Default for ToolMeter {
    fn default() -> Self {
        Self {
            by_status: array::from_fn(|_| AtomicU64::new(0)),
            buckets: array::from_fn(|_| AtomicU64::new(0)),
            micros: AtomicU64::new(0),
            longest: AtomicU64::new(0),
            result_bytes: AtomicU64::new(0),
        }
    }
}

impl CallMeters {
    /// The time since the gateway started.
    pub fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    /// The counters of every server that was called.
    pub fn servers(&self) -> BTreeMap<BackendName, ServerCounts> {
        let servers = Arc::clone(&self.servers.borrow());
        servers.iter().map(|(name, meter)| (name.clone(), meter.now())).collect()
    }

    /// The calls of tools that do not exist.
    pub fn unknown(&self) -> CallCounts {
        self.unknown.now()
    }

    /// Counts a call that its backend runs.
    pub(crate) fn running(&self, tool: &ToolEntry) {
        self.server(&tool.backend).running.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a call that is over.
    pub(crate) fn finished(&self, call: &FinishedCall) {
        let Some(entry) = &call.entry else { return self.unknown.count(call) };
        let server = self.server(&entry.backend);
        if call.backend_duration.is_some() {
            server.running.fetch_sub(1, Ordering::Relaxed);
        }
        match self.tool(&server, &entry.name) {
            Some(tool) => tool.count(call),
            None => server.other.count(call),
        }
    }

    fn server(&self, name: &BackendName) -> Arc<ServerMeter> {
        let known = self.servers.borrow().get(name).map(Arc::clone);
        known.unwrap_or_else(|| added(&self.servers, name))
    }

    /// The counters of a tool; none if there are too many tools.
    fn tool(&self, server: &ServerMeter, name: &ToolName) -> Option<Arc<ToolMeter>> {
        let known = server.tools.borrow().get(name).map(Arc::clone);
        if known.is_some() {
            return known;
        }
        // Two first calls of a tool may both be counted here, which wastes a place.
        let is_full = self.tools.fetch_add(1, Ordering::Relaxed) >= MAX_TOOLS;
        if is_full {
            self.tools.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        Some(added(&server.tools, name))
    }
}

/// The value of a new key, or of one that another thread just added.
fn added<K: Ord + Clone, V: Default>(
    map: &watch::Sender<Arc<BTreeMap<K, Arc<V>>>>,
    key: &K,
) -> Arc<V> {
    let mut value = Arc::<V>::default();
    map.send_modify(|map| {
        let entry = Arc::make_mut(map).entry(key.clone());
        value = Arc::clone(entry.or_insert_with(|| Arc::clone(&value)));
    });
    value
}

impl ServerMeter {
    fn now(&self) -> ServerCounts {
        let tools = Arc::clone(&self.tools.borrow());
        let mut tools: BTreeMap<ToolName, CallCounts> =
            tools.iter().map(|(name, meter)| (name.clone(), meter.now())).collect();
        let other = self.other.now();
        if other.calls() > 0 {
            tools.entry(ToolName::new(OTHER_TOOLS)).or_default().add(&other);
        }
        let mut all = CallCounts::default();
        tools.values().for_each(|counts| all.add(counts));
        ServerCounts { running: self.running.load(Ordering::Relaxed), all, tools }
    }
}

impl ToolMeter {
    fn count(&self, call: &FinishedCall) {
        let add = |counter: Option<&AtomicU64>, number| {
            if let Some(counter) = counter {
                counter.fetch_add(number, Ordering::Relaxed);
            }
        };
        add(self.by_status.get(call.status.number()), 1);
        add(Some(&self.result_bytes), call.result_bytes);
        // Only calls that ran to their end say how long the tool takes.
        let Some(duration) = call.backend_duration else { return };
        if call.status == CallStatus::Cancelled {
            return;
        }
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        add(self.buckets.get(BOUNDS.partition_point(|bound| *bound < micros)), 1);
        add(Some(&self.micros), micros);
        self.longest.fetch_max(micros, Ordering::Relaxed);
    }

    fn now(&self) -> CallCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        CallCounts {
            by_status: self.by_status.each_ref().map(read),
            buckets: self.buckets.each_ref().map(read),
            micros: read(&self.micros),
            longest: read(&self.longest),
            result_bytes: read(&self.result_bytes),
        }
    }
}

impl CallCounts {
    /// The number of calls that ended with `status`.
    pub fn ended(&self, status: CallStatus) -> u64 {
        self.by_status.get(status.number()).copied().unwrap_or_default()
    }

    /// The number of calls that are over.
    pub fn calls(&self) -> u64 {
        self.by_status.iter().sum()
    }

    /// The number of calls that ended with an error.
    pub fn errors(&self) -> u64 {
        let errors = CallStatus::ALL.into_iter().filter(|status| status.is_error());
        errors.map(|status| self.ended(status)).sum()
    }

    /// The number of calls that ran to their end.
    pub fn timed(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The average duration.
    pub fn average(&self) -> Duration {
        Duration::from_micros(self.micros.checked_div(self.timed()).unwrap_or(0))
    }

    /// The longest duration.
    pub const fn longest(&self) -> Duration {
        Duration::from_micros(self.longest)
    }

    /// The 95th percentile of the duration, rounded up to the bound of its bucket.
    pub fn p95(&self) -> Duration {
        let timed = self.timed();
        let wanted = timed - timed / 20;
        let mut seen = 0;
        for (bucket, bound) in self.buckets.iter().zip(BOUNDS) {
            seen += bucket;
            if seen >= wanted && seen > 0 {
                return Duration::from_micros(bound.min(self.longest));
            }
        }
        self.longest()
    }

    /// Adds the counts of another tool.
    fn add(&mut self, other: &Self) {
        let sum = |into: &mut [u64], from: &[u64]| {
            into.iter_mut().zip(from).for_each(|(into, from)| *into += from);
        };
        sum(&mut self.by_status, &other.by_status);
        sum(&mut self.buckets, &other.buckets);
        self.micros += other.micros;
        self.longest = self.longest.max(other.longest);
        self.result_bytes += other.result_bytes;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use muster_core::{name::BackendName, observer::CallStatus};

    use super::{CallMeters, MAX_TOOLS};
    use crate::fixture::{entry, finished};

    #[test]
    fn every_call_is_counted_once() {
        let meters = CallMeters::default();
        let tool = entry("a", "x_a_t");
        for (status, micros) in [
            (CallStatus::Ok, Some(400)),
            (CallStatus::Failed, Some(3_000)),
            (CallStatus::Cancelled, Some(9)),
            (CallStatus::Denied, None),
        ] {
            if micros.is_some() {
                meters.running(&tool);
            }
            meters.finished(&finished(Some(&tool), status, micros));
        }
        meters.running(&tool);
        meters.finished(&finished(None, CallStatus::Unknown, None));
        let server = &meters.servers()[&BackendName::new("a")];
        assert_eq!((server.running, server.all.calls(), server.all.errors()), (1, 4, 2));
        assert_eq!((server.all.timed(), server.all.ended(CallStatus::Cancelled)), (2, 1));
        assert_eq!(server.all.average(), Duration::from_micros(1_700));
        assert_eq!(server.all.p95(), Duration::from_micros(3_000));
        assert_eq!(meters.unknown().calls(), 1);
    }

    #[test]
    fn tools_beyond_the_limit_are_counted_together() {
        let meters = CallMeters::default();
        for number in 0..MAX_TOOLS + 5 {
            let tool = entry("a", &format!("t{number}"));
            meters.running(&tool);
            meters.finished(&finished(Some(&tool), CallStatus::Ok, Some(1)));
        }
        let server = &meters.servers()[&BackendName::new("a")];
        assert_eq!(server.tools.len(), MAX_TOOLS + 1);
        assert_eq!(server.tools["other"].calls(), 5);
        assert_eq!(server.all.calls(), MAX_TOOLS as u64 + 5);
    }
}
