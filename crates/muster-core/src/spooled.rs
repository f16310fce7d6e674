//! Tool results that are too large for memory and stay on disk.

use std::{
    io::{self, Read},
    sync::Arc,
};

use serde_json::value::RawValue;
use thiserror::Error;

use crate::{call::Outcome, json::Raw};

/// The result object of an MCP server, stored outside memory. Dropping the last handle deletes it.
pub trait SpooledResult: Send + Sync {
    /// The length of its JSON in bytes.
    fn bytes(&self) -> u64;

    /// Whether the tool reported a failure (`isError`).
    fn failed(&self) -> bool;

    /// Its `_meta` object, if that is short.
    fn meta(&self) -> Option<Raw>;

    /// Reads its JSON from a byte offset. Blocks on disk I/O: call it from a blocking task.
    fn read(&self, from: u64) -> io::Result<Box<dyn Read + Send>>;
}

crate::opaque_debug!(SpooledResult);

/// The result of running a tool.
#[derive(Debug)]
pub enum ToolResult {
    /// A result in memory.
    Inline(Outcome),
    /// A result on disk.
    Spooled(Arc<dyn SpooledResult>),
}

impl From<Outcome> for ToolResult {
    fn from(outcome: Outcome) -> Self {
        Self::Inline(outcome)
    }
}

/// The largest result that is read into memory for a client that cannot take it in pieces.
pub const MEMORY_LIMIT: u64 = 64 * 1024 * 1024;

/// Why a spooled result cannot be read into memory.
#[derive(Debug, Error)]
pub enum SpooledLoadError {
    /// It is longer than the limit.
    #[error("its answer is larger than {} MiB; ask for less of it at a time", .limit / 1024 / 1024)]
    TooLarge {
        /// The limit in bytes.
        limit: u64,
    },
    /// Reading it failed.
    #[error("its answer cannot be read: {0}")]
    Unreadable(#[from] io::Error),
}

impl ToolResult {
    /// The result in memory. Blocks while a spooled result is read from disk.
    pub fn load(self, limit: u64) -> Result<Outcome, SpooledLoadError> {
        match self {
            Self::Inline(outcome) => Ok(outcome),
            Self::Spooled(spooled) => load(&*spooled, limit).map(Outcome::Raw),
        }
    }
}

/// Reads a spooled result into memory. Blocks; bytes that are not UTF-8 become replacement characters.
pub fn load(spooled: &dyn SpooledResult, limit: u64) -> Result<Raw, SpooledLoadError> {
    let size = spooled.bytes();
    if size > limit {
        return Err(SpooledLoadError::TooLarge { limit });
    }
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
    spooled.read(0)?.read_to_end(&mut bytes)?;
    let text = String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
    Ok(RawValue::from_string(text).map_err(io::Error::from)?)
}
