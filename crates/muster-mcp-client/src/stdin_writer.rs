//! The writer of a child process's standard input: one message per line.
//!
//! A lone message is written by its sender. Concurrent messages are written together by a task: one
//! write wakes the server once.

use std::{io, sync::Arc};

use muster_core::{backend::BoxFuture, lock::Lock};
use muster_mcp::wire::line;
use tokio::{net::unix::pipe::Sender, sync::mpsc};

use crate::{
    error::TransportError,
    router::{MessageRouter, MessageSink},
};

/// The capacity of the queue to a server. When it is full, senders wait.
const QUEUE: usize = 256;
/// Queued messages are written together up to this size.
const BATCH: usize = 64 * 1024;

/// Writes messages to the standard input of a child process.
#[derive(Debug)]
pub(crate) struct StdinWriter {
    router: Arc<MessageRouter>,
    queue: mpsc::Sender<Queued>,
    input: Arc<Lock<Input>>,
}

/// The state that senders and the writing task share.
#[derive(Debug)]
struct Input {
    /// `None` once it is closed.
    pipe: Option<Arc<Sender>>,
    /// The number of messages in the queue. While there are any, senders do not write themselves, so that messages keep
    /// their order.
    queued: usize,
}

#[derive(Debug)]
enum Queued {
    Line(Vec<u8>),
    /// Closes the input.
    End,
}

impl StdinWriter {
    /// A writer, and the task that writes queued messages.
    pub(crate) fn new(
        router: Arc<MessageRouter>,
        stdin: Option<Sender>,
    ) -> (Self, impl Future<Output = ()> + Send + use<>) {
        let (queue, lines) = mpsc::channel(QUEUE);
        let pipe = stdin.map(Arc::new);
        let input = Arc::new(Lock::new(Input { pipe: pipe.clone(), queued: 0 }));
        let writing = write(pipe, Arc::clone(&input), lines);
        (Self { router, queue, input }, writing)
    }

    /// Writes one message.
    pub(crate) async fn write(&self, message: Vec<u8>) -> Result<(), TransportError> {
        let mut message = line(message);
        if self.router.pending.is_at_most_one() && self.write_directly(&mut message) {
            return Ok(());
        }
        let slot = self.queue.reserve().await.map_err(|_| input_closed())?;
        self.input.lock().queued += 1;
        slot.send(Queued::Line(message));
        Ok(())
    }

    /// Writes a message without the queue; `false` if that is not possible.
    fn write_directly(&self, message: &mut Vec<u8>) -> bool {
        // The part that does not fit into the pipe must be first in the queue, so reserve its slot beforehand.
        let Ok(slot) = self.queue.try_reserve() else { return false };
        let mut input = self.input.lock();
        let Some(pipe) = input.pipe.as_ref().filter(|_| input.queued == 0) else { return false };
        let Ok(written) = pipe.try_write(message) else { return false };
        message.drain(..written);
        if !message.is_empty() {
            input.queued += 1;
            slot.send(Queued::Line(std::mem::take(message)));
        }
        true
    }

    /// Closes the input.
    pub(crate) async fn close(&self) {
        self.input.lock().pipe = None;
        // If the task has ended, it has closed the pipe.
        drop(self.queue.send(Queued::End).await);
    }
}

impl MessageSink for StdinWriter {
    fn send(&self, message: Vec<u8>) -> BoxFuture<'_, Result<(), TransportError>> {
        Box::pin(self.write(message))
    }
}

fn input_closed() -> TransportError {
    TransportError::Lost("it no longer reads its input".to_owned())
}

/// Writes queued messages, several at once.
async fn write(
    pipe: Option<Arc<Sender>>,
    input: Arc<Lock<Input>>,
    mut lines: mpsc::Receiver<Queued>,
) {
    let Some(pipe) = pipe else { return };
    while let Some(Queued::Line(mut bytes)) = lines.recv().await {
        // Let concurrent senders queue their messages, so that one write takes them all.
        tokio::task::yield_now().await;
        let (mut taken, mut is_closing) = (1, false);
        while bytes.len() < BATCH && !is_closing {
            match lines.try_recv() {
                Ok(Queued::Line(more)) => {
                    bytes.extend_from_slice(&more);
                    taken += 1;
                }
                Ok(Queued::End) => is_closing = true,
                Err(_) => break,
            }
        }
        let written = write_all(&pipe, &bytes).await;
        input.lock().queued -= taken;
        if written.is_err() || is_closing {
            return;
        }
    }
}

async fn write_all(pipe: &Sender, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        pipe.writable().await?;
        match pipe.try_write(bytes) {
            Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => (),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use muster_core::connect::{ConnectionEvent, ConnectionObserver};
    use tokio::{io::AsyncReadExt as _, net::unix::pipe};
    use tokio_util::task::TaskTracker;

    use super::StdinWriter;
    use crate::{pending::PendingRequest, router::MessageRouter};

    #[derive(Debug)]
    struct NoEvents;

    impl ConnectionObserver for NoEvents {
        fn on_event(&self, _: ConnectionEvent) {}
    }

    /// More than a pipe buffers.
    const LONG: usize = 1_000_000;

    #[tokio::test]
    async fn messages_arrive_complete_and_in_order() {
        let (sender, mut receiver) = pipe::pipe().unwrap();
        let tasks = TaskTracker::new();
        let router = MessageRouter::new("s", tasks.clone(), Arc::default(), Arc::new(NoEvents));
        let (writer, writing) = StdinWriter::new(Arc::clone(&router), Some(sender));
        tasks.spawn(writing);
        let mut expected = String::new();
        let sending = async {
            // Alone; too long for the pipe; after that; with other requests pending; alone again.
            for (pending, text) in [
                (0, "a\nb".to_owned()),
                (0, "x".repeat(LONG)),
                (0, "c".to_owned()),
                (2, "d".to_owned()),
                (2, "y".repeat(LONG)),
                (2, "e".to_owned()),
                (0, "f".to_owned()),
            ] {
                let ids: Vec<u64> = (0..pending)
                    .map(|_| router.pending.begin(PendingRequest::default()).unwrap())
                    .collect();
                expected.push_str(&text.replace('\n', " "));
                expected.push('\n');
                writer.write(text.into_bytes()).await.unwrap();
                ids.into_iter().for_each(|id| router.pending.end(id));
            }
            writer.close().await;
        };
        let mut read = String::new();
        let (_, ended) = tokio::join!(sending, receiver.read_to_string(&mut read));
        ended.unwrap();
        assert!(read == expected, "{} bytes of {}", read.len(), expected.len());
    }
}
