//! Tool results that are too large for memory and stay on disk.

use std::{
    fmt,
    io::{self, Read},
    sync::Arc,
};

use crate::{call::Outcome, json::Raw};

/// The result object of an MCP server, stored outside memory. Dropping the last handle deletes it.
pub trait SpooledResult: fmt::Debug + Send + Sync {
    /// The length of its JSON in bytes.
    fn bytes(&self) -> u64;

    /// Whether the tool reported a failure (`isError`).
    fn failed(&self) -> bool;

    /// Its `_meta` object, if that is short.
    fn meta(&self) -> Option<Raw>;

    /// Reads its JSON from a byte offset. Blocks on disk I/O: call it from a blocking task.
    fn read(&self, from: u64) -> io::Result<Box<dyn Read + Send>>;
}

/// The result of a tool, in memory or spooled.
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
