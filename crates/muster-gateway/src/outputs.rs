//! Results that are too long for a reply, stored on disk for `get_output`.
//!
//! Each output is a file next to its description, readable only by the gateway's user. The file holds the text of
//! the result, then its structured content unless that only repeats the text, then the content blocks that are not
//! text. A handle is valid for the caller that received it, until it expires or is evicted for newer ones. Outputs
//! survive a restart of the gateway.
//!
//! Until a result is stored here, one that does not fit in memory is in a spill file of its command (`muster-exec`) or in
//! the spool of its server (`muster-mcp-client`).
//!
//! **Invariant:** a caller cannot distinguish another caller's handle from one that never existed.

pub mod block;
pub mod excerpt;
mod json_lines;
mod line_pattern;
mod lines;
mod path_cost;
pub mod preview;
mod retention;
mod select;
mod selected_lines;
mod shape;
mod shared_outputs;
pub mod temporary;

use std::{
    fmt,
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Read, Write as _},
    ops::Range,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use muster_core::{hex, lock::Lock, shared::SharedState};
use serde::{Deserialize, Serialize};
use thiserror::Error;
use tokio::runtime::Handle;

use self::{
    block::{NewBlock, StoredBlock},
    retention::Retention,
    shared_outputs::SharedOutputs,
    temporary::LazyDir,
};
use crate::background_job::{StopSignal, StoppableFile};

/// The lifetime of a handle.
const GOOD_FOR: Duration = Duration::from_secs(60 * 60);
/// The total size on disk, beyond which the oldest outputs are evicted.
const MOST_BYTES: u64 = 1 << 30;
const PREFIX: &str = "out_";
/// The size of a read.
pub(crate) const CHUNK: usize = 64 * 1024;

/// The outputs in one directory.
#[derive(Debug, Clone)]
pub struct Outputs {
    directory: Directory,
    good_for: Duration,
    most_bytes: u64,
    /// None until the first output is stored.
    retention: Arc<Lock<Option<Retention>>>,
    /// The outputs of all replicas, if there are several.
    shared: Option<SharedOutputs>,
}

/// The directory of outputs.
#[derive(Debug, Clone)]
enum Directory {
    /// A directory that outlives the process.
    Permanent(PathBuf),
    /// A directory that is removed with the process.
    Temporary(LazyDir),
}

impl Directory {
    /// Creates the directory, unless it exists.
    fn create(&self) -> io::Result<PathBuf> {
        match self {
            Self::Permanent(path) => {
                DirBuilder::new().recursive(true).mode(0o700).create(path)?;
                Ok(path.clone())
            }
            Self::Temporary(dir) => dir.create(),
        }
    }

    /// The path of the directory, if there may be outputs in it.
    fn path(&self) -> Option<PathBuf> {
        match self {
            Self::Permanent(path) => Some(path.clone()),
            Self::Temporary(dir) => dir.path(),
        }
    }
}

impl Default for Outputs {
    /// Stores outputs in a temporary directory, which is removed with the last clone.
    fn default() -> Self {
        Self::in_directory(Directory::Temporary(LazyDir::default()))
    }
}

/// The kind of an output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum OutputKind {
    /// Lines of text.
    Text,
    /// One JSON value.
    Json,
    /// Content blocks without text.
    Binary {
        /// The media type of the first.
        #[serde(rename = "mimeType")]
        mime_type: String,
    },
}

/// A result to store.
#[derive(Debug)]
pub struct NewOutput {
    /// Its kind.
    pub kind: OutputKind,
    /// The text of the result; empty for [`OutputKind::Binary`].
    pub body: OutputBody,
    /// The JSON that paths select from, if that is not the body.
    pub structure: Option<OutputBody>,
    /// Content blocks that are not text.
    pub blocks: Vec<NewBlock>,
}

impl NewOutput {
    /// A result of text or JSON alone.
    pub const fn new(kind: OutputKind, body: OutputBody) -> Self {
        Self { kind, body, structure: None, blocks: Vec::new() }
    }
}

/// The contents to store.
pub enum OutputBody {
    /// In memory.
    Text(String),
    /// A file, which is moved.
    File(PathBuf),
    /// A stream that is too long for memory.
    Stream(Box<dyn Read + Send>),
}

impl fmt::Debug for OutputBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => write!(f, "{} bytes in memory", text.len()),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Stream(_) => f.write_str("a stream"),
        }
    }
}

/// A stored output.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StoredOutput {
    /// The handle that `get_output` takes.
    pub handle: String,
    /// Its kind.
    #[serde(flatten)]
    pub kind: OutputKind,
    /// The size of its text.
    pub bytes: u64,
    /// The number of lines of its text.
    pub lines: u64,
    /// The byte range of the JSON that paths select from, if that is not the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    structure: Option<Range<u64>>,
    /// Its content blocks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocks: Vec<StoredBlock>,
    /// The size of its file.
    #[serde(default)]
    stored: u64,
    /// When it expires, in seconds since 1970.
    pub expires: i64,
    /// The caller that it belongs to.
    owner: String,
    /// Its file.
    #[serde(skip)]
    path: PathBuf,
    /// Stops reads of the file.
    #[serde(skip)]
    stop: StopSignal,
}

