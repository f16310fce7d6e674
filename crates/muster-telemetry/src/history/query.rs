//! Queries of the history.
//!
//! A query reads segments from the newest to the oldest, one at a time, and stops when it has enough. There is no
//! index: a hundred thousand calls are a few megabytes, which are scanned in milliseconds.

use std::{
    cmp::Reverse,
    collections::BTreeMap,
    io,
    path::Path,
    time::{Duration, SystemTime},
};

use muster_api::calls::{CallInfo, CallList, CallStats, CallTotals, HourCalls, ToolCalls};
use muster_core::{call::Role, json::Raw, observer::CallStatus};
use serde_json::value::RawValue;

use super::{
    codec::{SegmentReader, StoredCall},
    segment::{Segment, segments},
};

/// The length of an hour in microseconds.
const HOUR: u64 = 3_600_000_000;

/// A selection of calls. An empty field matches everything.
#[derive(Debug, Clone, Default)]
pub struct CallFilter {
    /// The server.
    pub server: Option<String>,
    /// The tool.
    pub tool: Option<String>,
    /// The subject of the caller, or the name of the caller's token.
    pub caller: Option<String>,
    /// How the call ended.
    pub status: Option<StatusFilter>,
    /// Calls that began at this time or later.
    pub since: Option<SystemTime>,
    /// Calls that began at this time or earlier.
    pub until: Option<SystemTime>,
    /// Calls with a smaller id.
    pub before: Option<u64>,
    /// Calls with a greater id.
    pub after: Option<u64>,
}

/// How selected calls ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusFilter {
    /// With this status.
    Is(CallStatus),
    /// With any error.
    AnyError,
}

/// A filter, ready to be compared with many calls.
struct Matcher<'a> {
    filter: &'a CallFilter,
    since: u64,
    until: u64,
}

impl<'a> Matcher<'a> {
    fn new(filter: &'a CallFilter) -> Self {
        let since = filter.since.map_or(0, micros);
        Self { filter, since, until: filter.until.map_or(u64::MAX, micros) }
    }

    fn takes(&self, call: &StoredCall<'_>) -> bool {
        let CallFilter { server, tool, caller, status, before, after, .. } = self.filter;
        let is = |wanted: &Option<String>, found: &str| {
            wanted.as_ref().is_none_or(|wanted| wanted == found)
        };
        (self.since..=self.until).contains(&call.began)
            && before.is_none_or(|before| call.id < before)
            && after.is_none_or(|after| call.id > after)
            && status.is_none_or(|status| match status {
                StatusFilter::Is(status) => call.status == status,
                StatusFilter::AnyError => call.status.is_error(),
            })
            && is(server, call.server)
            && is(tool, call.tool)
            && caller.as_ref().is_none_or(|who| *who == call.subject || *who == call.token)
    }

    /// The segments that may hold such calls, newest first, each with its bytes.
    fn segments(&self, folder: &Path) -> impl Iterator<Item = io::Result<Vec<u8>>> + use<> {
        let mut all = segments(folder);
        // A segment ends where the next one begins.
        let ends: Vec<u64> = all.iter().skip(1).map(|next| next.first).chain([u64::MAX]).collect();
        let (before, after) = (self.filter.before, self.filter.after);
        let mut ends = ends.into_iter();
        all.retain(|segment| {
            let end = ends.next().unwrap_or(u64::MAX);
            before.is_none_or(|before| segment.first < before)
                && after.is_none_or(|after| end > after.saturating_add(1))
        });
        all.into_iter().rev().map(|segment: Segment| segment.read())
    }
}

/// At most `limit` calls, newest first, and whether there are more.
pub(super) fn list(folder: &Path, filter: &CallFilter, limit: usize) -> io::Result<CallList> {
    let matcher = Matcher::new(filter);
    let mut calls = Vec::new();
    for bytes in matcher.segments(folder) {
        let bytes = bytes?;
        let Some(reader) = SegmentReader::new(&bytes) else { continue };
        let mut oldest = u64::MAX;
        let mut found: Vec<StoredCall<'_>> = Vec::new();
        for call in reader {
            oldest = oldest.min(call.began);
            if matcher.takes(&call) {
                found.push(call);
            }
        }
        for call in found.iter().rev() {
            if calls.len() == limit {
                let next = calls.last().map(|last: &CallInfo| last.id);
                return Ok(CallList { calls, next });
            }
            calls.push(CallInfo { arguments: None, ..info(call) });
        }
        // Calls are stored in the order of their ends. None takes longer than a day.
        if oldest.saturating_add(24 * HOUR) < matcher.since {
            break;
        }
    }
    Ok(CallList { calls, next: None })
}

