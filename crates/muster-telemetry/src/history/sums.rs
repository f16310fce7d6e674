//! Calls in numbers, and those of whole segments in memory.
//!
//! A segment never changes once the next one has begun, so that its calls are counted once: a page that shows the numbers
//! of a day every few seconds would otherwise read the whole history each time.

use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};

use muster_api::calls::{CallStats, CallTotals, HourCalls, ToolCalls};
use muster_core::{lock::Lock, observer::CallStatus};

use super::{
    codec::StoredCall,
    query::{milliseconds, time},
};

/// The length of an hour in microseconds.
pub(super) const HOUR: u64 = 3_600_000_000;
/// The number of tools in all segments that are kept. The oldest segments beyond it are counted again each time.
const MAX_TOOLS: usize = 16 * 1024;

/// The numbers of whole segments, by the id of their first call.
#[derive(Debug, Default)]
pub(crate) struct SegmentSums(Lock<BTreeMap<u64, Arc<CallSums>>>);

impl SegmentSums {
    /// The numbers of a segment, if they are known.
    pub(super) fn get(&self, first: u64) -> Option<Arc<CallSums>> {
        self.0.lock().get(&first).map(Arc::clone)
    }

    /// Keeps the numbers of a segment, and evicts the oldest ones if there are too many.
    pub(super) fn put(&self, first: u64, mut sums: CallSums) {
        let mut known = self.0.lock();
        // Most tools are called in every segment.
        if let Some((_, newest)) = known.last_key_value() {
            let tools = std::mem::take(&mut sums.tools).into_iter();
            let shared =
                |name| newest.tools.get_key_value(&name).map_or(name, |(same, _)| same.clone());
            sums.tools = tools.map(|(name, sum)| (shared(name), sum)).collect();
        }
        known.insert(first, Arc::new(sums));
        let mut kept: usize = known.values().map(|sums| sums.tools.len()).sum();
        while kept > MAX_TOOLS
            && let Some((_, oldest)) = known.pop_first()
        {
            kept -= oldest.tools.len();
        }
    }

    /// Forgets the segments that do not exist any more.
    pub(super) fn retain(&self, exists: impl Fn(u64) -> bool) {
        self.0.lock().retain(|first, _| exists(*first));
    }
}

/// Some calls in numbers: all, by tool, and by hour.
#[derive(Debug, Default)]
pub(super) struct CallSums {
    total: Sum,
    tools: BTreeMap<(Arc<str>, Arc<str>), Sum>,
    hours: BTreeMap<u64, Sum>,
    /// When the first and the last of them began.
    pub(super) began: Option<(u64, u64)>,
}

impl CallSums {
    /// The numbers of some calls of one segment.
    pub(super) fn of<'a>(calls: impl Iterator<Item = StoredCall<'a>>) -> Self {
        let mut sums = Self::default();
        let mut tools: BTreeMap<(&str, &str), Sum> = BTreeMap::new();
        for call in calls {
            let (first, last) = sums.began.unwrap_or((call.began, call.began));
            sums.began = Some((first.min(call.began), last.max(call.began)));
            let sum = Sum::of(&call);
            sums.total.merge(&sum);
            tools.entry((call.server, call.tool)).or_default().merge(&sum);
            sums.hours.entry(call.began / HOUR).or_default().merge(&sum);
        }
        let named = |((server, tool), sum): ((&str, &str), Sum)| {
            ((Arc::from(server), Arc::from(tool)), sum)
        };
        sums.tools = tools.into_iter().map(named).collect();
        sums
    }

    /// The number of calls.
    pub(super) const fn calls(&self) -> u64 {
        self.total.calls
    }

    /// Adds other calls.
    pub(super) fn merge(&mut self, other: &Self) {
        self.total.merge(&other.total);
        for (name, sum) in &other.tools {
            match self.tools.get_mut(name) {
                Some(known) => known.merge(sum),
                None => drop(self.tools.insert(name.clone(), *sum)),
            }
        }
        for (hour, sum) in &other.hours {
            self.hours.entry(*hour).or_default().merge(sum);
        }
        self.began = match (self.began, other.began) {
            (Some((first, last)), Some((begin, end))) => Some((first.min(begin), last.max(end))),
            (one, other) => one.or(other),
        };
    }

    /// The reply, with at most `limit` tools.
    pub(super) fn into_stats(self, limit: usize) -> CallStats {
        let tool_count = self.tools.len();
        let mut tools: Vec<_> = self.tools.into_iter().collect();
        tools.sort_by_key(|(_, sum)| Reverse(sum.calls));
        tools.truncate(limit);
        let tools = tools.into_iter();
        let tools = tools
            .map(|((server, tool), sum)| ToolCalls {
                server: server.to_string(),
                tool: tool.to_string(),
                totals: sum.totals(),
            })
            .collect();
        let hour =
            |(hour, sum): (u64, Sum)| HourCalls { hour: time(hour * HOUR), totals: sum.totals() };
        CallStats {
            since: self.began.map(|(first, _)| time(first)).unwrap_or_default(),
            total: self.total.totals(),
            tools,
            tool_count,
            hours: self.hours.into_iter().map(hour).collect(),
        }
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    calls: u64,
    errors: u64,
    timed: u64,
    micros: u64,
    longest: u64,
    result_bytes: u64,
}

impl Sum {
    fn of(call: &StoredCall<'_>) -> Self {
        let timed = call.backend_micros.filter(|_| call.status != CallStatus::Cancelled);
        Self {
            calls: 1,
            errors: u64::from(call.status.is_error()),
            timed: u64::from(timed.is_some()),
            micros: timed.unwrap_or_default(),
            longest: timed.unwrap_or_default(),
            result_bytes: call.result_bytes,
        }
    }

    fn merge(&mut self, other: &Self) {
        self.calls += other.calls;
        self.errors += other.errors;
        self.timed += other.timed;
        self.micros = self.micros.saturating_add(other.micros);
        self.longest = self.longest.max(other.longest);
        self.result_bytes = self.result_bytes.saturating_add(other.result_bytes);
    }

    fn totals(&self) -> CallTotals {
        CallTotals {
            calls: self.calls,
            errors: self.errors,
            average_ms: milliseconds(self.micros.checked_div(self.timed).unwrap_or_default()),
            longest_ms: milliseconds(self.longest),
            result_bytes: self.result_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{CallSums, MAX_TOOLS, SegmentSums, Sum};

    fn segment(tools: usize) -> CallSums {
        let tools = (0..tools).map(|n| (("s".into(), n.to_string().into()), Sum::default()));
        CallSums { tools: tools.collect(), ..CallSums::default() }
    }

    #[test]
    fn the_newest_segments_are_kept() {
        let sums = SegmentSums::default();
        let third = MAX_TOOLS / 3;
        let known = |sums: &SegmentSums| -> Vec<u64> {
            (1..=5).filter(|first| sums.get(*first).is_some()).collect()
        };
        for (first, tools, expected) in [
            (2, third, &[2][..]),
            (3, third, &[2, 3]),
            (4, third, &[2, 3, 4]),
            (5, third, &[3, 4, 5]),
            (1, third, &[3, 4, 5]),
            (5, MAX_TOOLS, &[5]),
        ] {
            sums.put(first, segment(tools));
            assert_eq!(known(&sums), expected, "{first}");
        }
    }
}