/// There is no such output, or it belongs to another caller.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("there is no output `{handle}`; it may have expired: call the tool again")]
pub struct NoSuchOutput {
    handle: String,
}

/// A result could not be stored.
#[derive(Debug, Error)]
#[error("could not keep the answer: {reason}; {fix}")]
pub struct KeepError {
    reason: String,
    fix: String,
}

impl KeepError {
    fn new(error: &io::Error, directory: &Path, most_bytes: u64) -> Self {
        let text = error.to_string();
        let reason = text.split(" (os error").next().unwrap_or_default();
        let directory = directory.display();
        let (reason, fix) = match error.kind() {
            io::ErrorKind::FileTooLarge => {
                let limit = most_bytes / 1024 / 1024;
                (format!("it is larger than {limit} MiB"), "ask for less".to_owned())
            }
            io::ErrorKind::PermissionDenied
            | io::ErrorKind::ReadOnlyFilesystem
            | io::ErrorKind::NotADirectory
            | io::ErrorKind::AlreadyExists => (
                reason.to_owned(),
                format!("make {directory} a writable directory or ask for less"),
            ),
            _ => (reason.to_owned(), format!("free space in {directory} or ask for less")),
        };
        Self { reason, fix }
    }
}

impl Outputs {
    /// Stores outputs in a directory, which is created with the first one.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self::in_directory(Directory::Permanent(folder.into()))
    }

    fn in_directory(directory: Directory) -> Self {
        let retention = Arc::default();
        Self { directory, good_for: GOOD_FOR, most_bytes: MOST_BYTES, retention, shared: None }
    }

    /// Shares outputs with other replicas, in both directions. `runtime` serves the shared state.
    #[must_use]
    pub fn shared_by(self, state: Arc<dyn SharedState>, runtime: Handle) -> Self {
        Self { shared: Some(SharedOutputs::new(state, runtime)), ..self }
    }

    /// Sets the lifetime and the total size.
    #[must_use]
    pub fn within(self, good_for: Duration, most_bytes: u64) -> Self {
        Self { good_for, most_bytes, ..self }
    }

    /// Stores an output for `owner`. Blocks.
    pub fn keep(&self, owner: &str, new: NewOutput) -> Result<StoredOutput, KeepError> {
        let place = || self.directory.path().unwrap_or_else(std::env::temp_dir);
        let failed = |error: io::Error| KeepError::new(&error, &place(), self.most_bytes);
        let directory = self.directory.create().map_err(failed)?;
        self.load_retention(&directory);
        let mut random = [0_u8; 12];
        getrandom::fill(&mut random)
            .map_err(|error| failed(io::Error::other(error.to_string())))?;
        let handle = format!("{PREFIX}{}", hex::encode(&random));
        let path = directory.join(&handle);
        let output = self.write(owner, handle, path.clone(), new).inspect_err(|_| {
            // A partial output must neither be found nor take up space.
            for path in [described(&path), path] {
                drop(fs::remove_file(path));
            }
        });
        let output = output.map_err(failed)?;
        self.make_room(&directory, &output);
        if let Some(shared) = &self.shared {
            shared.store(&output, self.good_for);
        }
        Ok(output)
    }

    /// Writes an output and its description.
    fn write(
        &self,
        owner: &str,
        handle: String,
        path: PathBuf,
        new: NewOutput,
    ) -> io::Result<StoredOutput> {
        let NewOutput { kind, body, structure, blocks } = new;
        let mut file = Meter::open(body, &path, self.most_bytes)?;
        let (bytes, lines) = (file.bytes, file.lines());
        let structure = structure.map(|structure| file.append(structure)).transpose()?;
        let mut stored = Vec::new();
        for NewBlock { about, json } in blocks {
            stored.push(StoredBlock { about, place: file.append(json)? });
        }
        let good_for = i64::try_from(self.good_for.as_secs()).unwrap_or(i64::MAX);
        let output = StoredOutput {
            handle,
            kind,
            bytes,
            lines,
            structure,
            blocks: stored,
            stored: file.bytes,
            expires: Timestamp::now().as_second().saturating_add(good_for),
            owner: owner.to_owned(),
            path,
            stop: StopSignal::default(),
        };
        private(&described(&output.path))?.write_all(&serde_json::to_vec(&output)?)?;
        Ok(output)
    }

    /// Finds an output of `owner`. Blocks.
    pub fn find(&self, owner: &str, handle: &str) -> Result<StoredOutput, NoSuchOutput> {
        let is_ours = handle.strip_prefix(PREFIX).is_some_and(|digits| {
            digits.len() == 24 && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
        });
        let none = || NoSuchOutput { handle: handle.chars().take(60).collect() };
        let directory = self.directory.path().filter(|_| is_ours);
        let output = directory.and_then(|directory| {
            read(&directory.join(handle)).or_else(|| self.fetch(owner, handle))
        });
        let now = Timestamp::now().as_second();
        output.filter(|output| output.owner == owner && output.expires > now).ok_or_else(none)
    }

    /// Copies an output of another replica to this one.
    fn fetch(&self, owner: &str, handle: &str) -> Option<StoredOutput> {
        let shared = self.shared.as_ref()?;
        let directory = self.directory.create().ok()?;
        self.load_retention(&directory);
        let path = directory.join(handle);
        shared.fetch(owner, handle, &path)?;
        let output = read(&path)?;
        self.make_room(&directory, &output);
        Some(output)
    }

    /// Loads the outputs that an earlier process stored. The directory is read without holding the lock.
    fn load_retention(&self, directory: &Path) {
        if self.retention.lock().is_none() {
            let loaded = Retention::load(directory, self.good_for);
            self.retention.lock().get_or_insert(loaded);
        }
    }

    /// Removes expired outputs, and the oldest ones beyond the limits.
    fn make_room(&self, directory: &Path, newest: &StoredOutput) {
        let now = Timestamp::now().as_second();
        let evicted = {
            let mut retention = self.retention.lock();
            let retention = retention.get_or_insert_default();
            retention.add(newest);
            retention.evict(now, self.most_bytes, &newest.handle)
        };
        for handle in evicted {
            remove(&directory.join(&handle));
            if let Some(shared) = &self.shared {
                shared.remove(&handle);
            }
        }
    }
}

