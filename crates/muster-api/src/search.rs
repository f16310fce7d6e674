//! `filter_tools`: searches for tools.

use serde::{Deserialize, Serialize};

/// Whether the tools in the reply answer the query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MatchVerdict {
    /// They do.
    Found,
    /// They may.
    Unsure,
    /// No tool does; these are the nearest.
    NoSuchTool,
}
