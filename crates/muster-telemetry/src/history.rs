//! The history of calls, in files of the state folder.

mod arguments;
mod batch;
mod codec;
mod query;
mod segment;
mod sums;

use std::{
    borrow::Cow,
    io,
    path::PathBuf,
    sync::{Arc, Weak},
    time::Duration,
};

use muster_api::calls::{CallInfo, CallList, CallStats};
use muster_core::{catalog::ToolEntry, effect::Effect, policy::Policy, text};

pub use self::{
    arguments::{KeptArguments, is_shortened},
    query::{CallFilter, StatusFilter},
};
pub(crate) use self::{batch::CallBatch, sums::SegmentSums};
use self::{
    batch::{CallNames, QueuedCall},
    codec::StoredCall,
    query::micros,
    segment::{NameNumbers, SegmentWriter},
};

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
    rule: Arc<str>,
}

/// The names of a batch as they are written.
#[derive(Debug)]
struct WrittenNames<'a> {
    names: &'a CallNames,
    tool: Cow<'a, str>,
    effect: Option<Effect>,
    rule: Option<Arc<str>>,
    numbers: NameNumbers,
}

impl HistoryWriter {
    /// Continues the history.
    pub(crate) fn open(options: &HistoryOptions) -> io::Result<Self> {
        let HistoryOptions { folder, max_bytes, max_age, arguments } = options;
        let segments = SegmentWriter::open(folder, *max_bytes, *max_age)?;
        Ok(Self { arguments: *arguments, segments, judged: Vec::new(), has_failed: false })
    }

    /// Adds calls to the next write.
    pub(crate) fn add(&mut self, batch: &CallBatch) {
        let names = batch.names.iter().map(|names| written(&mut self.judged, names));
        let mut names: Vec<_> = names.collect();
        for call in &batch.calls {
            if let Some(names) = names.get_mut(call.names) {
                self.add_call(call, names);
            }
        }
    }

    fn add_call(&mut self, call: &QueuedCall, written: &mut WrittenNames<'_>) {
        let arguments = self.arguments.of(call.arguments.as_ref());
        let error = self.arguments.error(call.error.as_deref());
        let length = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        let duration = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let WrittenNames { names, tool, effect, rule, numbers } = written;
        let stored = StoredCall {
            id: 0,
            began: micros(call.began),
            micros: duration(call.duration),
            backend_micros: call.backend_duration.map(duration),
            status: call.status,
            effect: *effect,
            role: names.role,
            depth: names.depth,
            argument_bytes: length(call.argument_bytes),
            result_bytes: call.result_bytes,
            subject: &names.subject,
            token: names.token.as_deref().unwrap_or_default(),
            surface: names.surface,
            server: names.entry.as_ref().map_or("", |entry| entry.backend.as_str()),
            tool,
            rule: rule.as_deref().unwrap_or_default(),
            error: &error,
            arguments: &arguments,
        };
        let added = self.segments.add(&stored, numbers);
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

fn written<'a>(judged: &mut Vec<Judged>, names: &'a CallNames) -> WrittenNames<'a> {
    let judged = names.entry.as_ref().map(|entry| judge(judged, entry, &names.policy));
    let rule = judged.filter(|_| names.is_run).map(|judged| Arc::clone(&judged.rule));
    let (effect, tool) = (judged.map(|judged| judged.effect), text::shortened(names.tool.as_str()));
    WrittenNames { names, tool, effect, rule, numbers: NameNumbers::default() }
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
        let (effect, rule) = (policy.effect(entry), policy.basis(entry).into());
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
