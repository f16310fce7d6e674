//! The state that earlier versions kept in the configuration directory: it is moved to the state folder once.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// The folders of state in the configuration directories of earlier versions.
const FOLDERS: [&str; 4] = ["workflow_executions", "events", "outputs", "meanings"];
/// Written once a folder was copied and could not be removed, so that it is not copied again.
const COPIED: &str = "copied-from-config";

/// Moves the state in `config` to `state`. Files that are there already stay.
pub(super) fn take_over(config: &Path, state: &Path) {
    for name in FOLDERS {
        let (from, to) = (config.join(name), state.join(name));
        let mark = state.join(format!(".{name}-{COPIED}"));
        if !from.is_dir() || from == to || mark.exists() {
            continue;
        }
        match merge(&from, &to) {
            Ok(Moved::All) => {
                tracing::info!("moved {} to {}", from.display(), to.display());
            }
            Ok(Moved::Copied) => {
                tracing::info!("copied {} to {}", from.display(), to.display());
                if let Err(error) = fs::write(&mark, "") {
                    tracing::warn!("cannot write {}: {error}", mark.display());
                }
            }
            Err(error) => {
                tracing::warn!("cannot move {} to {}: {error}", from.display(), to.display());
            }
        }
    }
}

/// What became of the originals.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Moved {
    /// They are gone.
    All,
    /// Some cannot be removed.
    Copied,
}

fn merge(from: &Path, to: &Path) -> io::Result<Moved> {
    if !to.exists() && fs::rename(from, to).is_ok() {
        return Ok(Moved::All);
    }
    fs::create_dir_all(to)?;
    let mut moved = Moved::All;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, target): (PathBuf, PathBuf) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            if merge(&source, &target)? == Moved::Copied {
                moved = Moved::Copied;
            }
            continue;
        }
        // Where the state folder has a newer one, the original stays.
        if target.exists() {
            moved = Moved::Copied;
            continue;
        }
        if fs::rename(&source, &target).is_err() {
            fs::copy(&source, &target)?;
            if fs::remove_file(&source).is_err() {
                moved = Moved::Copied;
            }
        }
    }
    if fs::remove_dir(from).is_err() {
        moved = Moved::Copied;
    }
    Ok(moved)
}
