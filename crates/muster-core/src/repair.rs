//! Repair of malformed tool calls.
//!
//! A call is repaired where the tool's input schema allows one reading, and rejected with a fix
//! where it allows none or several. Nothing that an agent sent is ignored: a call has no arguments
//! only if none were sent. Valid arguments stay byte for byte as they are. Whether arguments are
//! valid is decided by the policy, not here.

pub mod advice;
pub mod envelope;
mod lenient_object;
mod schema_view;
#[cfg(test)]
mod tests;
pub mod values;

use crate::{catalog::ToolEntry, json::Raw};

use advice::SchemaFragment;

/// A call as it was understood.
#[derive(Debug)]
pub struct RepairedCall {
    /// The tool.
    pub tool: String,
    /// Its arguments.
    pub arguments: Raw,
    /// The repairs made; empty for a well-formed call.
    pub repairs: Vec<String>,
}

/// Why a call cannot be understood.
#[derive(Debug)]
pub enum UnreadableCall {
    /// It names no tool.
    MissingTool {
        /// How to fix it; `None` if nothing was sent.
        fix: Option<String>,
    },
    /// Its arguments are not an object.
    NotAnObject {
        /// How to fix it.
        fix: String,
    },
    /// It has several readings, or none.
    Ambiguous {
        /// The problem.
        problem: String,
        /// How to fix it.
        fix: String,
        /// The schema of the argument in question.
        fragment: Option<SchemaFragment>,
    },
}

/// Looks up a tool by name.
pub type ToolLookup<'a> = dyn Fn(&str) -> Option<&'a ToolEntry> + 'a;
