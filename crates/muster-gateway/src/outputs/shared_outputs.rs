//! Outputs that other replicas can read: copied to the shared state when they are stored, and from there when they are asked
//! for.

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use muster_core::{hex, shared::SharedState};
use tokio::runtime::Handle;

use super::{StoredOutput, described, private};

/// The largest output that other replicas can read. A larger one is good at the replica that stored it.
const MAX_BYTES: u64 = 8 * 1024 * 1024;

/// The outputs of all replicas.
#[derive(Debug, Clone)]
pub(super) struct SharedOutputs {
    state: Arc<dyn SharedState>,
    runtime: Handle,
}

impl SharedOutputs {
    /// Outputs in the shared state. `runtime` serves its connection.
    pub(super) const fn new(state: Arc<dyn SharedState>, runtime: Handle) -> Self {
        Self { state, runtime }
    }

    /// Copies an output to the shared state. Blocks.
    pub(super) fn store(&self, kept: &StoredOutput, ttl: Duration) {
        if kept.stored > MAX_BYTES {
            return;
        }
        if let Err(error) = self.try_store(kept, ttl) {
            tracing::debug!("output {} is good at this replica only: {error}", kept.handle);
        }
    }

    fn try_store(&self, kept: &StoredOutput, ttl: Duration) -> io::Result<()> {
        let mut copy = serde_json::to_vec(kept)?;
        copy.push(b'\n');
        copy.extend(fs::read(&kept.path)?);
        let key = key(&kept.handle);
        self.runtime.block_on(self.state.put(&key, copy, ttl)).map_err(io::Error::other)
    }

    /// Copies an output of `owner` from the shared state to a path. Blocks.
    pub(super) fn fetch(&self, owner: &str, handle: &str, path: &Path) -> Option<()> {
        let copy = self.runtime.block_on(self.state.get(&key(handle)));
        let copy = copy.inspect_err(|error| tracing::debug!("output {handle}: {error}")).ok()??;
        let line = memchr::memchr(b'\n', &copy)?;
        let (description, body) = (copy.get(..line)?, copy.get(line + 1..)?);
        let kept: StoredOutput = serde_json::from_slice(description).ok()?;
        if kept.owner != owner {
            return None;
        }
        // The description last: it is what makes the output known. Another request may copy the same.
        let written = put(path, body).and_then(|()| put(&described(path), description));
        written.inspect_err(|error| tracing::debug!("output {handle}: {error}")).ok()
    }
}

/// Writes a file as a whole: it has no name before it is complete.
fn put(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut random = [0_u8; 8];
    getrandom::fill(&mut random).map_err(|error| io::Error::other(error.to_string()))?;
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}", hex::encode(&random)));
    let beside = PathBuf::from(beside);
    let written = private(&beside)
        .and_then(|mut file| file.write_all(content))
        .and_then(|()| fs::rename(&beside, path));
    written.inspect_err(|_| drop(fs::remove_file(&beside)))
}

fn key(handle: &str) -> String {
    format!("output:{handle}")
}
