//! The way into a process: messages, a line each.
//!
//! A message that comes alone is written by whoever sends it. Those that come together are written
//! together by a task of their own: one write wakes the server once.

use std::{io, sync::Arc};

use muster_core::backend::BoxFuture;
use tokio::{net::unix::pipe::Sender, sync::mpsc};

use super::{
    failure::Failure,
    inbox::{Inbox, Outlet},
};
use crate::lock::Lock;

/// Messages waiting for a server that reads slowly. When it is full, new calls wait with theirs.
const AHEAD: usize = 256;
/// Messages that wait are written together up to this size.
const TOGETHER: usize = 64 * 1024;

/// Where messages for a server go in.
#[derive(Debug)]
pub(super) struct Mouth {
    inbox: Arc<Inbox>,
    out: mpsc::Sender<Out>,
    input: Arc<Lock<Input>>,
}

/// The standard input of a server.
#[derive(Debug)]
struct Input {
    /// None once there is no more to say.
    pipe: Option<Arc<Sender>>,
    /// How many messages wait to be written. As long as there are some, nobody else writes.
    waiting: usize,
}

#[derive(Debug)]
enum Out {
    Line(Vec<u8>),
    /// There will be no more input.
    End,
}

impl Mouth {
    /// The way into a process, and what writes there.
    pub(super) fn new(
        inbox: Arc<Inbox>,
        stdin: Option<Sender>,
    ) -> (Self, impl Future<Output = ()> + Send + use<>) {
        let (out, lines) = mpsc::channel(AHEAD);
        let pipe = stdin.map(Arc::new);
        let input = Arc::new(Lock::new(Input { pipe: pipe.clone(), waiting: 0 }));
        let writing = write(pipe, Arc::clone(&input), lines);
        (Self { inbox, out, input }, writing)
    }

    /// Sends one message.
    pub(super) async fn speak(&self, mut message: Vec<u8>) -> Result<(), Failure> {
        // A raw value may span lines: newlines between JSON tokens are white space, and inside
        // strings they are escaped, so a blank keeps both the framing and the meaning.
        for byte in &mut message {
            if matches!(byte, b'\n' | b'\r') {
                *byte = b' ';
            }
        }
        message.push(b'\n');
        if self.inbox.calls.has_few() && self.write_alone(&mut message) {
            return Ok(());
        }
        let room = self.out.reserve().await.map_err(|_| deaf())?;
        self.input.lock().waiting += 1;
        room.send(Out::Line(message));
        Ok(())
    }

    /// Writes a message that nobody else's can be written with; whether it is on its way.
    fn write_alone(&self, message: &mut Vec<u8>) -> bool {
        // What does not fit goes before everything else, so there has to be room for it.
        let Ok(room) = self.out.try_reserve() else { return false };
        let mut input = self.input.lock();
        let Some(pipe) = input.pipe.as_ref().filter(|_| input.waiting == 0) else { return false };
        let Ok(written) = pipe.try_write(message) else { return false };
        message.drain(..written);
        if !message.is_empty() {
            input.waiting += 1;
            room.send(Out::Line(std::mem::take(message)));
        }
        true
    }

    /// Ends the input.
    pub(super) async fn close(&self) {
        self.input.lock().pipe = None;
        // A writer that is gone has closed the pipe already.
        drop(self.out.send(Out::End).await);
    }
}

impl Outlet for Mouth {
    fn send(&self, message: Vec<u8>) -> BoxFuture<'_, Result<(), Failure>> {
        Box::pin(self.speak(message))
    }
}

fn deaf() -> Failure {
    Failure::Lost("it no longer reads its input".to_owned())
}

/// Writes messages, those that wait together at once.
async fn write(pipe: Option<Arc<Sender>>, input: Arc<Lock<Input>>, mut lines: mpsc::Receiver<Out>) {
    let Some(pipe) = pipe else { return };
    while let Some(Out::Line(mut bytes)) = lines.recv().await {
        // Whoever else is about to speak does so first.
        tokio::task::yield_now().await;
        let (mut taken, mut over) = (1, false);
        while bytes.len() < TOGETHER && !over {
            match lines.try_recv() {
                Ok(Out::Line(more)) => {
                    bytes.extend_from_slice(&more);
                    taken += 1;
                }
                Ok(Out::End) => over = true,
                Err(_) => break,
            }
        }
        let written = write_all(&pipe, &bytes).await;
        input.lock().waiting -= taken;
        if written.is_err() || over {
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

    use super::{Inbox, Mouth};
    use crate::calls::Flight;

    #[derive(Debug)]
    struct Deaf;

    impl ConnectionObserver for Deaf {
        fn on_event(&self, _: ConnectionEvent) {}
    }

    /// Far more than a pipe holds.
    const LONG: usize = 1_000_000;

    #[tokio::test]
    async fn messages_arrive_whole_and_in_order_however_they_are_written() {
        let (sender, mut receiver) = pipe::pipe().unwrap();
        let tasks = TaskTracker::new();
        let inbox = Inbox::new("s", tasks.clone(), Arc::default(), Arc::new(Deaf));
        let (mouth, writing) = Mouth::new(Arc::clone(&inbox), Some(sender));
        tasks.spawn(writing);
        let mut expected = String::new();
        let speaking = async {
            // Alone; too long for the pipe; behind that; with other calls under way; alone again.
            for (calls, text) in [
                (0, "a\nb".to_owned()),
                (0, "x".repeat(LONG)),
                (0, "c".to_owned()),
                (2, "d".to_owned()),
                (2, "y".repeat(LONG)),
                (2, "e".to_owned()),
                (0, "f".to_owned()),
            ] {
                let ids: Vec<u64> =
                    (0..calls).map(|_| inbox.calls.begin(Flight::default()).unwrap()).collect();
                expected.push_str(&text.replace('\n', " "));
                expected.push('\n');
                mouth.speak(text.into_bytes()).await.unwrap();
                ids.into_iter().for_each(|id| inbox.calls.end(id));
            }
            mouth.close().await;
        };
        let mut read = String::new();
        let (_, ended) = tokio::join!(speaking, receiver.read_to_string(&mut read));
        ended.unwrap();
        assert!(read == expected, "{} bytes of {}", read.len(), expected.len());
    }
}
