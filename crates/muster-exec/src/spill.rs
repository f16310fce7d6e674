//! Output that does not fit in memory, on disk.
//!
//! Each gateway has at most one directory, made when first needed and readable by its user only. It
//! goes at shut-down; should the gateway die before that, the next one to make a directory takes the
//! old one away. A living gateway is told by the lock that it holds on its directory, not by a process
//! number, because containers that share a temporary directory do not share those.

use std::{
    collections::VecDeque,
    env,
    fs::{self, DirBuilder, File, OpenOptions},
    hash::{BuildHasher, Hasher, RandomState},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    process,
};

use rustix::{
    fs::{FlockOperation, flock},
    process::geteuid,
};

use crate::lock::Lock;

/// What one stream may take on disk. What comes after it is counted and dropped.
pub const STREAM_LIMIT: u64 = 1 << 30;
/// What all kept files together may take before the oldest are removed.
const TOTAL_LIMIT: u64 = 4 << 30;
const NAME_ATTEMPTS: u32 = 16;

/// The spilled output of one gateway.
#[derive(Debug, Default)]
pub(crate) struct Spills(Lock<Option<Directory>>);

#[derive(Debug)]
struct Directory {
    path: PathBuf,
    /// Holds the lock that says that we live.
    _lock: File,
    made: u64,
    finished: VecDeque<(PathBuf, u64)>,
}

/// One stream on its way to disk.
#[derive(Debug)]
pub(crate) struct Spill {
    path: PathBuf,
    file: Option<File>,
    written: u64,
}

impl Spills {
    /// A new file for one stream.
    pub(crate) fn begin(&self) -> io::Result<Spill> {
        let mut held = self.0.lock();
        let directory = match &mut *held {
            Some(directory) => directory,
            None => held.insert(Directory::make(&env::temp_dir())?),
        };
        directory.made += 1;
        directory.make_room();
        let path = directory.path.join(format!("{:06}", directory.made));
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        Ok(Spill { path, file: Some(file), written: 0 })
    }

    /// Takes a finished file into the account. Returns its path and size.
    pub(crate) fn finish(&self, spill: Spill) -> (PathBuf, u64) {
        if let Some(directory) = &mut *self.0.lock() {
            directory.finished.push_back((spill.path.clone(), spill.written));
        }
        (spill.path, spill.written)
    }

    /// Removes everything.
    pub(crate) fn remove(&self) {
        if let Some(directory) = self.0.lock().take() {
            let _removed = fs::remove_dir_all(&directory.path);
        }
    }
}

impl Drop for Spills {
    fn drop(&mut self) {
        self.remove();
    }
}

impl Spill {
    /// Appends. A disk that is full or broken, or the limit, ends the file: the rest is dropped.
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
    fn make(parent: &Path) -> io::Result<Self> {
        remove_stale(parent);
        for _ in 0..NAME_ATTEMPTS {
            let random = RandomState::new().build_hasher().finish();
            let path = parent.join(format!("muster-{}-{random:016x}", process::id()));
            match DirBuilder::new().mode(0o700).create(&path) {
                Err(err) if err.kind() == io::ErrorKind::AlreadyExists => continue,
                made => made?,
            }
            let lock = File::open(&path)?;
            flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
            // Another gateway may have taken it for stale in the moment before.
            if path.exists() {
                return Ok(Self { path, _lock: lock, made: 0, finished: VecDeque::new() });
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    fn make_room(&mut self) {
        let mut total: u64 = self.finished.iter().map(|(_, size)| size).sum();
        while total > TOTAL_LIMIT
            && let Some((path, size)) = self.finished.pop_front()
        {
            let _removed = fs::remove_file(path);
            total -= size;
        }
    }
}

/// Removes directories that belonged to this user's gateways and are not locked by a living one.
fn remove_stale(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else {
        return;
    };
    for entry in entries.flatten() {
        if entry.file_name().to_str().is_some_and(is_ours) {
            let _removed = remove_if_stale(&entry.path());
        }
    }
}

/// `muster-PID-RANDOM`, with sixteen hexadecimal digits.
fn is_ours(name: &str) -> bool {
    let Some((pid, random)) = name.strip_prefix("muster-").and_then(|rest| rest.split_once('-'))
    else {
        return false;
    };
    let is_random = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    pid.parse::<u32>().is_ok() && random.len() == 16 && random.bytes().all(is_random)
}

fn remove_if_stale(path: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(path)?;
    if !found.is_dir() || found.uid() != geteuid().as_raw() {
        return Ok(());
    }
    let lock = File::open(path)?;
    flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
    fs::remove_dir_all(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_directory_is_private_and_the_stale_ones_go() {
        let parent = tempfile::tempdir().unwrap();
        let stale = parent.path().join("muster-1-0123456789abcdef");
        let strange = parent.path().join("muster-1-mine");
        fs::create_dir(&stale).unwrap();
        fs::write(stale.join("000001"), "old").unwrap();
        fs::create_dir(&strange).unwrap();
        let first = Directory::make(parent.path()).unwrap();
        assert_eq!(fs::metadata(&first.path).unwrap().permissions().mode() & 0o777, 0o700);
        assert!(!stale.exists());
        assert!(strange.exists());

        let second = Directory::make(parent.path()).unwrap();
        assert!(first.path.exists(), "a living gateway keeps its directory");
        let paths = [&first.path, &second.path].map(PathBuf::clone);
        drop((first, second));
        let _third = Directory::make(parent.path()).unwrap();
        assert!(paths.iter().all(|path| !path.exists()), "their locks are gone");
    }

    #[test]
    fn only_names_of_ours_are_touched() {
        let names = ["muster-12-0123456789abcdef", "muster-x-0123456789abcdef", "muster-12-0", "x"];
        assert_eq!(names.map(is_ours), [true, false, false, false]);
    }

    #[test]
    fn a_stream_ends_at_the_limit() {
        let spills = Spills::default();
        let mut spill = spills.begin().unwrap();
        spill.written = STREAM_LIMIT - 3;
        spill.write(b"abcdef");
        spill.write(b"ghi");
        let (path, size) = spills.finish(spill);
        assert_eq!(size, STREAM_LIMIT);
        assert_eq!(fs::read(&path).unwrap(), b"abc");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        spills.remove();
        assert!(!path.exists());
    }

    #[test]
    fn the_oldest_files_make_room() {
        let spills = Spills::default();
        let files: Vec<PathBuf> = (0..6)
            .map(|_| {
                let mut spill = spills.begin().unwrap();
                spill.written = STREAM_LIMIT;
                spills.finish(spill).0
            })
            .collect();
        let there: Vec<bool> = files.iter().map(|path| path.exists()).collect();
        assert_eq!(there, [false, true, true, true, true, true]);
    }
}
