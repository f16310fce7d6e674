//! Atomic writes: to a temporary file beside the target, synced, then renamed.

use std::{
    fs, io,
    io::Write as _,
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use muster_config::mcpserver::{self, McpServerStatus};
use rustix::{
    fs::{CWD, RenameFlags, renameat_with},
    io::Errno,
    process::{Pid, test_kill_process},
};

use tokio::sync::Mutex;

use super::WriteError;

/// Serializes read-modify-write cycles. Held across file operations, which run on blocking threads.
/// Clones share one lock.
#[derive(Debug, Clone, Default)]
pub(super) struct Writing(Arc<Mutex<()>>);

impl Writing {
    /// Does work on a blocking thread, once the lock is free. Errors name `root`.
    pub(super) async fn exclusively(
        &self,
        root: &Path,
        work: impl FnOnce() -> Result<(), WriteError> + Send + 'static,
    ) -> Result<(), WriteError> {
        let turn = Arc::clone(&self.0).lock_owned().await;
        // The work continues if its caller stops waiting, and must hold the lock until it is done.
        let done = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            work()
        });
        let done = done.await;
        done.unwrap_or_else(|error| {
            let source = io::Error::other(error);
            Err(WriteError::Io { path: root.to_owned(), source })
        })
    }
}

/// The prefix of the names of temporary files, before a process id and a number.
const TEMPORARY: &str = ".tmp-";

/// Files may hold secrets: only the user can read them.
const NEW_FILE: u32 = 0o600;

pub(super) fn create(folder: &Path, path: &Path, text: &str) -> Result<(), WriteError> {
    let failed = |source| WriteError::Io { path: path.to_owned(), source };
    fs::create_dir_all(folder).map_err(failed)?;
    let beside = beside(path, text, NEW_FILE).map_err(failed)?;
    // A hard link fails if the target exists, where a rename would replace it. Not every file system has hard
    // links.
    let placed = match fs::hard_link(&beside, path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists && !path.exists() => {
            fs::rename(&beside, path)
        }
        linked => {
            drop(fs::remove_file(&beside));
            linked
        }
    };
    match placed {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Err(WriteError::Exists(path.to_owned()))
        }
        Err(error) => Err(failed(error)),
    }
}

/// Replaces the contents of a file, if `is_meant` accepts the current ones.
pub(super) fn replace(
    path: &Path,
    text: &str,
    is_meant: impl Fn(&str) -> bool,
) -> Result<(), WriteError> {
    let failed = |source: io::Error| missing_or_failed(path, source);
    // A symbolic link stays a link.
    let target = fs::canonicalize(path).map_err(failed)?;
    let mode = fs::metadata(&target).map_err(failed)?.permissions().mode();
    let beside = beside(&target, text, mode).map_err(failed)?;
    let replaced = put(&beside, &target, is_meant);
    if replaced.is_err() {
        drop(fs::remove_file(&beside));
    }
    match replaced {
        Ok(true) => Ok(()),
        Ok(false) => Err(WriteError::Changed(path.to_owned())),
        Err(error) => Err(failed(error)),
    }
}

/// Renames `beside` to `target`, if `is_meant` accepts the target. A concurrent edit is never lost.
fn put(beside: &Path, target: &Path, is_meant: impl Fn(&str) -> bool) -> io::Result<bool> {
    // Check again: syncing is slow, and the file may have been edited meanwhile.
    if !is_meant(&fs::read_to_string(target)?) {
        fs::remove_file(beside)?;
        return Ok(false);
    }
    let ours = fs::metadata(beside)?.ino();
    match exchange(beside, target) {
        Ok(()) => (),
        // Not every file system can exchange two names.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
            return fs::rename(beside, target).map(|()| true);
        }
        Err(error) => return Err(error.into()),
    }
    let was_meant = fs::read_to_string(beside).is_ok_and(|displaced| is_meant(&displaced));
    if !was_meant {
        give_back(beside, target, ours)?;
    }
    fs::remove_file(beside).map(|()| was_meant)
}

/// Restores a file that was displaced by mistake, or the file that was written over it since.
fn give_back(beside: &Path, target: &Path, mut last_put: u64) -> io::Result<()> {
    loop {
        let putting = fs::metadata(beside)?.ino();
        exchange(beside, target)?;
        if fs::metadata(beside)?.ino() == last_put {
            return Ok(());
        }
        last_put = putting;
    }
}

fn exchange(one: &Path, other: &Path) -> Result<(), Errno> {
    renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)
}

fn missing_or_failed(path: &Path, source: io::Error) -> WriteError {
    match source.kind() {
        io::ErrorKind::NotFound => WriteError::Gone(path.to_owned()),
        _ => WriteError::Io { path: path.to_owned(), source },
    }
}

/// Writes a file of the state folder.
pub(super) fn put_state(path: &Path, text: &str) -> Result<(), WriteError> {
    let failed = |source| WriteError::Io { path: path.to_owned(), source };
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    let beside = beside(path, text, NEW_FILE).map_err(failed)?;
    fs::rename(beside, path).map_err(failed)
}

pub(super) fn delete(path: &Path) -> Result<(), WriteError> {
    fs::remove_file(path).map_err(|source| missing_or_failed(path, source))
}

pub(super) fn status(path: &Path, status: &McpServerStatus) -> Result<(), WriteError> {
    changed(path, |before| mcpserver::with_status(before, status))
}

/// The contents of a file.
pub(super) fn read(path: &Path) -> Result<String, WriteError> {
    fs::read_to_string(path).map_err(|source| missing_or_failed(path, source))
}

/// Replaces the contents of a file with the result of `change`.
pub(super) fn changed(
    path: &Path,
    change: impl Fn(&str) -> Option<String>,
) -> Result<(), WriteError> {
    let before = read(path)?;
    match change(&before) {
        Some(after) if after != before => replace(path, &after, |now| now == before),
        // Nothing changed, or only the author of the file can change it.
        Some(_) | None => Ok(()),
    }
}

/// Removes the temporary files of processes that were killed while they wrote.
pub(super) fn remove_stale(folder: &Path) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let writer = name.strip_prefix(TEMPORARY).and_then(|rest| rest.split('-').next());
        let Some(writer) = writer.and_then(|pid| Pid::from_raw(pid.parse().ok()?)) else {
            continue;
        };
        // In a container, the previous process had the same process id.
        let is_ours = u32::try_from(writer.as_raw_nonzero().get()) == Ok(std::process::id());
        if is_ours || test_kill_process(writer) == Err(Errno::SRCH) {
            match fs::remove_file(&path) {
                Ok(()) => tracing::debug!("removed {}", path.display()),
                Err(error) => tracing::warn!("cannot remove {}: {error}", path.display()),
            }
        }
    }
}

/// Writes a new file in the same folder, synced to disk.
fn beside(path: &Path, text: &str, mode: u32) -> io::Result<PathBuf> {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let number = LAST.fetch_add(1, Ordering::Relaxed);
    let name = format!("{TEMPORARY}{}-{number}", std::process::id());
    let beside = path.with_file_name(name);
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&beside)?;
    let written = file
        .set_permissions(fs::Permissions::from_mode(mode))
        .and_then(|()| file.write_all(text.as_bytes()))
        .and_then(|()| file.sync_all());
    if let Err(error) = written {
        drop(fs::remove_file(&beside));
        return Err(error);
    }
    Ok(beside)
}
