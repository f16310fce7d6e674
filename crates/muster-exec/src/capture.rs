//! Captures an output stream: its beginning in memory, all of it on disk once it exceeds the limit.
//!
//! **Invariant:** never more than the limit plus one chunk of a stream is in memory.

use std::os::fd::OwnedFd;

use rustix::{
    buffer::spare_capacity,
    io::{Errno, read},
};
use tokio::{io::AsyncReadExt, net::unix::pipe::Receiver, task::yield_now};

use crate::{
    platform::widen_pipe,
    run::CapturedStream,
    spill::{SpillFile, SpillStore},
};

/// The first read. Most commands print little, many nothing.
const FIRST_READ: usize = 4 * 1024;
/// The default capacity of a pipe, and so the largest read from a busy one.
const CHUNK_SIZE: usize = 64 * 1024;

/// A stream being read.
pub(crate) struct Capture<'a> {
    spill_store: &'a SpillStore,
    limit: usize,
    bytes: Vec<u8>,
    total: u64,
    overflow: Overflow<'a>,
}

enum Overflow<'a> {
    None,
    Disk(SpillFile<'a>),
    /// No file could be created: the rest is counted and dropped.
    Dropped,
}

impl<'a> Capture<'a> {
    pub(crate) const fn new(spill_store: &'a SpillStore, limit: usize) -> Self {
        Self { spill_store, limit, bytes: Vec::new(), total: 0, overflow: Overflow::None }
    }

    /// Reads until every writer has closed the pipe. Dropping the future keeps what was read so far.
    pub(crate) async fn drain(&mut self, pipe: OwnedFd) {
        // A short command has written everything by now: skip registering the pipe with the reactor.
        loop {
            if self.make_room() == 0 {
                break;
            }
            match read(&pipe, spare_capacity(&mut self.bytes)) {
                Ok(size @ 1..) => self.total += size as u64,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Ok(_) | Err(_) => return,
            }
        }
        if self.bytes.len() >= CHUNK_SIZE {
            widen_pipe(&pipe);
        }
        if let Ok(pipe) = Receiver::from_owned_fd_unchecked(pipe) {
            self.drain_async(pipe).await;
        }
    }

    async fn drain_async(&mut self, mut pipe: Receiver) {
        let mut widened = false;
        while self.make_room() > 0 {
            // An error means that there is nothing more to read.
            let Ok(size @ 1..) = pipe.read_buf(&mut self.bytes).await else {
                return;
            };
            self.total += size as u64;
            if size >= CHUNK_SIZE / 2 && !widened {
                widen_pipe(&pipe);
                widened = true;
            }
        }
        self.overflow(pipe).await;
    }

    /// Grows the buffer if it is full, by doubling up to exactly the limit; returns the free space.
    fn make_room(&mut self) -> usize {
        if self.bytes.len() == self.bytes.capacity() {
            let wanted = match self.bytes.len() {
                0 => FIRST_READ,
                size if size < CHUNK_SIZE => 2 * CHUNK_SIZE,
                size => size.saturating_mul(2),
            };
            let size = wanted.min(self.limit);
            self.bytes.reserve_exact(size.saturating_sub(self.bytes.len()));
        }
        self.bytes.capacity().min(self.limit).saturating_sub(self.bytes.len())
    }

    async fn overflow(&mut self, mut pipe: Receiver) {
        let mut chunk = Vec::with_capacity(CHUNK_SIZE);
        while let Ok(size @ 1..) = pipe.read_buf(&mut chunk).await {
            self.total += size as u64;
            if matches!(self.overflow, Overflow::None) {
                self.begin_overflow().await;
            }
            if let Overflow::Disk(spill) = &mut self.overflow {
                spill.write(&chunk);
            }
            chunk.clear();
        }
    }

    /// Starts the spill file with the bytes in memory, so that the file is complete by itself.
    async fn begin_overflow(&mut self) {
        self.overflow = self.spill_store.begin().map_or(Overflow::Dropped, Overflow::Disk);
        if let Overflow::Disk(spill) = &mut self.overflow {
            for chunk in self.bytes.chunks(4 * CHUNK_SIZE) {
                spill.write(chunk);
                yield_now().await;
            }
        }
    }

    pub(crate) fn finish(self) -> CapturedStream {
        let (spill, spilled) = match self.overflow {
            Overflow::Disk(spill) => {
                let (path, size) = spill.finish();
                (Some(path), size)
            }
            Overflow::None | Overflow::Dropped => (None, 0),
        };
        CapturedStream { bytes: self.bytes, total: self.total, spill, spilled }
    }
}