/// One call in full.
pub(super) fn get(folder: &Path, id: u64) -> io::Result<Option<CallInfo>> {
    let holder = segments(folder).into_iter().rev().find(|segment| segment.first <= id);
    let Some(holder) = holder else { return Ok(None) };
    let bytes = holder.read()?;
    let found = SegmentReader::new(&bytes).into_iter().flatten().find(|call| call.id == id);
    Ok(found.as_ref().map(info))
}

/// The calls in numbers: all, by tool, and by hour.
pub(super) fn stats(folder: &Path, filter: &CallFilter) -> io::Result<CallStats> {
    let matcher = Matcher::new(filter);
    let mut total = Sum::default();
    let mut tools: BTreeMap<(String, String), Sum> = BTreeMap::new();
    let mut hours: BTreeMap<u64, Sum> = BTreeMap::new();
    let mut first = u64::MAX;
    for bytes in matcher.segments(folder) {
        let bytes = bytes?;
        let Some(reader) = SegmentReader::new(&bytes) else { continue };
        let mut by_name: BTreeMap<(&str, &str), Sum> = BTreeMap::new();
        let mut oldest = u64::MAX;
        for call in reader {
            oldest = oldest.min(call.began);
            if matcher.takes(&call) {
                first = first.min(call.began);
                total.add(&call);
                by_name.entry((call.server, call.tool)).or_default().add(&call);
                hours.entry(call.began / HOUR).or_default().add(&call);
            }
        }
        for ((server, tool), sum) in by_name {
            tools.entry((server.to_owned(), tool.to_owned())).or_default().merge(&sum);
        }
        if oldest.saturating_add(24 * HOUR) < matcher.since {
            break;
        }
    }
    let mut tools: Vec<ToolCalls> = tools
        .into_iter()
        .map(|((server, tool), sum)| ToolCalls { server, tool, totals: sum.totals() })
        .collect();
    tools.sort_by_key(|tool| Reverse(tool.totals.calls));
    let hours = hours.into_iter();
    let hours =
        hours.map(|(hour, sum)| HourCalls { hour: time(hour * HOUR), totals: sum.totals() });
    let since = if first == u64::MAX { String::new() } else { time(first) };
    Ok(CallStats { since, total: total.totals(), tools, hours: hours.collect() })
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
    fn add(&mut self, call: &StoredCall<'_>) {
        let timed = call.backend_micros.filter(|_| call.status != CallStatus::Cancelled);
        self.merge(&Self {
            calls: 1,
            errors: u64::from(call.status.is_error()),
            timed: u64::from(timed.is_some()),
            micros: timed.unwrap_or_default(),
            longest: timed.unwrap_or_default(),
            result_bytes: call.result_bytes,
        });
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

/// A stored call as a reply shows it.
fn info(call: &StoredCall<'_>) -> CallInfo {
    let arguments = || -> Option<Raw> { RawValue::from_string(call.arguments.to_owned()).ok() };
    CallInfo {
        id: call.id,
        time: time(call.began),
        tool: call.tool.to_owned(),
        server: call.server.to_owned(),
        status: call.status.as_str().to_owned(),
        duration_ms: milliseconds(call.micros),
        server_ms: call.backend_micros.map(milliseconds),
        caller: call.subject.to_owned(),
        token: call.token.to_owned(),
        role: match call.role {
            Role::Agent => "agent",
            Role::Operator => "operator",
        }
        .to_owned(),
        surface: call.surface.to_owned(),
        effect: call.effect.map(|effect| effect.to_string()).unwrap_or_default(),
        rule: call.rule.to_owned(),
        depth: call.depth.into(),
        argument_bytes: call.argument_bytes,
        result_bytes: call.result_bytes,
        error: call.error.to_owned(),
        arguments: if call.arguments.is_empty() { None } else { arguments() },
    }
}

/// Microseconds since 1970.
pub(super) fn micros(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

fn time(micros: u64) -> String {
    let micros = i64::try_from(micros).unwrap_or(i64::MAX);
    jiff::Timestamp::from_microsecond(micros).map(|time| time.to_string()).unwrap_or_default()
}

#[expect(clippy::cast_precision_loss, reason = "durations of centuries are exact")]
fn milliseconds(micros: u64) -> f64 {
    micros as f64 / 1e3
}
