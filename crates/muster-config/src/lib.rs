//! Configuration file formats: text in, a checked value or every problem out.
//!
//! The words and the order of problems are those of the original, whose users know them. Beyond
//! that, each problem knows its line and, where there is one, the fix.

pub mod cli;
pub mod formats;
pub mod mcp_json;
pub mod mcpserver;
pub mod policy;
mod reader;
pub mod resource;
pub mod schema;
pub mod service;
pub mod serviceclass;
pub mod settings;
pub mod workflow;
pub mod writer;
pub mod yaml;

use std::fmt;

use thiserror::Error;

use crate::yaml::SyntaxError;

/// A file's value, and what its author may want to know.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded<T> {
    /// What the file says.
    pub value: T,
    /// What it says in vain, by line.
    pub warnings: Vec<Warning>,
}

/// A field that nothing reads, or that will not do what it is for. It never fails a load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// Where: field names and list indexes from the top.
    pub path: Vec<String>,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// What is wrong.
    pub message: String,
    /// The field that may have been meant.
    pub similar: Option<&'static str>,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.join(" → "), self.message)?;
        match self.similar {
            Some(similar) => write!(f, "; did you mean `{similar}`?"),
            None => Ok(()),
        }
    }
}

/// One thing wrong with a file. Prints as `tools → 0 → name: Field required`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where: field names and list indexes from the top.
    pub path: Vec<String>,
    /// What is wrong.
    pub message: String,
    /// What to do about it, where that can be said.
    pub fix: Option<String>,
    /// The line, from 1; of a missing field, the line of what lacks it.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path.join(" → "))?;
        }
        f.write_str(&self.message)
    }
}

/// What is wrong with a field that nothing reads.
pub(crate) const UNKNOWN_FIELD: &str = "unknown field";

/// Why a file gives no value. Prints on one line.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LoadError {
    /// It is not YAML.
    #[error(transparent)]
    Syntax(#[from] SyntaxError),
    /// It holds something else than a mapping.
    #[error("the file must hold a mapping, not {found}")]
    NotAMapping {
        /// What Python calls the type found: `NoneType`, `list`, `str`.
        found: &'static str,
    },
    /// A field at the top has a name that YAML does not read as text.
    #[error(
        "line {line}, column {column}: keywords must be strings; quote `{written}`, which is {found}"
    )]
    KeyNotText {
        /// The name as written.
        written: String,
        /// What Python calls the type it has.
        found: &'static str,
        /// The line, from 1.
        line: usize,
        /// The column in characters, from 1.
        column: usize,
    },
    /// Fields are missing or hold what they must not; in the order of the format.
    #[error("{}", one_line(.0))]
    Fields(Vec<Problem>),
}

fn one_line(problems: &[Problem]) -> String {
    problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests;
