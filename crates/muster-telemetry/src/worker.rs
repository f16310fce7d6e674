//! The telemetry thread: takes finished calls off the call path, in batches.
//!
//! A call is sent by one attempt that neither waits nor makes a system call, except for the first of a batch, which
//! wakes the thread. If the queue is full, the call is dropped and counted.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread::{self, Thread},
    time::Duration,
};

use muster_core::observer::{FinishedCall, FinishedRequest};
use tokio::sync::{mpsc, oneshot};

use crate::{history::HistoryWriter, traces::Tracer};

/// The queue of calls.
const QUEUE: usize = 4_096;
/// How long calls are collected.
const INTERVAL: Duration = Duration::from_millis(20);

/// The sender to the telemetry thread.
#[derive(Debug)]
pub(crate) struct Worker {
    messages: mpsc::Sender<Message>,
    thread: Thread,
    dropped: AtomicU64,
}

#[derive(Debug)]
enum Message {
    Call(FinishedCall),
    Request(FinishedRequest),
    /// Tells when everything before it is written.
    Flush(oneshot::Sender<()>),
}

impl Worker {
    /// Starts the thread. It ends with the last sender.
    pub(crate) fn start(
        history: Option<HistoryWriter>,
        tracer: Option<Arc<Tracer>>,
    ) -> io::Result<Self> {
        let (messages, received) = mpsc::channel(QUEUE);
        let builder = thread::Builder::new().name("telemetry".to_owned());
        let handle = builder.spawn(move || run(received, history, tracer.as_deref()))?;
        Ok(Self { messages, thread: handle.thread().clone(), dropped: AtomicU64::new(0) })
    }

    /// Hands a call over.
    pub(crate) fn call(&self, call: FinishedCall) {
        self.send(Message::Call(call));
    }

    /// Hands a request over.
    pub(crate) fn request(&self, request: FinishedRequest) {
        self.send(Message::Request(request));
    }

    fn send(&self, message: Message) {
        if self.messages.try_send(message).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The number of calls that were dropped.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// The number of calls in the queue.
    pub(crate) fn queued(&self) -> usize {
        QUEUE - self.messages.capacity()
    }

    /// Waits until every call that was handed over is written.
    pub(crate) async fn flush(&self) {
        let (done, is_done) = oneshot::channel();
        if self.messages.send(Message::Flush(done)).await.is_ok() {
            self.thread.unpark();
            drop(is_done.await);
        }
    }
}

fn run(
    mut received: mpsc::Receiver<Message>,
    mut history: Option<HistoryWriter>,
    tracer: Option<&Tracer>,
) {
    let (mut batch, mut waiting) = (Vec::new(), Vec::new());
    while received.blocking_recv_many(&mut batch, QUEUE) > 0 {
        for message in batch.drain(..) {
            match message {
                Message::Call(call) => {
                    tracer.into_iter().for_each(|tracer| tracer.call(&call));
                    history.iter_mut().for_each(|history| history.add(&call));
                }
                Message::Request(request) => {
                    tracer.into_iter().for_each(|tracer| tracer.request(&request));
                }
                Message::Flush(done) => waiting.push(done),
            }
        }
        history.iter_mut().for_each(HistoryWriter::flush);
        for done in waiting.drain(..) {
            // The receiver may be gone.
            let _delivered = done.send(());
        }
        batch.shrink_to(QUEUE / 16);
        thread::park_timeout(INTERVAL);
    }
}
