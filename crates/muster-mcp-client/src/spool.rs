//! Temporary files for messages that are too long for memory, written while they arrive.
//!
//! The files have no name: no other process can open them, and they disappear with their last holder,
//! even if this process is killed.
//!
//! The output of commands that does not fit in memory is in spill files (`muster-exec`). What a caller may read later is
//! copied to the stored outputs (`muster-gateway`).

use std::{
    fs::File,
    io::{self, Read, Write as _},
    ops::{Deref, Range},
    os::unix::fs::FileExt as _,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use thiserror::Error;
use tracing::warn;

use crate::error::{MAX_IN_MEMORY, TransportError, too_large};

/// A longer message is spooled.
pub(crate) const SPOOL_THRESHOLD: usize = 1024 * 1024;
/// The longest message that is accepted.
const MAX_MESSAGE: u64 = 1 << 30;
/// The disk space that all spooled messages may take together.
const MAX_TOTAL: u64 = 4 << 30;

/// The disk space for spooled messages of all upstreams.
#[derive(Debug)]
pub(crate) struct Spool {
    used: AtomicU64,
    max_message: u64,
    max_total: u64,
}

impl Default for Spool {
    fn default() -> Self {
        Self::with_limits(MAX_MESSAGE, MAX_TOTAL)
    }
}

/// Why a message cannot be spooled.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum SpoolError {
    /// It is longer than this limit.
    #[error("{}", too_large(*.0))]
    TooLarge(u64),
    /// All messages together are longer than this limit.
    #[error("all answers in flight are larger than {} MiB; try again later", .0 / 1024 / 1024)]
    AllTooLarge(u64),
    /// It cannot be written.
    #[error("could not keep the answer: {reason}; free space in {} or ask for less", .directory.display())]
    Unwritable { reason: String, directory: PathBuf },
}

impl SpoolError {
    pub(crate) fn unwritable(error: &io::Error) -> Self {
        let text = error.to_string();
        let reason = text.split(" (os error").next().unwrap_or_default().to_owned();
        Self::Unwritable { reason, directory: std::env::temp_dir() }
    }
}

/// A spooled message.
#[derive(Debug)]
pub(crate) struct SpoolFile {
    file: File,
    size: u64,
    spool: Arc<Spool>,
}

impl Spool {
    pub(crate) const fn with_limits(max_message: u64, max_total: u64) -> Self {
        Self { used: AtomicU64::new(0), max_message, max_total }
    }

    /// A file for one message; `None` if none can be created.
    pub(crate) fn create(self: &Arc<Self>) -> Option<SpoolFile> {
        match tempfile::tempfile() {
            Ok(file) => Some(SpoolFile { file, size: 0, spool: Arc::clone(self) }),
            Err(error) => {
                warn!("cannot spool a long message, it stays in memory: {error}");
                None
            }
        }
    }
}

impl SpoolFile {
    /// Appends.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), SpoolError> {
        let size = bytes.len() as u64;
        let used = self.spool.used.fetch_add(size, Ordering::Relaxed) + size;
        self.size += size;
        if self.size > self.spool.max_message {
            return Err(SpoolError::TooLarge(self.spool.max_message));
        }
        if used > self.spool.max_total {
            return Err(SpoolError::AllTooLarge(self.spool.max_total));
        }
        self.file.write_all(bytes).map_err(|error| {
            warn!("cannot spool a long message: {error}");
            SpoolError::unwritable(&error)
        })
    }

    pub(crate) const fn size(&self) -> u64 {
        self.size
    }

    /// Reads a range. Several readers may read at the same time.
    pub(crate) fn read(self: &Arc<Self>, range: Range<u64>) -> SpoolReader<Arc<Self>> {
        SpoolReader { file: Arc::clone(self), range }
    }

    /// Reads the whole message.
    pub(crate) const fn read_all(&self) -> SpoolReader<&Self> {
        SpoolReader { file: self, range: 0..self.size }
    }

    /// Reads at most `size` bytes from `offset` on; fewer only at the end of the message.
    pub(crate) fn chunk(&self, offset: u64, size: usize) -> io::Result<Vec<u8>> {
        let left = usize::try_from(self.size.saturating_sub(offset)).unwrap_or(usize::MAX);
        let mut chunk = vec![0; size.min(left)];
        self.file.read_exact_at(&mut chunk, offset)?;
        Ok(chunk)
    }
}

