//! The unbreakable call: what an agent meant by a call that it wrote down wrongly.
//!
//! A call is repaired where the tool's input schema leaves one reading, and refused with the way to
//! put it right where it leaves none or two. What an agent gave is never passed over: a call goes out
//! without arguments only if none were given. Arguments that are right stay as they are, byte for
//! byte. Whether arguments *are* right is not decided here but where a call is permitted.

pub mod advice;
pub mod envelope;
mod opened;
mod shape;
#[cfg(test)]
mod tests;
pub mod values;

use crate::{catalog::ToolEntry, json::Raw};

use advice::SchemaFragment;

/// What an agent meant.
#[derive(Debug)]
pub struct RepairedCall {
    /// The tool.
    pub tool: String,
    /// Its arguments.
    pub arguments: Raw,
    /// What was done to read it so; empty for a call that was right.
    pub repairs: Vec<String>,
}

/// Why a call cannot be read.
#[derive(Debug)]
pub enum UnreadableCall {
    /// It names no tool.
    MissingTool {
        /// How to put it right; none where nothing was given at all.
        fix: Option<String>,
    },
    /// Its arguments are not an object.
    NotAnObject {
        /// How to put it right.
        fix: String,
    },
    /// There are two ways to read it, or none.
    Ambiguous {
        /// What is wrong.
        problem: String,
        /// How to put it right.
        fix: String,
        /// What the argument in question takes.
        fragment: Option<SchemaFragment>,
    },
}

/// Finds a tool by its name.
pub type ToolLookup<'a> = dyn Fn(&str) -> Option<&'a ToolEntry> + 'a;
