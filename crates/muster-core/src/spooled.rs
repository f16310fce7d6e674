//! A result that is too long for memory: it stays where it was put, and is read from there.

use std::{
    fmt,
    io::{self, Read},
    sync::Arc,
};

use crate::{call::Outcome, json::Raw};

/// The result object of an MCP server, somewhere else than in memory. It is gone with its last holder.
pub trait SpooledResult: fmt::Debug + Send + Sync {
    /// How many bytes of JSON it has.
    fn bytes(&self) -> u64;

    /// Whether it says that the tool failed.
    fn failed(&self) -> bool;

    /// What it says about itself (`_meta`), if that is short.
    fn meta(&self) -> Option<Raw>;

    /// Reads its JSON from a byte on. May wait for a disk; not for a task that others wait for.
    fn read(&self, from: u64) -> io::Result<Box<dyn Read + Send>>;
}

/// What came of running a tool, for whoever can deal with a result that is not in memory.
#[derive(Debug)]
pub enum ToolResult {
    /// Like any other.
    Inline(Outcome),
    /// A result that is too long for memory.
    Spooled(Arc<dyn SpooledResult>),
}

impl From<Outcome> for ToolResult {
    fn from(outcome: Outcome) -> Self {
        Self::Inline(outcome)
    }
}
