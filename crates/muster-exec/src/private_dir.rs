//! A temporary directory that only its user can read.
//!
//! It is removed when dropped. If the process dies before that, the next process that creates a directory removes the
//! stale one. A live process is recognized by the lock it holds on its directory and not by its process id, because
//! containers that share a temporary directory do not share process ids. The random name keeps another user from
//! creating it first.

use std::{
    env,
    fs::{self, DirBuilder, File},
    hash::{BuildHasher, Hasher, RandomState},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
    process,
};

use rustix::{
    fs::{FlockOperation, flock},
    process::geteuid,
};

const NAME_ATTEMPTS: u32 = 16;

/// A private temporary directory, removed when dropped.
#[derive(Debug)]
pub struct PrivateDir {
    path: PathBuf,
    /// Holds the lock that marks the directory as in use.
    _lock: File,
}

impl PrivateDir {
    /// Creates a directory in the system's temporary directory, and removes stale ones there.
    pub fn create() -> io::Result<Self> {
        Self::create_in(&env::temp_dir())
    }

    /// The path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn create_in(parent: &Path) -> io::Result<Self> {
        remove_stale(parent);
        for _ in 0..NAME_ATTEMPTS {
            let random = RandomState::new().build_hasher().finish();
            let path = parent.join(format!("muster-{}-{random:016x}", process::id()));
            match DirBuilder::new().mode(0o700).create(&path) {
                Err(err) if err.kind() == io::ErrorKind::AlreadyExists => continue,
                created => created?,
            }
            // Another process may take it for stale before it is locked, and remove it.
            let Ok(lock) = File::open(&path) else { continue };
            let locked = flock(&lock, FlockOperation::NonBlockingLockExclusive);
            if locked.is_ok() && path.exists() {
                return Ok(Self { path, _lock: lock });
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }
}

impl Drop for PrivateDir {
    fn drop(&mut self) {
        let _removed = fs::remove_dir_all(&self.path);
    }
}

/// Removes this user's directories that no live process has locked.
fn remove_stale(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else {
        return;
    };
    for entry in entries.flatten() {
        if entry.file_name().to_str().is_some_and(is_our_name) {
            let _removed = remove_if_stale(&entry.path());
        }
    }
}

/// `muster-PID-RANDOM`, with sixteen hexadecimal digits.
fn is_our_name(name: &str) -> bool {
    let Some((pid, random)) = name.strip_prefix("muster-").and_then(|rest| rest.split_once('-'))
    else {
        return false;
    };
    let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    pid.parse::<u32>().is_ok() && random.len() == 16 && random.bytes().all(is_hex)
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

    /// Simulates a killed process: the lock is released, but the directory still exists.
    fn abandon(dir: PrivateDir) -> PathBuf {
        let path = dir.path().to_owned();
        let moved = path.with_extension("moved");
        fs::rename(&path, &moved).unwrap();
        drop(dir);
        fs::rename(&moved, &path).unwrap();
        path
    }

    #[test]
    fn a_directory_is_private_and_stale_ones_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let stale = parent.path().join("muster-1-0123456789abcdef");
        let foreign = parent.path().join("muster-1-mine");
        fs::create_dir(&stale).unwrap();
        fs::write(stale.join("000001"), "old").unwrap();
        fs::create_dir(&foreign).unwrap();
        let first = PrivateDir::create_in(parent.path()).unwrap();
        assert_eq!(fs::metadata(first.path()).unwrap().permissions().mode() & 0o777, 0o700);
        assert!(!stale.exists());
        assert!(foreign.exists());

        let second = PrivateDir::create_in(parent.path()).unwrap();
        assert!(first.path().exists(), "a live process keeps its directory");
        let abandoned = abandon(first);
        let _third = PrivateDir::create_in(parent.path()).unwrap();
        assert!(!abandoned.exists(), "its lock is gone");
        let path = second.path().to_owned();
        drop(second);
        assert!(!path.exists(), "dropping removes the directory");
    }

    #[test]
    fn processes_that_start_together_all_get_a_directory() {
        let parent = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        let dir = PrivateDir::create_in(parent.path()).unwrap();
                        fs::write(dir.path().join("x"), "mine").unwrap();
                    }
                });
            }
        });
    }

    #[test]
    fn directories_of_others_are_neither_used_nor_removed() {
        let parent = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        fs::write(elsewhere.path().join("kept"), "").unwrap();
        let link = parent.path().join("muster-1-0123456789abcdef");
        std::os::unix::fs::symlink(elsewhere.path(), &link).unwrap();
        let file = parent.path().join("muster-2-0123456789abcdef");
        fs::write(&file, "").unwrap();
        let dir = PrivateDir::create_in(parent.path()).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        assert!(link.is_symlink() && file.exists() && elsewhere.path().join("kept").exists());
    }

    #[test]
    fn only_our_names_are_touched() {
        let names = ["muster-12-0123456789abcdef", "muster-x-0123456789abcdef", "muster-12-0", "x"];
        assert_eq!(names.map(is_our_name), [true, false, false, false]);
    }
}
