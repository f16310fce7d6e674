//! The one observer of calls, and what is made of them.
//!
//! Counters are updated on the thread that served the call, by atomic operations alone, so that they are exact and
//! current. Everything else happens on a thread of its own, behind a bounded queue.
//!
//! **Invariant:** nothing here knows what a tool does, and nothing else knows Prometheus.

pub mod history;
pub mod meters;
pub mod metrics;
mod process;
mod worker;

#[cfg(test)]
mod fixture;

use std::{io, sync::Arc, time::SystemTime};

use muster_core::{
    catalog::ToolEntry,
    observer::{CallObserver, FinishedCall},
};

use self::{
    history::{HistoryOptions, HistoryReader, HistoryWriter, KeptArguments},
    meters::CallMeters,
    worker::Worker,
};

/// The tools that show the history. Their own calls are counted, but not part of it.
const READERS: &str = "core_calls_";

/// The telemetry of a gateway. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Telemetry {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    meters: CallMeters,
    started: SystemTime,
    history: Option<History>,
}

#[derive(Debug)]
struct History {
    worker: Worker,
    options: HistoryOptions,
}

impl Default for Inner {
    fn default() -> Self {
        Self { meters: CallMeters::default(), started: SystemTime::now(), history: None }
    }
}

impl Telemetry {
    /// Telemetry with a history, which continues the one in its folder.
    pub fn with_history(options: HistoryOptions) -> io::Result<Self> {
        let worker = Worker::start(HistoryWriter::open(&options)?)?;
        let history = Some(History { worker, options });
        Ok(Self { inner: Arc::new(Inner { history, ..Inner::default() }) })
    }

    /// The counters of calls.
    pub fn meters(&self) -> &CallMeters {
        &self.inner.meters
    }

    /// The history with every call that is over now; none if none is kept.
    pub async fn history(&self) -> Option<HistoryReader> {
        let history = self.inner.history.as_ref()?;
        history.worker.flush().await;
        Some(HistoryReader::new(history.options.folder.clone()))
    }

    /// Writes every call that is over now.
    pub async fn flush(&self) {
        if let Some(history) = &self.inner.history {
            history.worker.flush().await;
        }
    }

    /// When the gateway started.
    pub(crate) fn started(&self) -> SystemTime {
        self.inner.started
    }

    /// The calls on their way to the history, and those that were dropped on it.
    pub(crate) fn backlog(&self) -> (usize, u64) {
        let history = self.inner.history.as_ref();
        history.map_or((0, 0), |history| (history.worker.queued(), history.worker.dropped()))
    }

    /// The observer for dispatchers.
    pub fn observer(&self) -> Arc<dyn CallObserver> {
        Arc::<Inner>::clone(&self.inner)
    }
}

impl CallObserver for Inner {
    fn wants_arguments(&self) -> bool {
        let history = self.history.as_ref();
        history.is_some_and(|history| history.options.arguments != KeptArguments::Nothing)
    }

    fn running(&self, tool: &ToolEntry) {
        self.meters.running(tool);
    }

    fn finished(&self, call: FinishedCall) {
        self.meters.finished(&call);
        if let Some(history) = &self.history
            && !call.tool.as_str().starts_with(READERS)
        {
            history.worker.send(call);
        }
    }
}
