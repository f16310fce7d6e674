//! Queries of the history.
//!
//! A query reads segments from the newest to the oldest, one at a time, and stops when it has enough. There is no
//! index: a hundred thousand calls are a few megabytes, which are scanned in milliseconds. Only the numbers of whole
//! segments are kept in memory.

use std::{
    collections::VecDeque,
    io,
    path::Path,
    time::{Duration, SystemTime},
};

use muster_api::calls::{CallInfo, CallList, CallStats};
use muster_core::{json::Raw, observer::CallStatus};
use serde_json::value::RawValue;

use super::{
    codec::{SegmentReader, StoredCall},
    segment::{Segment, segments},
    sums::{CallSums, HOUR, SegmentSums},
};

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

    /// Whether it takes every call of a segment.
    fn takes_all(&self, sums: &CallSums) -> bool {
        let CallFilter { server, tool, caller, status, before, after, since: _, until: _ } =
            self.filter;
        let names = [server, tool, caller];
        names.iter().all(|name| name.is_none())
            && (status.is_none() && before.is_none() && after.is_none())
            && sums.began.is_some_and(|(first, last)| self.since <= first && last <= self.until)
    }

    /// Of all segments those that may hold such calls, newest first.
    fn segments(&self, mut all: Vec<Segment>) -> impl Iterator<Item = Segment> + use<> {
        // A segment ends where the next one begins.
        let ends: Vec<u64> = all.iter().skip(1).map(|next| next.first).chain([u64::MAX]).collect();
        let (before, after) = (self.filter.before, self.filter.after);
        let mut ends = ends.into_iter();
        all.retain(|segment| {
            let end = ends.next().unwrap_or(u64::MAX);
            before.is_none_or(|before| segment.first < before)
                && after.is_none_or(|after| end > after.saturating_add(1))
        });
        all.into_iter().rev()
    }
}

/// At most `limit` calls, newest first, and whether there are more.
pub(super) fn list(folder: &Path, filter: &CallFilter, limit: usize) -> io::Result<CallList> {
    let matcher = Matcher::new(filter);
    let mut calls = Vec::new();
    for segment in matcher.segments(segments(folder)) {
        let bytes = segment.read()?;
        let Some(reader) = SegmentReader::new(&bytes) else { continue };
        let mut oldest = u64::MAX;
        // The newest calls are the last of the segment. One more than fit says that there are more.
        let wanted = limit - calls.len() + 1;
        let mut found: VecDeque<StoredCall<'_>> = VecDeque::new();
        for call in reader {
            oldest = oldest.min(call.began);
            if matcher.takes(&call) {
                if found.len() == wanted {
                    found.pop_front();
                }
                found.push_back(call);
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

/// The calls in numbers: all, by hour, and by tool for at most `limit` tools.
pub(super) fn stats(
    folder: &Path,
    filter: &CallFilter,
    limit: usize,
    known: &SegmentSums,
) -> io::Result<CallStats> {
    let matcher = Matcher::new(filter);
    let all = segments(folder);
    known.retain(|first| all.iter().any(|segment| segment.first == first));
    let newest = all.last().map(|segment| segment.first);
    let mut sums = CallSums::default();
    for segment in matcher.segments(all) {
        let complete = known.get(segment.first).filter(|sums| matcher.takes_all(sums));
        if let Some(complete) = complete {
            sums.merge(&complete);
            continue;
        }
        let bytes = segment.read()?;
        let Some(reader) = SegmentReader::new(&bytes) else { continue };
        let (mut oldest, mut calls) = (u64::MAX, 0);
        let mut taken = CallSums::default();
        for call in reader {
            oldest = oldest.min(call.began);
            calls += 1;
            if matcher.takes(&call) {
                taken.add(&call);
            }
        }
        if sums.calls() == 0 && newest == Some(segment.first) {
            sums = taken;
        } else {
            sums.merge(&taken);
            if taken.calls() == calls && newest != Some(segment.first) {
                known.put(segment.first, taken);
            }
        }
        if oldest.saturating_add(24 * HOUR) < matcher.since {
            break;
        }
    }
    Ok(sums.into_stats(limit))
}

/// A stored call as a reply shows it.
fn info(call: &StoredCall<'_>) -> CallInfo {
    let arguments = || -> Option<Raw> { RawValue::from_string(call.arguments.to_owned()).ok() };
    CallInfo {
        id: call.id,
        time: time(call.began),
        tool: call.tool.to_owned(),
        server: call.server.to_owned(),
        status: Some(call.status),
        duration_ms: milliseconds(call.micros),
        server_ms: call.backend_micros.map(milliseconds),
        caller: call.subject.to_owned(),
        token: call.token.to_owned(),
        role: Some(call.role),
        surface: call.surface.to_owned(),
        effect: call.effect,
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

pub(super) fn time(micros: u64) -> String {
    let micros = i64::try_from(micros).unwrap_or(i64::MAX);
    jiff::Timestamp::from_microsecond(micros).map(|time| time.to_string()).unwrap_or_default()
}

#[expect(clippy::cast_precision_loss, reason = "durations of centuries are exact")]
pub(super) fn milliseconds(micros: u64) -> f64 {
    micros as f64 / 1e3
}
