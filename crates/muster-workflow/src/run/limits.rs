//! Limits of one run: how much it calls, and how much it remembers.

use std::{
    io,
    sync::atomic::{AtomicUsize, Ordering},
};

use muster_template::{RenderBudget, RenderContext};
use serde::Serialize;

use super::StepOutcome;
use crate::JsonObject;

/// The limits of a run.
#[derive(Debug, Clone, Copy)]
pub struct RunBounds {
    /// The number of steps, with one for each item of a loop, skipped ones and the tools of conditions.
    pub calls: usize,
    /// The size of all arguments and results together, in bytes of JSON.
    pub bytes: usize,
    /// The bytes that all templates make together, also those that nothing keeps.
    pub rendered: u64,
}

/// How much a run has used. Steps may run concurrently.
#[derive(Debug)]
pub(super) struct Usage {
    limits: Option<RunBounds>,
    calls: AtomicUsize,
    bytes: AtomicUsize,
    /// What its templates may still make.
    rendered: Option<RenderBudget>,
}

impl Usage {
    pub(super) fn new(limits: Option<RunBounds>) -> Self {
        let rendered = limits.map(|limits| RenderBudget::new(limits.rendered));
        Self { limits, calls: AtomicUsize::new(0), bytes: AtomicUsize::new(0), rendered }
    }

    /// A context whose renderings count for this run.
    pub(super) fn counted<'a>(&'a self, context: RenderContext<'a>) -> RenderContext<'a> {
        RenderContext { budget: self.rendered.as_ref(), ..context }
    }

    /// Counts a call before it is made.
    pub(super) fn count_call(&self) -> Result<(), String> {
        let Some(RunBounds { calls: limit, .. }) = self.limits else { return Ok(()) };
        match self.calls.fetch_add(1, Ordering::Relaxed) < limit {
            true => Ok(()),
            false => Err(format!(
                "the run makes more than {limit} calls\nhint: save it as a workflow, or make several runs"
            )),
        }
    }

    /// Counts the arguments of a step before it is carried out.
    pub(super) fn count_arguments(&self, arguments: &JsonObject) -> Result<(), String> {
        match self.limits {
            None => Ok(()),
            Some(_) => self.count(size(arguments)),
        }
    }

    /// Counts what a run remembers of a step, besides its arguments.
    pub(super) fn count_results(&self, done: &StepOutcome) -> Result<(), String> {
        if self.limits.is_none() {
            return Ok(());
        }
        let condition = done.report.condition.as_ref().map(|judged| &judged.result);
        let blocks: usize = done.blocks.iter().map(|block| block.get().len()).sum();
        self.count(size(&done.value) + size(&condition) + blocks)
    }

    fn count(&self, bytes: usize) -> Result<(), String> {
        let Some(RunBounds { bytes: limit, .. }) = self.limits else { return Ok(()) };
        match self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes <= limit {
            true => Ok(()),
            false => Err(format!(
                "the arguments and results of the run are larger than {} MiB together\n\
                 hint: let the tools return less, or make several runs",
                limit >> 20
            )),
        }
    }
}

/// The size of a value as JSON, which is not stored for that.
pub(crate) fn size(value: &impl Serialize) -> usize {
    struct Counter(usize);
    impl io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    serde_json::to_writer(&mut counter, value).map_or(0, |()| counter.0)
}
