//! Outputs that other replicas can read: copied to the shared state when they are stored, and from there when they are
//! requested.

use std::{
    collections::VecDeque,
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use muster_core::{backend::boxed, hex, lock::Lock, shared::SharedState};
use tokio::runtime::Handle;

use super::{StoredOutput, described, private};

/// The largest output that other replicas can read. A larger one can only be read at the replica that stored it.
pub(super) const MAX_BYTES: u64 = 1024 * 1024;
/// The bytes of all outputs of this replica that others can read, so that no agent can fill the shared state.
pub(super) const MAX_TOTAL: u64 = 32 * 1024 * 1024;

/// The outputs of all replicas.
#[derive(Debug, Clone)]
pub(super) struct SharedOutputs {
    state: Arc<dyn SharedState>,
    runtime: Handle,
    copies: Arc<Lock<Copies>>,
}

/// The outputs of this replica that others can read, oldest first.
#[derive(Debug, Default)]
struct Copies {
    sizes: VecDeque<(String, u64)>,
    bytes: u64,
}

impl Copies {
    /// Adds a copy; returns the handles of the oldest ones, for which there is no room any more.
    fn add(&mut self, handle: &str, size: u64) -> Vec<String> {
        self.sizes.push_back((handle.to_owned(), size));
        self.bytes += size;
        let mut evicted = Vec::new();
        while self.bytes > MAX_TOTAL
            && let Some((oldest, size)) = self.sizes.pop_front()
        {
            self.bytes -= size;
            evicted.push(oldest);
        }
        evicted
    }

    /// Removes a copy; `false` if there is none.
    fn remove(&mut self, handle: &str) -> bool {
        let place = self.sizes.iter().position(|(copied, _)| copied == handle);
        let removed = place.and_then(|place| self.sizes.remove(place));
        self.bytes -= removed.as_ref().map_or(0, |(_, size)| *size);
        removed.is_some()
    }
}

impl SharedOutputs {
    /// Outputs in the shared state. `runtime` serves its connection.
    pub(super) fn new(state: Arc<dyn SharedState>, runtime: Handle) -> Self {
        Self { state, runtime, copies: Arc::default() }
    }

    /// Copies an output to the shared state. Blocks.
    pub(super) fn store(&self, output: &StoredOutput, ttl: Duration) {
        if output.stored > MAX_BYTES {
            return;
        }
        if let Err(error) = self.try_store(output, ttl) {
            tracing::debug!("output {} can be read at this replica only: {error}", output.handle);
        }
    }

    /// Removes the copy of an output that this replica has removed, in the background: many may expire at once.
    pub(super) fn remove(&self, handle: &str) {
        if self.copies.lock().remove(handle) {
            let (state, key) = (Arc::clone(&self.state), key(handle));
            drop(self.runtime.spawn(boxed(async move { drop(state.remove(&key).await) })));
        }
    }

    fn remove_copy(&self, handle: &str) {
        if let Err(error) = self.runtime.block_on(self.state.remove(&key(handle))) {
            // Harmless: the copy expires.
            tracing::debug!("output {handle}: {error}");
        }
    }

    fn try_store(&self, output: &StoredOutput, ttl: Duration) -> io::Result<()> {
        let mut copy = serde_json::to_vec(output)?;
        copy.push(b'\n');
        copy.extend(fs::read(&output.path)?);
        let size = u64::try_from(copy.len()).unwrap_or(u64::MAX);
        // Evict first, so that the copies together never exceed the limit.
        let evicted = self.copies.lock().add(&output.handle, size);
        for handle in evicted {
            self.remove_copy(&handle);
        }
        let key = key(&output.handle);
        let stored = self.runtime.block_on(self.state.put(&key, copy, ttl));
        stored.map_err(io::Error::other)
    }

    /// Copies an output of `owner` from the shared state to a path. Blocks.
    pub(super) fn fetch(&self, owner: &str, handle: &str, path: &Path) -> Option<()> {
        let copy = self.runtime.block_on(self.state.get(&key(handle)));
        let copy = copy.inspect_err(|error| tracing::debug!("output {handle}: {error}")).ok()??;
        let line = memchr::memchr(b'\n', &copy)?;
        let (description, body) = (copy.get(..line)?, copy.get(line + 1..)?);
        let output: StoredOutput = serde_json::from_slice(description).ok()?;
        if output.owner != owner {
            return None;
        }
        // Write the description last: it makes the output visible. Another request may be copying the same output.
        let written = put(path, body).and_then(|()| put(&described(path), description));
        written.inspect_err(|error| tracing::debug!("output {handle}: {error}")).ok()
    }
}

/// Writes a file atomically: it gets its name when it is complete.
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
