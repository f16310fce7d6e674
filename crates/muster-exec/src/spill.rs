//! Files for the output of commands that does not fit in memory.
//!
//! Each gateway has at most one directory for them, created on first use and removed at shutdown. A file that is dropped
//! before it is finished, because its run was cancelled, is removed.
//!
//! Messages of servers that do not fit in memory are in the spool (`muster-mcp-client`). What a caller may read later is
//! copied to the stored outputs (`muster-gateway`).
//!
//! **Invariant:** all files together, those being written included, never exceed their limit.

use std::{
    collections::VecDeque,
    fs::{self, File, OpenOptions},
    io::{self, Write},
    mem,
    os::unix::fs::OpenOptionsExt,
    path::PathBuf,
};

use crate::{lock::Lock, private_dir::PrivateDir};

/// The size limit of one stream on disk. The rest is counted and dropped.
pub const STREAM_LIMIT: u64 = 1 << 30;
/// The size limit of all files together. To stay within it, the oldest finished files are removed.
const TOTAL_LIMIT: u64 = 4 << 30;

/// The spilled output of one gateway.
#[derive(Debug)]
pub(crate) struct SpillStore {
    total_limit: u64,
    directory: Lock<Option<Directory>>,
}

#[derive(Debug)]
struct Directory {
    dir: PrivateDir,
    created: u64,
    /// The bytes of all files, finished or not.
    total: u64,
    /// The finished files and their sizes, oldest first.
    finished: VecDeque<(PathBuf, u64)>,
}

/// A stream being written to disk. Dropping it before it is finished removes the file.
#[derive(Debug)]
pub(crate) struct SpillFile<'a> {
    store: &'a SpillStore,
    /// `None` once it is finished.
    path: Option<PathBuf>,
    /// `None` once the rest is dropped.
    file: Option<File>,
    written: u64,
}

impl Default for SpillStore {
    fn default() -> Self {
        Self { total_limit: TOTAL_LIMIT, directory: Lock::default() }
    }
}

impl SpillStore {
    /// Creates the file for one stream.
    pub(crate) fn begin(&self) -> io::Result<SpillFile<'_>> {
        let mut store = self.directory.lock();
        let directory = match &mut *store {
            Some(directory) => directory,
            None => {
                let dir = PrivateDir::create()?;
                store.insert(Directory { dir, created: 0, total: 0, finished: VecDeque::new() })
            }
        };
        directory.created += 1;
        let path = directory.dir.path().join(format!("{:06}", directory.created));
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        Ok(SpillFile { store: self, path: Some(path), file: Some(file), written: 0 })
    }

    /// Removes every file.
    pub(crate) fn remove(&self) {
        *self.directory.lock() = None;
    }

    /// Counts bytes that are about to be written, and removes the oldest finished files to make room. Returns how many
    /// of the bytes fit.
    fn reserve(&self, size: u64) -> u64 {
        let mut store = self.directory.lock();
        let Some(directory) = &mut *store else { return 0 };
        directory.evict_oldest(self.total_limit.saturating_sub(size));
        let fitting = size.min(self.total_limit.saturating_sub(directory.total));
        directory.total += fitting;
        fitting
    }

    /// Takes back bytes that were reserved and are not on disk.
    fn release(&self, size: u64) {
        if let Some(directory) = &mut *self.directory.lock() {
            directory.total = directory.total.saturating_sub(size);
        }
    }
}

impl SpillFile<'_> {
    /// Appends. A write error or a size limit ends the file: the rest is dropped.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        let Some(file) = &mut self.file else {
            return;
        };
        let wanted = (bytes.len() as u64).min(STREAM_LIMIT - self.written);
        let reserved = self.store.reserve(wanted);
        let fitting = usize::try_from(reserved).unwrap_or(usize::MAX);
        let (mut left, over) = bytes.split_at_checked(fitting).unwrap_or((bytes, &[]));
        while !left.is_empty() {
            match file.write(left) {
                Ok(size) if size > 0 => {
                    self.written += size as u64;
                    left = left.get(size..).unwrap_or_default();
                }
                Err(err) if err.kind() == io::ErrorKind::Interrupted => {}
                Ok(_) | Err(_) => break,
            }
        }
        if !left.is_empty() || !over.is_empty() {
            self.store.release(left.len() as u64);
            self.file = None;
        }
    }

    /// Registers the finished file for eviction; returns its path and size.
    pub(crate) fn finish(mut self) -> (PathBuf, u64) {
        let path = mem::take(&mut self.path).unwrap_or_default();
        if let Some(directory) = &mut *self.store.directory.lock() {
            directory.finished.push_back((path.clone(), self.written));
        }
        (path, self.written)
    }
}

impl Drop for SpillFile<'_> {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _removed = fs::remove_file(path);
            self.store.release(self.written);
        }
    }
}

impl Directory {
    /// Removes the oldest finished files until the rest, with those being written, has at most this many bytes.
    fn evict_oldest(&mut self, limit: u64) {
        while self.total > limit
            && let Some((path, size)) = self.finished.pop_front()
        {
            let _removed = fs::remove_file(path);
            self.total = self.total.saturating_sub(size);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn store(total_limit: u64) -> SpillStore {
        SpillStore { total_limit, ..SpillStore::default() }
    }

    fn file_with<'a>(store: &'a SpillStore, bytes: &[u8]) -> SpillFile<'a> {
        let mut spill = store.begin().unwrap();
        spill.write(bytes);
        spill
    }

    #[test]
    fn a_stream_is_cut_at_the_limit() {
        let store = SpillStore::default();
        let mut spill = store.begin().unwrap();
        spill.written = STREAM_LIMIT - 3;
        spill.write(b"abcdef");
        spill.write(b"ghi");
        let (path, size) = spill.finish();
        assert_eq!(size, STREAM_LIMIT);
        assert_eq!(fs::read(&path).unwrap(), b"abc");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        store.remove();
        assert!(!path.exists());
    }

    #[test]
    fn the_oldest_files_are_evicted() {
        let store = store(40);
        let files: Vec<PathBuf> = (0..6).map(|_| file_with(&store, &[0; 10]).finish().0).collect();
        let present: Vec<bool> = files.iter().map(|path| path.exists()).collect();
        assert_eq!(present, [false, false, true, true, true, true]);
    }

    #[test]
    fn a_file_that_is_not_finished_is_removed() {
        let store = store(10);
        let spill = file_with(&store, b"0123456789");
        let path = spill.path.clone().unwrap();
        assert!(path.exists());
        drop(spill);
        assert!(!path.exists());
        let (_, size) = file_with(&store, b"0123456789").finish();
        assert_eq!(size, 10, "the removed file no longer counts");
    }

    #[test]
    fn files_being_written_count() {
        let store = store(10);
        let (finished, _) = file_with(&store, b"012").finish();
        let mut first = file_with(&store, b"012345");
        assert!(finished.exists());
        let mut second = file_with(&store, b"01");
        assert!(!finished.exists(), "the finished file makes room");
        second.write(b"2345");
        first.write(b"6");
        assert_eq!((first.finish().1, second.finish().1), (6, 4), "no file can make room");
    }
}
