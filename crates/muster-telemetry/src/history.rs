//! The history of calls, in files of the state folder.

mod arguments;
mod codec;
mod query;
mod segment;
mod sums;

use std::{
    io,
    path::PathBuf,
    sync::{Arc, Weak},
    time::Duration,
};

use muster_api::calls::{CallInfo, CallList, CallStats};
use muster_core::{
    catalog::ToolEntry, effect::Effect, observer::FinishedCall, policy::Policy, text,
};

pub(crate) use self::sums::SegmentSums;
pub use self::{
    arguments::{KeptArguments, is_shortened},
    query::{CallFilter, StatusFilter},
};
use self::{codec::StoredCall, query::micros, segment::SegmentWriter};

/// The number of tools whose effect and rule are remembered.
const MAX_JUDGED: usize = 64;

/// Where and how long calls are kept.
#[derive(Debug, Clone)]
pub struct HistoryOptions {
    /// The folder, which is created.
    pub folder: PathBuf,
    /// The limit of its size, in bytes.
    pub max_bytes: u64,
    /// How long calls are kept; none for as long as there is room.
    pub max_age: Option<Duration>,
    /// How much of the arguments is kept.
    pub arguments: KeptArguments,
}

/// Writes the history.
#[derive(Debug)]
pub(crate) struct HistoryWriter {
    arguments: KeptArguments,
    segments: SegmentWriter,
    judged: Vec<Judged>,
    /// Whether a write failed; logged once.
    has_failed: bool,
}

/// What a policy says about a tool. Finding it out costs more than the rest of a call.
#[derive(Debug)]
struct Judged {
    entry: Weak<ToolEntry>,
    policy: Weak<Policy>,
    effect: Effect,
    rule: String,
}

impl HistoryWriter {
    /// Continues the history.
    pub(crate) fn open(options: &HistoryOptions) -> io::Result<Self> {
        let HistoryOptions { folder, max_bytes, max_age, arguments } = options;
        let segments = SegmentWriter::open(folder, *max_bytes, *max_age)?;
        Ok(Self { arguments: *arguments, segments, judged: Vec::new(), has_failed: false })
    }

    /// Adds a call to the next write.
    pub(crate) fn add(&mut self, call: &FinishedCall) {
        let arguments = self.arguments.of(call.arguments.as_ref());
        let error = self.arguments.error(call.error.as_ref().map(|error| error.text.as_str()));
        let (effect, rule) = match &call.entry {
            Some(entry) => {
                let judged = judge(&mut self.judged, entry, &call.policy);
                (Some(judged.effect), judged.rule.as_str())
            }
            None => (None, ""),
        };
        let length = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        let duration = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let stored = StoredCall {
            id: 0,
            began: micros(call.began),
            micros: duration(call.duration),
            backend_micros: call.backend_duration.map(duration),
            status: call.status,
            effect,
            role: call.caller.role,
            depth: call.caller.depth,
            argument_bytes: length(call.argument_bytes),
            result_bytes: call.result_bytes,
            subject: &call.caller.subject,
            token: call.caller.token.as_deref().unwrap_or_default(),
            surface: call.surface,
            server: call.entry.as_ref().map_or("", |entry| entry.backend.as_str()),
            tool: &text::shortened(call.tool.as_str()),
            // A call that was refused was permitted by nothing.
            rule: if call.backend_duration.is_some() { rule } else { "" },
            error: &error,
            arguments: &arguments,
        };
        let added = self.segments.add(&stored);
        self.check(added);
    }

    /// Writes the calls that were added.
    pub(crate) fn flush(&mut self) {
        let written = self.segments.flush();
        self.check(written);
        self.segments.sweep();
    }

    fn check(&mut self, written: io::Result<()>) {
        if let Err(error) = written
            && !std::mem::replace(&mut self.has_failed, true)
        {
            tracing::warn!("calls are missing in the history: {error}");
        }
    }
}

fn judge<'a>(
    known: &'a mut Vec<Judged>,
    entry: &Arc<ToolEntry>,
    policy: &Arc<Policy>,
) -> &'a Judged {
    let is_it = |judged: &Judged| {
        judged.entry.as_ptr() == Arc::as_ptr(entry) && judged.policy.as_ptr() == Arc::as_ptr(policy)
    };
    let at = known.iter().position(is_it).unwrap_or_else(|| {
        if known.len() >= MAX_JUDGED {
            known.clear();
        }
        let (effect, rule) = (policy.effect(entry), policy.basis(entry));
        let (entry, policy) = (Arc::downgrade(entry), Arc::downgrade(policy));
        known.push(Judged { entry, policy, effect, rule });
        known.len() - 1
    });
    #[expect(clippy::indexing_slicing, reason = "found or just pushed")]
    &known[at]
}

/// Reads the history. Its functions block on disk I/O: call them from a blocking task.
#[derive(Debug, Clone)]
pub struct HistoryReader {
    folder: PathBuf,
    sums: Arc<SegmentSums>,
}

impl HistoryReader {
    pub(crate) const fn new(folder: PathBuf, sums: Arc<SegmentSums>) -> Self {
        Self { folder, sums }
    }

    /// At most `limit` calls, newest first.
    pub fn list(&self, filter: &CallFilter, limit: usize) -> io::Result<CallList> {
        query::list(&self.folder, filter, limit)
    }

    /// One call in full.
    pub fn get(&self, id: u64) -> io::Result<Option<CallInfo>> {
        query::get(&self.folder, id)
    }

    /// The calls in numbers, by tool for at most `limit` tools.
    pub fn stats(&self, filter: &CallFilter, limit: usize) -> io::Result<CallStats> {
        query::stats(&self.folder, filter, limit, &self.sums)
    }
}

/// Days as the age of calls; none for no limit.
pub const fn days(days: u16) -> Option<Duration> {
    if days == 0 { None } else { Some(Duration::from_secs(days as u64 * 24 * 60 * 60)) }
}

#[cfg(test)]
mod tests;
