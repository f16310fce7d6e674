//! The state folder of a gateway: its own data, apart from the configuration that users write.
//!
//! Each configuration directory has one, and each state folder has at most one gateway: the owner, which holds a lock
//! until its process ends.

mod earlier;
mod lock;

use std::{
    fs::{self, DirBuilder},
    io,
    os::unix::fs::{DirBuilderExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use muster_core::hex;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

pub use self::lock::{ClientPresence, GatewayOwner, OwnError, Ownership};

/// The number of bytes of the digest in the name of a state folder.
const DIGEST_BYTES: usize = 6;

/// The log of a background gateway.
const LOG: &str = "gateway.log";
/// The record of the gateway that owns the folder.
const RECORD: &str = "gateway.json";

/// A state folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateFolder {
    path: PathBuf,
}

/// The record of a gateway in its state folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewayRecord {
    /// The process id.
    pub pid: u32,
    /// The URL for clients; `None` before it listens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// Its start, as RFC 3339.
    pub started_at: String,
    /// Its version.
    pub version: String,
    /// The configuration directory.
    pub config: PathBuf,
    /// The idle timeout: the seconds without clients after which it shuts down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_timeout: Option<u64>,
    /// The options that make a difference to clients: the surface, and whether destructive tools may run.
    #[serde(default)]
    pub options: Vec<String>,
}

impl StateFolder {
    /// A folder at a path that the user chose.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// The folder of a configuration directory, below the state directory of the user.
    pub fn of(state: &Path, config: &Path) -> Self {
        let config = canonical(config);
        let digest = Sha256::digest(config.as_os_str().as_encoded_bytes());
        let digest = hex::encode(digest.get(..DIGEST_BYTES).unwrap_or_default());
        let name = config.file_name().unwrap_or_default().to_string_lossy();
        let harmless = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
        let name: String = name.chars().take(40).map(harmless).collect();
        Self { path: state.join(format!("{name}-{digest}")) }
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The log of a background gateway.
    pub fn log_path(&self) -> PathBuf {
        self.path.join(LOG)
    }

    /// Creates the folder, readable only by its user. An existing folder that is open to others and contains other
    /// files is refused, because they may be using it.
    pub fn create(&self) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.path)?;
        let mode = fs::metadata(&self.path)?.permissions().mode();
        if mode & 0o077 == 0 {
            return Ok(());
        }
        if self.record_path().exists() || fs::read_dir(&self.path)?.next().is_none() {
            return fs::set_permissions(&self.path, fs::Permissions::from_mode(0o700));
        }
        let path = self.path.display();
        Err(io::Error::other(format!(
            "it is open to other users (mode {:03o}) and not empty; name a folder that does not exist yet, or run: \
             chmod 700 {path}",
            mode & 0o777
        )))
    }

    /// Creates the folder if necessary, and checks that it can be written to.
    pub fn prepare(&self) -> io::Result<()> {
        self.create()?;
        Ok(rustix::fs::access(&self.path, rustix::fs::Access::WRITE_OK)?)
    }

    /// Whether [`StateFolder::prepare`] would succeed, without creating anything.
    pub fn is_usable(&self) -> bool {
        let known = self.path.ancestors().find(|path| path.exists());
        known.is_some_and(|path| {
            path.is_dir() && rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok()
        })
    }

    fn record_path(&self) -> PathBuf {
        self.path.join(RECORD)
    }
}

/// The absolute path without symbolic links; the directory need not exist yet.
fn canonical(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut missing = Vec::new();
    for ancestor in absolute.ancestors() {
        if let Ok(known) = fs::canonicalize(ancestor) {
            return missing.iter().rev().fold(known, |path, name| path.join(name));
        }
        missing.extend(ancestor.file_name().map(ToOwned::to_owned));
    }
    absolute
}

#[cfg(test)]
mod tests;
