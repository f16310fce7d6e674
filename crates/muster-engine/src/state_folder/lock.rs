//! The lock of a state folder, and the record of its owner.
//!
//! Locks are POSIX record locks: they end with their process however it ends, children do not inherit them, and others
//! can query the holder of a lock without taking it. A process loses its lock when it closes *any* descriptor of the
//! file, so a gateway never queries its own folder.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use jiff::Timestamp;
use rustix::{
    fs::{FlockOperation, fcntl_lock},
    io::Errno,
    process::{Flock, FlockType, fcntl_getlk},
};
use thiserror::Error;

use super::{GatewayRecord, StateFolder, earlier};

/// Held by the gateway.
const LOCK: &str = "gateway.lock";
/// Held, shared, by the processes that connect a client to the gateway.
const CLIENTS: &str = "clients.lock";

/// Why a gateway cannot own a state folder.
#[derive(Debug, Error)]
pub enum OwnError {
    /// Another gateway owns it.
    #[error("another gateway is running with this state folder")]
    Owned(Box<GatewayOwner>),
    /// It cannot be written to.
    #[error("cannot write to {}: {source}", folder.path().display())]
    Io {
        /// The folder.
        folder: StateFolder,
        /// The cause.
        source: io::Error,
    },
}

/// A running gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatewayOwner {
    /// The process id; `None` if it is in another container.
    pub pid: Option<u32>,
    /// The record that it wrote; `None` for a moment at its start.
    pub record: Option<GatewayRecord>,
}

/// The ownership of a state folder by this process, until it is dropped.
#[derive(Debug)]
pub struct Ownership {
    folder: StateFolder,
    record: GatewayRecord,
    _lock: File,
}

/// A guard that shows that a client needs the gateway, until it is dropped.
#[derive(Debug)]
pub struct ClientPresence {
    _lock: File,
}

impl StateFolder {
    /// Takes ownership of the folder for the gateway of `config`, and takes over the state that earlier versions kept
    /// in `config`.
    pub fn own(
        &self,
        config: &Path,
        idle_timeout: Option<u64>,
        options: Vec<String>,
    ) -> Result<Ownership, OwnError> {
        let failed = |source| OwnError::Io { folder: self.clone(), source };
        self.create().map_err(failed)?;
        let lock = open(&self.path.join(LOCK)).map_err(failed)?;
        match fcntl_lock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => (),
            Err(Errno::AGAIN | Errno::ACCESS) => {
                let unknown = GatewayOwner { pid: None, record: None };
                return Err(OwnError::Owned(Box::new(self.owner().unwrap_or(unknown))));
            }
            Err(error) => return Err(failed(error.into())),
        }
        earlier::take_over(config, &self.path);
        let record = GatewayRecord {
            pid: std::process::id(),
            endpoint: None,
            started_at: Timestamp::now().to_string(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            config: config.to_owned(),
            idle_timeout,
            options,
        };
        let ownership = Ownership { folder: self.clone(), record, _lock: lock };
        ownership.write().map_err(failed)?;
        Ok(ownership)
    }

    /// The gateway that owns the folder, if one is running. The owner itself must not call this, or it loses its lock.
    pub fn owner(&self) -> Option<GatewayOwner> {
        let holder = held(&self.path.join(LOCK))?;
        let text = fs::read_to_string(self.record_path()).ok();
        let record: Option<GatewayRecord> = text.and_then(|text| serde_json::from_str(&text).ok());
        let pid = holder.pid.and_then(|pid| u32::try_from(pid.as_raw_nonzero().get()).ok());
        // Ignore a record that the previous owner left.
        let record = record.filter(|record| pid.is_none_or(|pid| pid == record.pid));
        Some(GatewayOwner { pid, record })
    }

    /// Shows the gateway that a client needs it.
    pub fn attach_client(&self) -> io::Result<ClientPresence> {
        self.create()?;
        let lock = open(&self.path.join(CLIENTS))?;
        fcntl_lock(&lock, FlockOperation::NonBlockingLockShared)?;
        Ok(ClientPresence { _lock: lock })
    }

    /// Whether a client needs the gateway.
    pub fn has_clients(&self) -> bool {
        held(&self.path.join(CLIENTS)).is_some()
    }
}

impl Ownership {
    /// The folder.
    pub const fn folder(&self) -> &StateFolder {
        &self.folder
    }

    /// Publishes the URL for clients.
    pub fn publish(&mut self, endpoint: &str) -> io::Result<()> {
        self.record.endpoint = Some(endpoint.to_owned());
        self.write()
    }

    fn write(&self) -> io::Result<()> {
        let path = self.folder.record_path();
        let beside = path.with_extension("new");
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        options.open(&beside)?.write_all(&serde_json::to_vec_pretty(&self.record)?)?;
        fs::rename(beside, path)
    }
}

impl Drop for Ownership {
    fn drop(&mut self) {
        let _removed = fs::remove_file(self.folder.record_path());
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// The lock on a file that another process holds.
fn held(path: &Path) -> Option<Flock> {
    let file = File::open(path).ok()?;
    fcntl_getlk(&file, &Flock::from(FlockType::WriteLock)).ok().flatten()
}
