//! The client's side of the bridge: one message per line, long messages from disk.

use std::{io, sync::Arc};

use muster_mcp::{
    stdio::Output,
    wire::{line, replace_newlines},
};
use tokio::sync::mpsc;

use crate::spool::{Payload, SpoolFile};

/// The capacity of the queue of lines.
const LINES: usize = 1024;
/// The capacity of the queue of spooled messages.
const SPOOLED: usize = 16;
/// How much of a spooled message is read at a time.
const CHUNK: usize = 256 * 1024;

/// Sends messages to the client. They are discarded once the client is gone.
#[derive(Debug, Clone)]
pub(super) struct ClientOutput {
    pub(super) lines: mpsc::Sender<Vec<u8>>,
    spooled: mpsc::Sender<SpoolFile>,
}

/// The receiving end of a [`ClientOutput`].
#[derive(Debug)]
pub(super) struct Outgoing {
    lines: mpsc::Receiver<Vec<u8>>,
    spooled: mpsc::Receiver<SpoolFile>,
}

impl ClientOutput {
    pub(super) fn new() -> (Self, Outgoing) {
        let (lines, line_receiver) = mpsc::channel(LINES);
        let (spooled, spool_receiver) = mpsc::channel(SPOOLED);
        (Self { lines, spooled }, Outgoing { lines: line_receiver, spooled: spool_receiver })
    }

    /// Sends a line.
    pub(super) async fn line(&self, line: Vec<u8>) {
        drop(self.lines.send(line).await);
    }

    /// Sends a message as the upstream wrote it.
    pub(super) async fn payload(&self, payload: Payload) {
        match payload {
            Payload::Memory(bytes) => self.line(line(bytes.into())).await,
            Payload::Spooled(file) => drop(self.spooled.send(file).await),
        }
    }

    /// Waits until the client is gone.
    pub(super) async fn closed(&self) {
        self.lines.closed().await;
    }
}

/// Writes messages until all senders are gone or the client is.
pub(super) async fn write(mut output: Output, outgoing: Outgoing) -> io::Result<()> {
    let Outgoing { mut lines, mut spooled } = outgoing;
    loop {
        tokio::select! {
            // Lines go first: notifications must precede the response they belong to.
            biased;
            line = lines.recv() => match line {
                Some(line) => output.write_all(&line).await?,
                None => break,
            },
            Some(file) = spooled.recv() => write_spooled(&mut output, file).await?,
            () = output.closed() => return Ok(()),
        }
    }
    while let Some(file) = spooled.recv().await {
        write_spooled(&mut output, file).await?;
    }
    Ok(())
}

async fn write_spooled(output: &mut Output, file: SpoolFile) -> io::Result<()> {
    let file = Arc::new(file);
    let mut offset = 0;
    while offset < file.size() {
        let reading = Arc::clone(&file);
        let read = tokio::task::spawn_blocking(move || reading.chunk(offset, CHUNK)).await;
        let mut chunk = read.unwrap_or_else(|error| Err(error.into()))?;
        offset += chunk.len() as u64;
        // The data of a spooled event ends with a line feed that is not part of it.
        if offset == file.size() && chunk.last() == Some(&b'\n') {
            chunk.pop();
        }
        replace_newlines(&mut chunk);
        output.write_all(&chunk).await?;
    }
    output.write_all(b"\n").await
}
