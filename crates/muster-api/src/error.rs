//! The structured content of errors.

use serde::{Deserialize, Serialize};

/// The structured content of a failed call. Programs must match on this, not on the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorDetails {
    /// The kind of an error.
    pub error: ErrorKind,
}

/// The kind of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// There is no resource of this name.
    NotFound,
    /// Something else; a newer gateway may know more kinds.
    #[serde(other)]
    Other,
}