/// The output at a path, if it exists.
fn read(path: &Path) -> Option<StoredOutput> {
    let mut output: StoredOutput = serde_json::from_slice(&fs::read(described(path)).ok()?).ok()?;
    output.path = path.to_owned();
    path.exists().then_some(output)
}

impl StoredOutput {
    /// Stops reading the output at a signal.
    #[must_use]
    pub(crate) fn stopped_by(self, stop: &StopSignal) -> Self {
        Self { stop: stop.clone(), ..self }
    }

    /// Opens its file.
    pub(crate) fn open(&self) -> io::Result<StoppableFile> {
        Ok(StoppableFile { file: File::open(&self.path)?, stop: self.stop.clone() })
    }
}

fn remove(path: &Path) {
    for path in [described(path), path.to_owned()] {
        if let Err(error) = fs::remove_file(&path) {
            tracing::debug!("cannot remove {}: {error}", path.display());
        }
    }
}

fn described(path: &Path) -> PathBuf {
    path.with_extension("json")
}

fn private(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// A file being written, with counts of its bytes and lines.
struct Meter {
    file: File,
    bytes: u64,
    most_bytes: u64,
    breaks: u64,
    last: u8,
}

impl Meter {
    /// Creates the file of an output with its body.
    fn open(body: OutputBody, path: &Path, most_bytes: u64) -> io::Result<Self> {
        let moved = match &body {
            OutputBody::File(from) => fs::rename(from, path).is_ok(),
            OutputBody::Text(_) | OutputBody::Stream(_) => false,
        };
        let meter = |file| Self { file, bytes: 0, most_bytes, breaks: 0, last: b'\n' };
        if !moved {
            let mut written = meter(private(path)?);
            written.append(body)?;
            return Ok(written);
        }
        let mut moved = meter(OpenOptions::new().append(true).open(path)?);
        let mut reader = File::open(path)?;
        moved.measure(&mut reader, |_, _| Ok(()))?;
        Ok(moved)
    }

    /// Appends contents, and returns their byte range.
    fn append(&mut self, body: OutputBody) -> io::Result<Range<u64>> {
        let start = self.bytes;
        let mut write = |file: &mut File, bytes: &[u8]| file.write_all(bytes);
        match body {
            OutputBody::Text(text) => self.measure(&mut text.as_bytes(), &mut write)?,
            OutputBody::File(from) => {
                self.measure(&mut File::open(&from)?, &mut write)?;
                fs::remove_file(&from)?;
            }
            OutputBody::Stream(mut from) => self.measure(&mut from, &mut write)?,
        }
        Ok(start..self.bytes)
    }

    fn measure(
        &mut self,
        from: &mut impl Read,
        mut write: impl FnMut(&mut File, &[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut chunk = vec![0; CHUNK];
        loop {
            let size = from.read(&mut chunk)?;
            let Some(read) = chunk.get(..size).filter(|read| !read.is_empty()) else {
                return Ok(());
            };
            self.bytes += read.len() as u64;
            if self.bytes > self.most_bytes {
                return Err(io::ErrorKind::FileTooLarge.into());
            }
            self.breaks += memchr::memchr_iter(b'\n', read).count() as u64;
            self.last = read.last().copied().unwrap_or(self.last);
            write(&mut self.file, read)?;
        }
    }

    fn lines(&self) -> u64 {
        self.breaks + u64::from(self.last != b'\n')
    }
}

#[cfg(test)]
mod tests;
