//! Reading a stream to its end: the beginning in memory, everything on disk if that is too long.
//!
//! **Invariant:** no more than the limit of a stream is ever held in memory, plus one chunk.

use std::os::fd::{AsFd, OwnedFd};

use rustix::{
    buffer::spare_capacity,
    io::{Errno, read},
};
use tokio::{io::AsyncReadExt, net::unix::pipe::Receiver, task::yield_now};

use crate::{
    run::Captured,
    spill::{Spill, Spills},
};

/// The first read. Most commands say little, many nothing.
const FIRST_READ: usize = 4 * 1024;
/// What a pipe holds by default, and thus what a busy one gives at once.
const CHUNK_SIZE: usize = 64 * 1024;

/// A stream while it is being read.
pub(crate) struct Capture<'a> {
    spills: &'a Spills,
    limit: usize,
    bytes: Vec<u8>,
    total: u64,
    overflow: Overflow,
}

enum Overflow {
    None,
    Disk(Spill),
    /// There is no disk to be had: the rest is counted and dropped.
    Nowhere,
}

impl<'a> Capture<'a> {
    pub(crate) const fn new(spills: &'a Spills, limit: usize) -> Self {
        Self { spills, limit, bytes: Vec::new(), total: 0, overflow: Overflow::None }
    }

    /// Reads until the last holder of the other end has closed it. What was read so far stays when
    /// the future is dropped.
    pub(crate) async fn drain(&mut self, pipe: OwnedFd) {
        // The output of a short command is all there by now: no need to have the pipe watched.
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
            widen(&pipe);
        }
        if let Ok(pipe) = Receiver::from_owned_fd_unchecked(pipe) {
            self.drain_watched(pipe).await;
        }
    }

    async fn drain_watched(&mut self, mut pipe: Receiver) {
        let mut widened = false;
        while self.make_room() > 0 {
            // An error can only mean that there is nothing more to read.
            let Ok(size @ 1..) = pipe.read_buf(&mut self.bytes).await else {
                return;
            };
            self.total += size as u64;
            if size >= CHUNK_SIZE / 2 && !widened {
                widen(&pipe);
                widened = true;
            }
        }
        self.overflow(pipe).await;
    }

    /// Free space in the buffer; it grows by doubling, up to the limit exactly.
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

    /// The file has everything from the first byte on, so that it can be read by itself.
    async fn begin_overflow(&mut self) {
        self.overflow = self.spills.begin().map_or(Overflow::Nowhere, Overflow::Disk);
        if let Overflow::Disk(spill) = &mut self.overflow {
            for chunk in self.bytes.chunks(4 * CHUNK_SIZE) {
                spill.write(chunk);
                yield_now().await;
            }
        }
    }

    pub(crate) fn finish(self) -> Captured {
        let (spill, spilled) = match self.overflow {
            Overflow::Disk(spill) => {
                let (path, size) = self.spills.finish(spill);
                (Some(path), size)
            }
            Overflow::None | Overflow::Nowhere => (None, 0),
        };
        Captured { bytes: self.bytes, total: self.total, spill, spilled }
    }
}

/// A busy pipe is widened, so that a talkative child and its reader take turns less often.
#[cfg(target_os = "linux")]
fn widen(pipe: impl AsFd) {
    const WIDE_PIPE: usize = 1024 * 1024;
    let _widened = rustix::pipe::fcntl_setpipe_size(pipe, WIDE_PIPE);
}

#[cfg(not(target_os = "linux"))]
fn widen(_pipe: impl AsFd) {}
