//! Results that are too long for a reply, stored on disk for `get_output`.
//!
//! Each is a file beside its description, readable by the gateway's user only. A handle is valid for the
//! caller that received it, until it expires or is evicted for newer ones. Outputs survive a restart of the
//! gateway.
//!
//! **Invariant:** a caller cannot distinguish another caller's handle from one that never existed.

pub mod excerpt;
mod path_cost;
pub mod preview;
mod select;
mod shape;
pub mod temporary;

use std::{
    fmt,
    fs::{self, DirBuilder, OpenOptions},
    io::{self, BufReader, Read, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    time::Duration,
};

use jiff::Timestamp;
use muster_core::hex;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use self::temporary::LazyDir;
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
}

/// Where outputs are stored.
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
    /// Anything else, in Base64.
    Binary {
        /// Its media type.
        #[serde(rename = "mimeType")]
        mime_type: String,
    },
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
    /// Its size.
    pub bytes: u64,
    /// Its number of lines.
    pub lines: u64,
    /// When it expires, in seconds since 1970.
    pub expires: i64,
    /// The caller that it belongs to.
    owner: String,
    /// Its file.
    #[serde(skip)]
    path: PathBuf,
    /// Ends reading it.
    #[serde(skip)]
    stop: StopSignal,
}

/// There is no such output, or it belongs to another caller.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("there is no output `{handle}`; it may have expired: call the tool again")]
pub struct NoSuchOutput {
    handle: String,
}

impl Outputs {
    /// Stores outputs in a directory, which is created with the first one.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self::in_directory(Directory::Permanent(folder.into()))
    }

    fn in_directory(directory: Directory) -> Self {
        Self { directory, good_for: GOOD_FOR, most_bytes: MOST_BYTES }
    }

    /// Sets the lifetime and the total size.
    #[must_use]
    pub fn within(self, good_for: Duration, most_bytes: u64) -> Self {
        Self { good_for, most_bytes, ..self }
    }

    /// Stores an output for `owner`. Blocks.
    pub fn keep(
        &self,
        owner: &str,
        kind: OutputKind,
        body: OutputBody,
    ) -> io::Result<StoredOutput> {
        let directory = self.directory.create()?;
        let mut random = [0_u8; 12];
        getrandom::fill(&mut random).map_err(|error| io::Error::other(error.to_string()))?;
        let handle = format!("{PREFIX}{}", hex::encode(&random));
        let path = directory.join(&handle);
        match body {
            OutputBody::Text(text) => {
                private(&path)?.write_all(text.as_bytes())?;
            }
            OutputBody::File(from) => {
                if fs::rename(&from, &path).is_err() {
                    io::copy(&mut fs::File::open(&from)?, &mut private(&path)?)?;
                    fs::remove_file(&from)?;
                }
            }
            OutputBody::Stream(from) => {
                if let Err(error) = self.copy(from, &path) {
                    // A partial file must not be found.
                    drop(fs::remove_file(&path));
                    return Err(error);
                }
            }
        }
        let (bytes, lines) = measure(&path)?;
        let good_for = i64::try_from(self.good_for.as_secs()).unwrap_or(i64::MAX);
        let expires = Timestamp::now().as_second().saturating_add(good_for);
        let kept = StoredOutput {
            handle,
            kind,
            bytes,
            lines,
            expires,
            owner: owner.to_owned(),
            path,
            stop: StopSignal::default(),
        };
        private(&described(&kept.path))?.write_all(&serde_json::to_vec(&kept)?)?;
        self.make_room(&directory, &kept.handle);
        Ok(kept)
    }

    /// Writes a stream to a file, within the total size.
    fn copy(&self, from: impl Read, path: &Path) -> io::Result<()> {
        let copied = io::copy(&mut from.take(self.most_bytes + 1), &mut private(path)?)?;
        match copied > self.most_bytes {
            true => Err(io::ErrorKind::FileTooLarge.into()),
            false => Ok(()),
        }
    }

    /// Finds an output of `owner`.
    pub fn find(&self, owner: &str, handle: &str) -> Result<StoredOutput, NoSuchOutput> {
        let is_ours = handle.strip_prefix(PREFIX).is_some_and(|digits| {
            digits.len() == 24 && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
        });
        let none = || NoSuchOutput { handle: handle.chars().take(60).collect() };
        let directory = self.directory.path().filter(|_| is_ours);
        let kept = directory.and_then(|directory| read(&directory.join(handle)));
        let now = Timestamp::now().as_second();
        kept.filter(|kept| kept.owner == owner && kept.expires > now).ok_or_else(none)
    }

    /// Removes expired outputs, and the oldest ones beyond the total size.
    fn make_room(&self, directory: &Path, newest: &str) {
        let Ok(entries) = fs::read_dir(directory) else { return };
        let now = Timestamp::now().as_second();
        let paths = entries.flatten().map(|entry| entry.path());
        let described = paths.filter(|path| path.extension().is_some_and(|ext| ext == "json"));
        let mut kept: Vec<StoredOutput> =
            described.filter_map(|path| read(&path.with_extension(""))).collect();
        kept.sort_by_key(|kept| kept.expires);
        let mut total: u64 = kept.iter().map(|kept| kept.bytes).sum();
        for kept in kept.iter().filter(|kept| kept.handle != newest) {
            if kept.expires <= now || total > self.most_bytes {
                total -= kept.bytes;
                kept.remove();
            }
        }
    }
}

/// The output at a path, if it exists.
fn read(path: &Path) -> Option<StoredOutput> {
    let mut kept: StoredOutput = serde_json::from_slice(&fs::read(described(path)).ok()?).ok()?;
    kept.path = path.to_owned();
    path.exists().then_some(kept)
}

impl StoredOutput {
    /// The same output, read until a signal.
    #[must_use]
    pub(crate) fn stopped_by(self, stop: &StopSignal) -> Self {
        Self { stop: stop.clone(), ..self }
    }

    /// Opens its file.
    pub(crate) fn open(&self) -> io::Result<StoppableFile> {
        Ok(StoppableFile { file: fs::File::open(&self.path)?, stop: self.stop.clone() })
    }

    fn remove(&self) {
        for path in [described(&self.path), self.path.clone()] {
            if let Err(error) = fs::remove_file(&path) {
                tracing::debug!("cannot remove {}: {error}", path.display());
            }
        }
    }
}

fn described(path: &Path) -> PathBuf {
    path.with_extension("json")
}

fn private(path: &Path) -> io::Result<fs::File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// The number of bytes and lines of a file.
fn measure(path: &Path) -> io::Result<(u64, u64)> {
    let mut file = BufReader::with_capacity(CHUNK, fs::File::open(path)?);
    let mut chunk = vec![0; CHUNK];
    let (mut bytes, mut lines, mut last) = (0, 0, b'\n');
    loop {
        let size = file.read(&mut chunk)?;
        let Some(read) = chunk.get(..size).filter(|read| !read.is_empty()) else { break };
        bytes += read.len() as u64;
        lines += read.iter().filter(|byte| **byte == b'\n').count() as u64;
        last = read.last().copied().unwrap_or(last);
    }
    Ok((bytes, lines + u64::from(last != b'\n')))
}

#[cfg(test)]
mod tests;