impl Drop for SpoolFile {
    fn drop(&mut self) {
        self.spool.used.fetch_sub(self.size, Ordering::Relaxed);
    }
}

/// A reader of a range of a spooled message.
#[derive(Debug)]
pub(crate) struct SpoolReader<F> {
    file: F,
    range: Range<u64>,
}

impl<F: Deref<Target = SpoolFile>> Read for SpoolReader<F> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let left = self.range.end.saturating_sub(self.range.start);
        let size = usize::try_from(left).unwrap_or(usize::MAX).min(out.len());
        let room = out.get_mut(..size).unwrap_or_default();
        let read = self.file.file.read_at(room, self.range.start)?;
        self.range.start += read as u64;
        Ok(read)
    }
}

/// A message as it was received.
#[derive(Debug)]
pub(crate) enum Payload {
    /// In memory.
    Memory(Bytes),
    /// On disk.
    Spooled(SpoolFile),
}

impl Payload {
    /// Loads the message into memory, if it is not longer than [`MAX_IN_MEMORY`].
    pub(crate) async fn into_memory(self) -> Result<Bytes, TransportError> {
        let file = match self {
            Self::Memory(bytes) => return Ok(bytes),
            Self::Spooled(file) => file,
        };
        let size = usize::try_from(file.size()).unwrap_or(usize::MAX);
        if size > MAX_IN_MEMORY {
            return Err(TransportError::Invalid(too_large(MAX_IN_MEMORY as u64)));
        }
        let read = tokio::task::spawn_blocking(move || file.chunk(0, size)).await;
        let read = read.unwrap_or_else(|error| Err(error.into()));
        let read = read.map_err(|error| {
            TransportError::Invalid(format!("its answer cannot be read: {error}"))
        });
        Ok(read?.into())
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Read as _, sync::Arc};

    use super::{Spool, SpoolError, SpoolFile};

    #[test]
    fn ranges_are_read_concurrently() {
        let spool = Arc::new(Spool::default());
        let mut file = spool.create().unwrap();
        file.write(b"0123").unwrap();
        file.write(b"456789").unwrap();
        let file = Arc::new(file);
        let (mut one, mut other) = (file.read(2..5), file.read(0..100));
        let (mut first, mut all) = (String::new(), String::new());
        one.read_to_string(&mut first).unwrap();
        other.read_to_string(&mut all).unwrap();
        assert_eq!((&*first, &*all), ("234", "0123456789"));
    }

    #[test]
    fn a_full_disk_is_named() {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut file = SpoolFile { file: full, size: 0, spool: Arc::new(Spool::default()) };
        let said = file.write(b"0123").unwrap_err().to_string();
        let folder = std::env::temp_dir();
        assert_eq!(
            said,
            format!(
                "could not keep the answer: No space left on device; free space in {} or ask for less",
                folder.display()
            )
        );
    }

    #[test]
    fn one_message_and_all_together_are_limited() {
        let spool = Arc::new(Spool::with_limits(10, 15));
        let mut first = spool.create().unwrap();
        assert_eq!(first.write(b"0123456789"), Ok(()));
        let mut second = spool.create().unwrap();
        assert_eq!(second.write(b"012345"), Err(SpoolError::AllTooLarge(15)));
        drop(second);
        assert_eq!(first.write(b"0"), Err(SpoolError::TooLarge(10)));
        drop(first);
        let mut third = spool.create().unwrap();
        assert_eq!(third.write(b"0123456789"), Ok(()), "dropped files free their space");
    }
}
