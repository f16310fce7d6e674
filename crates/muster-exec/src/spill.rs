//! Files for output that does not fit in memory.
//!
//! Each gateway has at most one directory for them, created on first use and removed at shutdown.

use std::{
    collections::VecDeque,
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::PathBuf,
};

use crate::{lock::Lock, private_dir::PrivateDir};

/// The size limit of one stream on disk. The rest is counted and dropped.
pub const STREAM_LIMIT: u64 = 1 << 30;
/// The size limit of all files together; beyond it the oldest are removed.
const TOTAL_LIMIT: u64 = 4 << 30;

/// The spilled output of one gateway.
#[derive(Debug, Default)]
pub(crate) struct SpillStore(Lock<Option<Directory>>);

#[derive(Debug)]
struct Directory {
    dir: PrivateDir,
    created: u64,
    finished: VecDeque<(PathBuf, u64)>,
}

/// A stream being written to disk.
#[derive(Debug)]
pub(crate) struct SpillFile {
    path: PathBuf,
    file: Option<File>,
    written: u64,
}

impl SpillStore {
    /// Creates the file for one stream.
    pub(crate) fn begin(&self) -> io::Result<SpillFile> {
        let mut store = self.0.lock();
        let directory = match &mut *store {
            Some(directory) => directory,
            None => {
                let dir = PrivateDir::create()?;
                store.insert(Directory { dir, created: 0, finished: VecDeque::new() })
            }
        };
        directory.created += 1;
        directory.evict_oldest();
        let path = directory.dir.path().join(format!("{:06}", directory.created));
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        Ok(SpillFile { path, file: Some(file), written: 0 })
    }

    /// Registers a finished file for eviction; returns its path and size.
    pub(crate) fn finish(&self, spill: SpillFile) -> (PathBuf, u64) {
        if let Some(directory) = &mut *self.0.lock() {
            directory.finished.push_back((spill.path.clone(), spill.written));
        }
        (spill.path, spill.written)
    }

    /// Removes every file.
    pub(crate) fn remove(&self) {
        *self.0.lock() = None;
    }
}

impl SpillFile {
    /// Appends. A write error or the size limit ends the file: the rest is dropped.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        let Some(file) = &mut self.file else {
            return;
        };
        let room = usize::try_from(STREAM_LIMIT - self.written).unwrap_or(usize::MAX);
        let (fitting, over) = bytes.split_at_checked(room).unwrap_or((bytes, &[]));
        let mut left = fitting;
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
            self.file = None;
        }
    }
}

impl Directory {
    fn evict_oldest(&mut self) {
        let mut total: u64 = self.finished.iter().map(|(_, size)| size).sum();
        while total > TOTAL_LIMIT
            && let Some((path, size)) = self.finished.pop_front()
        {
            let _removed = fs::remove_file(path);
            total -= size;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_stream_is_cut_at_the_limit() {
        let store = SpillStore::default();
        let mut spill = store.begin().unwrap();
        spill.written = STREAM_LIMIT - 3;
        spill.write(b"abcdef");
        spill.write(b"ghi");
        let (path, size) = store.finish(spill);
        assert_eq!(size, STREAM_LIMIT);
        assert_eq!(fs::read(&path).unwrap(), b"abc");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        store.remove();
        assert!(!path.exists());
    }

    #[test]
    fn the_oldest_files_are_evicted() {
        let store = SpillStore::default();
        let files: Vec<PathBuf> = (0..6)
            .map(|_| {
                let mut spill = store.begin().unwrap();
                spill.written = STREAM_LIMIT;
                store.finish(spill).0
            })
            .collect();
        let present: Vec<bool> = files.iter().map(|path| path.exists()).collect();
        assert_eq!(present, [false, true, true, true, true, true]);
    }
}
