//! The telemetry thread: takes finished calls off the call path, in batches.
//!
//! A call is added to the batch under a lock that is held for a moment, and nothing is allocated for it: what its names
//! refer to is shared by all calls of a batch that have the same. The first call of a batch wakes the thread. If the batch
//! is full, the call is dropped and counted.

use std::{
    io, mem,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread::{self, Thread},
    time::Duration,
};

use muster_core::{
    lock::Lock,
    observer::{FinishedCall, FinishedRequest},
};
use tokio::sync::oneshot;

use crate::{
    history::{CallBatch, HistoryWriter},
    traces::Tracer,
};

/// The calls of a batch, and as many spans of calls and of requests.
const QUEUE: usize = 4_096;
/// The places that an empty batch keeps.
const KEPT: usize = QUEUE / 8;
/// How long calls are collected.
const INTERVAL: Duration = Duration::from_millis(20);

/// The way to the telemetry thread.
#[derive(Debug)]
pub(crate) struct Worker {
    queue: Arc<Lock<Queue>>,
    thread: Thread,
    has_history: bool,
    tracer: Option<Arc<Tracer>>,
    /// The calls that are missing in the history.
    dropped: AtomicU64,
}

/// What waits for the thread.
#[derive(Debug, Default)]
struct Queue {
    pending: Pending,
    /// Whether the thread sleeps until it is woken.
    is_idle: bool,
    /// Whether nothing will be added any more.
    is_closed: bool,
}

#[derive(Debug, Default)]
struct Pending {
    calls: CallBatch,
    /// Calls whose spans are recorded.
    spans: Vec<FinishedCall>,
    requests: Vec<FinishedRequest>,
    /// Notified when everything before it is written.
    flushes: Vec<oneshot::Sender<()>>,
}

impl Pending {
    fn is_empty(&self) -> bool {
        self.calls.len() == 0
            && self.spans.is_empty()
            && self.requests.is_empty()
            && self.flushes.is_empty()
    }
}

impl Worker {
    /// Starts the thread. It ends with the worker.
    pub(crate) fn start(
        history: Option<HistoryWriter>,
        tracer: Option<Arc<Tracer>>,
    ) -> io::Result<Self> {
        let queue = Arc::<Lock<Queue>>::default();
        let has_history = history.is_some();
        let builder = thread::Builder::new().name("telemetry".to_owned());
        let (shared, own) = (Arc::clone(&queue), tracer.clone());
        let handle = builder.spawn(move || run(&shared, history, own.as_deref()))?;
        let (thread, dropped) = (handle.thread().clone(), AtomicU64::new(0));
        Ok(Self { queue, thread, has_history, tracer, dropped })
    }

    /// Hands a call over.
    pub(crate) fn call(&self, call: FinishedCall) {
        let has_span = self.tracer.is_some() && call.span.is_some_and(|span| span.context.sampled);
        if !self.has_history && !has_span {
            return;
        }
        // What is left of it is freed after the lock is released.
        let mut call = Some(call);
        let is_kept = self.add(|pending| {
            let is_kept = pending.calls.len() < QUEUE;
            if let Some(call) = call.as_mut().filter(|_| is_kept && self.has_history) {
                pending.calls.add(call);
            }
            let spans = &mut pending.spans;
            spans.extend(call.take_if(|_| has_span && spans.len() < QUEUE));
            is_kept
        });
        if !is_kept {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        if has_span && call.is_some() {
            self.lose_span();
        }
    }

    /// Hands a request over, whose span is recorded if there is room.
    pub(crate) fn request(&self, request: FinishedRequest) {
        if !request.span.context.sampled {
            return;
        }
        let mut request = Some(request);
        self.add(|pending| {
            let requests = &mut pending.requests;
            requests.extend(request.take_if(|_| requests.len() < QUEUE));
        });
        if request.is_some() {
            self.lose_span();
        }
    }

    fn lose_span(&self) {
        self.tracer.iter().for_each(|tracer| tracer.lose(1));
    }

    /// Adds something for the thread, and wakes it if it sleeps.
    fn add<T>(&self, add: impl FnOnce(&mut Pending) -> T) -> T {
        let (added, is_idle) = {
            let mut queue = self.queue.lock();
            (add(&mut queue.pending), mem::take(&mut queue.is_idle))
        };
        if is_idle {
            self.thread.unpark();
        }
        added
    }

    /// The number of calls that were dropped.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// The number of calls in the queue.
    pub(crate) fn queued(&self) -> usize {
        self.queue.lock().pending.calls.len()
    }

    /// Waits until every call that was handed over is written.
    pub(crate) async fn flush(&self) {
        let (done, is_done) = oneshot::channel();
        {
            let mut queue = self.queue.lock();
            if queue.is_closed {
                return;
            }
            queue.pending.flushes.push(done);
        }
        self.thread.unpark();
        drop(is_done.await);
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.queue.lock().is_closed = true;
        self.thread.unpark();
    }
}

/// Closes the queue when the thread ends, also by a panic: nothing waits for it any more.
struct CloseOnDrop<'a>(&'a Lock<Queue>);

impl Drop for CloseOnDrop<'_> {
    fn drop(&mut self) {
        let mut queue = self.0.lock();
        queue.is_closed = true;
        queue.pending.flushes.clear();
    }
}

fn run(queue: &Lock<Queue>, mut history: Option<HistoryWriter>, tracer: Option<&Tracer>) {
    let _closing = CloseOnDrop(queue);
    let mut taken = Pending::default();
    while take(queue, &mut taken) {
        let Pending { calls, spans, requests, flushes } = &mut taken;
        if let Some(history) = &mut history {
            history.add(calls);
            history.flush();
        }
        for call in spans.drain(..) {
            tracer.into_iter().for_each(|tracer| tracer.call(&call));
        }
        for request in requests.drain(..) {
            tracer.into_iter().for_each(|tracer| tracer.request(&request));
        }
        for done in flushes.drain(..) {
            // The receiver may be gone.
            let _delivered = done.send(());
        }
        calls.clear(KEPT);
        spans.shrink_to(KEPT);
        requests.shrink_to(KEPT);
        thread::park_timeout(INTERVAL);
    }
}

/// Waits for something to do; false at the end.
fn take(queue: &Lock<Queue>, taken: &mut Pending) -> bool {
    loop {
        {
            let mut queue = queue.lock();
            if !queue.pending.is_empty() {
                mem::swap(&mut queue.pending, taken);
                return true;
            }
            if queue.is_closed {
                return false;
            }
            queue.is_idle = true;
        }
        thread::park();
    }
}
