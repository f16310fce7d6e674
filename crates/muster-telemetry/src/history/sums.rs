//! Calls in numbers, and those of whole segments in memory.
//!
//! A segment never changes once the next one has begun, so that its calls are counted once: a page that shows the numbers
//! of a day every few seconds would otherwise read the whole history each time.

use std::{collections::BTreeMap, sync::Arc};

use indexmap::IndexMap;
use muster_api::calls::{CallStats, CallTotals, HourCalls, ToolCalls};
use muster_core::{lock::Lock, observer::CallStatus};

use super::{
    codec::StoredCall,
    query::{milliseconds, time},
};

/// The length of an hour in microseconds.
pub(super) const HOUR: u64 = 3_600_000_000;
/// The number of tools in all segments that are kept. The oldest segments beyond it are counted again each time.
const MAX_TOOLS: usize = 64 * 1024;

/// The numbers of whole segments, by the id of their first call.
#[derive(Debug, Default)]
pub(crate) struct SegmentSums(Lock<BTreeMap<u64, Arc<CallSums>>>);

impl SegmentSums {
    /// The numbers of a segment, if they are known.
    pub(super) fn get(&self, first: u64) -> Option<Arc<CallSums>> {
        self.0.lock().get(&first).map(Arc::clone)
    }

    /// Keeps the numbers of a segment, and evicts the oldest ones if there are too many.
    pub(super) fn put(&self, first: u64, sums: CallSums) {
        let mut known = self.0.lock();
        // Most tools are called in every segment.
        let sums = match known.last_key_value() {
            Some((_, newest)) => sums.sharing_names(newest),
            None => sums,
        };
        known.insert(first, Arc::new(sums));
        let mut kept: usize = known.values().map(|sums| sums.tools()).sum();
        while kept > MAX_TOOLS
            && let Some((_, oldest)) = known.pop_first()
        {
            kept -= oldest.tools();
        }
    }

    /// Forgets the segments that do not exist any more.
    pub(super) fn retain(&self, exists: impl Fn(u64) -> bool) {
        self.0.lock().retain(|first, _| exists(*first));
    }
}

/// The calls of tools by server and tool. Hashed: a history has ten thousand names, which are looked up with every call.
type ToolSums = IndexMap<Arc<str>, IndexMap<Arc<str>, Sum>>;

/// The calls of a tool, its server and the tool.
type Named<'a> = (&'a Sum, &'a Arc<str>, &'a Arc<str>);

/// Some calls in numbers: all, by tool, and by hour.
#[derive(Debug, Default)]
pub(super) struct CallSums {
    total: Sum,
    tools: ToolSums,
    hours: BTreeMap<u64, Sum>,
    /// When the first and the last of them began.
    pub(super) began: Option<(u64, u64)>,
}

/// The value of a name, which is copied if it is new.
fn entry<'a, V: Default>(map: &'a mut IndexMap<Arc<str>, V>, name: &str) -> &'a mut V {
    // Found or just inserted.
    let at = map.get_index_of(name).unwrap_or_else(|| map.insert_full(name.into(), V::default()).0);
    &mut map[at]
}

impl CallSums {
    /// Adds a call.
    pub(super) fn add(&mut self, call: &StoredCall<'_>) {
        let (first, last) = self.began.unwrap_or((call.began, call.began));
        self.began = Some((first.min(call.began), last.max(call.began)));
        let sum = Sum::of(call);
        self.total.merge(&sum);
        entry(entry(&mut self.tools, call.server), call.tool).merge(&sum);
        self.hours.entry(call.began / HOUR).or_default().merge(&sum);
    }

    /// The number of calls.
    pub(super) const fn calls(&self) -> u64 {
        self.total.calls
    }

    /// The number of tools.
    fn tools(&self) -> usize {
        self.tools.values().map(IndexMap::len).sum()
    }

    /// Adds other calls.
    pub(super) fn merge(&mut self, other: &Self) {
        self.total.merge(&other.total);
        for (server, sums) in &other.tools {
            let tools = match self.tools.get_mut(server) {
                Some(known) => known,
                None => self.tools.entry(Arc::clone(server)).or_default(),
            };
            for (tool, sum) in sums {
                match tools.get_mut(tool) {
                    Some(known) => known.merge(sum),
                    None => drop(tools.insert(Arc::clone(tool), *sum)),
                }
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

    /// The same with the names of other sums where they are equal.
    fn sharing_names(mut self, other: &Self) -> Self {
        let servers = std::mem::take(&mut self.tools).into_iter();
        self.tools = servers
            .map(|(server, tools)| {
                let Some((same, known)) = other.tools.get_key_value(&server) else {
                    return (server, tools);
                };
                let shared =
                    |tool| known.get_key_value(&tool).map_or(tool, |(same, _)| same.clone());
                (
                    Arc::clone(same),
                    tools.into_iter().map(|(tool, sum)| (shared(tool), sum)).collect(),
                )
            })
            .collect();
        self
    }

    /// The reply, with at most `limit` tools.
    pub(super) fn into_stats(self, limit: usize) -> CallStats {
        let tool_count = self.tools();
        let tools = self.tools.iter();
        let mut tools: Vec<_> = tools
            .flat_map(|(server, tools)| tools.iter().map(move |(tool, sum)| (sum, server, tool)))
            .collect();
        let order = |one: &Named<'_>, other: &Named<'_>| {
            let ((sum, server, tool), (sums, servers, tools)) = (one, other);
            sums.calls.cmp(&sum.calls).then_with(|| (server, tool).cmp(&(servers, tools)))
        };
        // Of ten thousand tools, a page shows a few.
        if limit < tools.len() {
            tools.select_nth_unstable_by(limit, order);
            tools.truncate(limit);
        }
        tools.sort_unstable_by(order);
        let tools = tools.into_iter();
        let tools = tools
            .map(|(sum, server, tool)| ToolCalls {
                server: server.to_string(),
                tool: tool.to_string(),
                totals: sum.totals(),
            })
            .collect();
        let hour =
            |(hour, sum): (&u64, &Sum)| HourCalls { hour: time(hour * HOUR), totals: sum.totals() };
        CallStats {
            since: self.began.map(|(first, _)| time(first)).unwrap_or_default(),
            total: self.total.totals(),
            tools,
            tool_count,
            hours: self.hours.iter().map(hour).collect(),
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
        let tools = (0..tools).map(|n| (n.to_string().into(), Sum::default())).collect();
        CallSums { tools: [("s".into(), tools)].into(), ..CallSums::default() }
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
