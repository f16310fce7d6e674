//! Errors of templates, with their positions.

use thiserror::Error;

/// A template that cannot be parsed, or could not be rendered.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{text}")]
pub struct TemplateError {
    /// The stage at which it failed.
    pub stage: ErrorStage,
    /// The line, from 1.
    pub line: usize,
    /// The byte in that line, from 0, as Go counts.
    pub column: usize,
    text: String,
}

/// The stage at which a template failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorStage {
    /// Parsing: its syntax is invalid.
    Parse,
    /// Execution: a value or an argument does not fit.
    Execute,
    /// It exceeded its limit of steps, memory or nesting.
    Limit,
}

impl TemplateError {
    pub(crate) fn new(stage: ErrorStage, source: &str, at: usize, text: String) -> Self {
        let (line, column) = Self::place(source, at);
        Self { stage, line, column, text }
    }

    /// The line and column of a byte.
    pub(crate) fn place(source: &str, at: usize) -> (usize, usize) {
        LineIndex::of(source).place(at)
    }
}

/// The line starts of a text, for repeated position lookups.
pub(crate) struct LineIndex(Vec<usize>);

impl LineIndex {
    pub(crate) fn of(source: &str) -> Self {
        let newlines = source.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        Self(std::iter::once(0).chain(newlines.map(|(at, _)| at + 1)).collect())
    }

    /// The line of a byte, from 1, and its offset in that line, from 0.
    pub(crate) fn place(&self, at: usize) -> (usize, usize) {
        let line = self.0.partition_point(|start| *start <= at);
        let start = line.checked_sub(1).and_then(|line| self.0.get(line)).copied().unwrap_or(0);
        (line, at - start)
    }
}
