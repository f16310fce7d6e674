//! Connects an MCP client to muster by editing the client's configuration file, and undoes it.
//!
//! The first edit backs up the file. Undo restores the backup byte for byte, unless the client has
//! changed the file since. In that case it only removes muster's entry.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use muster_auth::private_file;
use serde_json::{Map, Value, json};
use thiserror::Error;

use crate::import::{
    client_config::{EditError, ServerCommand, add_entry, remove_entry},
    clients::ConfigFormat,
};

/// A file that could not be read or written.
#[derive(Debug, Error)]
#[error("cannot {action} {}: {source}", .path.display())]
pub struct FileError {
    action: &'static str,
    path: PathBuf,
    source: io::Error,
}

/// The configuration file of an MCP client.
#[derive(Debug)]
pub struct ClientFile {
    path: PathBuf,
    format: ConfigFormat,
    /// `None` if there is no file.
    text: Option<String>,
}

/// The plan of removing muster's entry.
#[derive(Debug)]
pub struct Removal {
    /// The text to write; `None` deletes the file, because muster created it.
    pub restored: Option<String>,
    /// What happens to the backup.
    pub backup: Backup,
}

/// The use of the backup in a removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backup {
    /// There is no backup.
    None,
    /// It is restored and deleted.
    Restored,
    /// It is kept, because the client has changed the file since.
    Outdated,
}

impl ClientFile {
    /// Reads the file, which need not exist.
    pub fn read(path: PathBuf, format: ConfigFormat) -> Result<Self, FileError> {
        let text = match fs::read_to_string(&path) {
            Ok(text) => Some(text),
            Err(err) if err.kind() == io::ErrorKind::NotFound => None,
            Err(source) => return Err(FileError { action: "read", path, source }),
        };
        Ok(Self { path, format, text })
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of the backup.
    pub fn backup_path(&self) -> PathBuf {
        let mut name = self.path.file_name().unwrap_or_default().to_owned();
        name.push(".before-muster");
        self.path.with_file_name(name)
    }

    /// The text of the file with muster's entry; `None` if the file already has this entry.
    pub fn with_entry(&self, entry: &ServerCommand) -> Result<Option<String>, EditError> {
        let text = add_entry(self.text.as_deref().unwrap_or_default(), self.format, entry)?;
        Ok(Some(text).filter(|text| self.text.as_ref() != Some(text)))
    }

    /// Writes the file, and backs it up first if it has no entry of muster. Returns whether it made a backup.
    pub fn write_entry(&self, text: &str) -> Result<bool, FileError> {
        let original = self
            .text
            .as_deref()
            .filter(|text| remove_entry(text, self.format).ok().flatten().is_none());
        if let Some(original) = original {
            write(&self.backup_path(), original, &self.path)?;
        }
        write(&self.path, text, &self.path)?;
        Ok(original.is_some())
    }

    /// Plans the removal of muster's entry; `None` if there is no entry.
    pub fn plan_removal(&self) -> Result<Option<Removal>, EditError> {
        let Some(text) = &self.text else { return Ok(None) };
        let Some(removed) = remove_entry(text, self.format)? else { return Ok(None) };
        Ok(Some(match fs::read_to_string(self.backup_path()) {
            Ok(original) if self.is_equivalent(&original, &removed) => {
                Removal { restored: Some(original), backup: Backup::Restored }
            }
            Ok(_) => Removal { restored: Some(removed), backup: Backup::Outdated },
            Err(_) => {
                let restored = Some(removed).filter(|text| !self.is_equivalent("", text));
                Removal { restored, backup: Backup::None }
            }
        }))
    }

    /// Removes muster's entry as planned.
    pub fn remove_entry(&self, removal: &Removal) -> Result<(), FileError> {
        match &removal.restored {
            Some(text) => write(&self.path, text, &self.path)?,
            None => delete(&self.path)?,
        }
        match removal.backup {
            Backup::Restored => delete(&self.backup_path()),
            Backup::None | Backup::Outdated => Ok(()),
        }
    }

    /// Whether two texts of the file are equivalent.
    fn is_equivalent(&self, one: &str, other: &str) -> bool {
        match self.format {
            ConfigFormat::Json(key) => {
                let value = |text| json_without_empty_map(text, key);
                value(one).is_some() && value(one) == value(other)
            }
            ConfigFormat::Toml(_) => one.trim_end() == other.trim_end(),
        }
    }
}

/// Parses a JSON document and drops an empty map of servers, which is equivalent to none.
fn json_without_empty_map(text: &str, key: &str) -> Option<Value> {
    let mut document = match text.trim() {
        "" => json!({}),
        text => serde_json::from_str(text).ok()?,
    };
    let servers = document.get(key).and_then(Value::as_object);
    if servers.is_some_and(Map::is_empty) {
        document.as_object_mut()?.shift_remove(key);
    }
    Some(document)
}

/// Reads a file that exists.
pub(crate) fn read(path: &Path) -> Result<String, FileError> {
    let failed = |source| FileError { action: "read", path: path.to_owned(), source };
    fs::read_to_string(path).map_err(failed)
}

pub(crate) fn delete(path: &Path) -> Result<(), FileError> {
    let failed = |source| FileError { action: "delete", path: path.to_owned(), source };
    fs::remove_file(path).map_err(failed)
}

/// Writes a file atomically, with the permissions of `like`, or private if that file does not exist. The file may hold
/// tokens, so others cannot read it while it is being written. Symbolic links are preserved.
pub(crate) fn write(path: &Path, text: &str, like: &Path) -> Result<(), FileError> {
    let failed = |source| FileError { action: "write", path: path.to_owned(), source };
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let permissions = fs::metadata(like).map(|metadata| metadata.permissions());
    private_file::write(&target, text).map_err(failed)?;
    match permissions {
        Ok(permissions) => fs::set_permissions(&target, permissions).map_err(failed),
        Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

    use super::write;

    #[test]
    fn files_are_private_unless_they_were_not() {
        let folder = tempfile::tempdir().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let file = folder.path().join("c.json");
        write(&file, "{}", &file).unwrap();
        assert_eq!(mode(&file), 0o600);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        write(&file, "{ }", &file).unwrap();
        assert_eq!((mode(&file), fs::read_to_string(&file).unwrap().as_str()), (0o644, "{ }"));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left behind");
    }
}
