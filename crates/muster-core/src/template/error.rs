//! What went wrong in a template, and where.

use thiserror::Error;

/// A template that cannot be parsed, or could not be rendered.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{text}")]
pub struct TemplateError {
    /// When it went wrong.
    pub stage: Stage,
    /// The line, from 1.
    pub line: usize,
    /// The byte in that line, from 0, as Go counts.
    pub column: usize,
    text: String,
}

/// When a template failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// It is no template.
    Parse,
    /// It met data or arguments it cannot work with.
    Execute,
    /// It would take too long, too much memory or too many levels.
    Limit,
}

impl TemplateError {
    pub(crate) fn new(stage: Stage, source: &str, at: usize, text: String) -> Self {
        let (line, column) = Self::place(source, at);
        Self { stage, line, column, text }
    }

    /// The line and column of a byte.
    pub(crate) fn place(source: &str, at: usize) -> (usize, usize) {
        let before = source.as_bytes().get(..at).unwrap_or(source.as_bytes());
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        let start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
        (line, before.len() - start)
    }
}
