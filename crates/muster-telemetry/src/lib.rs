//! The one observer of calls, and what is made of them.
//!
//! Counters are updated on the thread that served the call, by atomic operations alone, so that they are exact and
//! current. Everything else happens on a thread of its own, behind a bounded queue.
//!
//! **Invariant:** nothing here knows what a tool does, and nothing else knows Prometheus or OTLP.

pub mod history;
pub mod meters;
pub mod metrics;
mod process;
pub mod traces;
mod worker;

#[cfg(test)]
mod fixture;

use std::{io, sync::Arc, time::SystemTime};

use muster_core::{
    catalog::ToolEntry,
    observer::{CallObserver, FinishedCall, FinishedRequest},
    trace_context::SpanContext,
};
use muster_net::TrustStore;

use self::{
    history::{HistoryOptions, HistoryReader, HistoryWriter, KeptArguments, SegmentSums},
    meters::CallMeters,
    traces::{TraceExporter, TraceOptions, Tracer},
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
    history: Option<HistoryOptions>,
    sums: Arc<SegmentSums>,
    tracer: Option<Arc<Tracer>>,
    /// The thread of the history and of traces, if there is either.
    worker: Option<Worker>,
}

impl Default for Inner {
    fn default() -> Self {
        Self {
            meters: CallMeters::default(),
            started: SystemTime::now(),
            history: None,
            sums: Arc::default(),
            tracer: None,
            worker: None,
        }
    }
}

impl Telemetry {
    /// Telemetry with a history, which continues the one in its folder, and with traces, whose exporter the caller
    /// runs. A history that cannot be written is left out.
    pub fn start(
        history: Option<HistoryOptions>,
        traces: Option<(TraceOptions, Arc<TrustStore>)>,
    ) -> io::Result<(Self, Option<TraceExporter>)> {
        let opened = history.map(|options| (HistoryWriter::open(&options), options));
        let (writer, history) = match opened {
            Some((Ok(writer), options)) => (Some(writer), Some(options)),
            Some((Err(error), options)) => {
                tracing::warn!("no history in {}: {error}", options.folder.display());
                (None, None)
            }
            None => (None, None),
        };
        let (tracer, exporter) = match traces {
            Some((options, trust)) => {
                let (tracer, exporter) = traces::pair(options, trust);
                (Some(Arc::new(tracer)), Some(exporter))
            }
            None => (None, None),
        };
        let worker = match (&writer, &tracer) {
            (None, None) => None,
            _ => Some(Worker::start(writer, tracer.clone())?),
        };
        let inner = Inner { history, tracer, worker, ..Inner::default() };
        Ok((Self { inner: Arc::new(inner) }, exporter))
    }

    /// The counters of calls.
    pub fn meters(&self) -> &CallMeters {
        &self.inner.meters
    }

    /// The history with every call that is over now; none if none is kept.
    pub async fn history(&self) -> Option<HistoryReader> {
        let history = self.inner.history.as_ref()?;
        self.flush().await;
        Some(HistoryReader::new(history.folder.clone(), Arc::clone(&self.inner.sums)))
    }

    /// Writes every call that is over now.
    pub async fn flush(&self) {
        if let Some(worker) = &self.inner.worker {
            worker.flush().await;
        }
    }

    /// When the gateway started.
    pub(crate) fn started(&self) -> SystemTime {
        self.inner.started
    }

    /// The calls on their way to the history, and those that were dropped on it.
    pub(crate) fn backlog(&self) -> (usize, u64) {
        let worker = self.inner.worker.as_ref();
        worker.map_or((0, 0), |worker| (worker.queued(), worker.dropped()))
    }

    /// The spans of recorded traces that the collector did not get.
    pub(crate) fn lost_spans(&self) -> u64 {
        self.inner.tracer.as_ref().map_or(0, |tracer| tracer.lost())
    }

    /// The observer for dispatchers.
    pub fn observer(&self) -> Arc<dyn CallObserver> {
        Arc::<Inner>::clone(&self.inner)
    }
}

impl CallObserver for Inner {
    fn wants_arguments(&self) -> bool {
        let history = self.history.as_ref();
        history.is_some_and(|history| history.arguments != KeptArguments::Nothing)
    }

    fn running(&self, tool: &ToolEntry) {
        self.meters.running(tool);
    }

    fn finished(&self, call: FinishedCall) {
        self.meters.finished(&call);
        if let Some(worker) = &self.worker
            && !call.tool.as_str().starts_with(READERS)
        {
            worker.call(call);
        }
    }

    fn begin_span(&self, parent: Option<SpanContext>) -> Option<SpanContext> {
        self.tracer.as_ref().map(|tracer| tracer.begin(parent))
    }

    fn request_finished(&self, request: FinishedRequest) {
        if let Some(worker) = &self.worker {
            worker.request(request);
        }
    }
}
