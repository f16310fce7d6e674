//! Moves the state that earlier versions kept in the configuration directory to the state folder, once.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Whether a file of this name belongs to the gateway.
type IsOwn = fn(&str) -> bool;

/// The state folders in the configuration directories of earlier versions, and which files in them belong to the
/// gateway. A configuration directory may be a project that has folders of the same names.
const FOLDERS: [(&str, IsOwn); 3] =
    [("workflow_executions", is_execution), ("events", is_journal), ("outputs", is_output)];
/// Marks a folder that was copied but could not be removed, so that it is not copied again.
const COPIED: &str = "copied-from-config";

/// Moves the state in `config` to `state`, without replacing files that exist there.
pub(super) fn take_over(config: &Path, state: &Path) {
    for (name, is_own) in FOLDERS {
        let (from, to) = (config.join(name), state.join(name));
        let mark = state.join(format!(".{name}-{COPIED}"));
        if !from.is_dir() || from == to || mark.exists() || !has_only(&from, is_own) {
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

/// Whether a folder has files, and all of them belong to the gateway.
fn has_only(folder: &Path, is_own: IsOwn) -> bool {
    let Ok(entries) = fs::read_dir(folder) else { return false };
    let mut entries = entries.peekable();
    entries.peek().is_some()
        && entries.all(|entry| {
            entry.is_ok_and(|entry| {
                let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
                is_file && entry.file_name().to_str().is_some_and(is_own)
            })
        })
}

fn is_execution(name: &str) -> bool {
    let endings = [".yaml", ".journal", ".yaml.broken"];
    name.starts_with(".tmp-") || endings.iter().any(|ending| name.ends_with(ending))
}

fn is_journal(name: &str) -> bool {
    let is_day = |day: &str| day.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    let day = name.strip_prefix("events-").and_then(|rest| rest.strip_suffix(".json"));
    matches!(name, "events.log" | "events.log.1") || day.is_some_and(is_day)
}

fn is_output(name: &str) -> bool {
    let id = name.strip_prefix("out_").map(|id| id.strip_suffix(".json").unwrap_or(id));
    id.is_some_and(|id| id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'))
}

/// What has become of the originals.
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
        // If the state folder already has a newer file, the original stays.
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
