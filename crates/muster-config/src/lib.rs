//! File formats: readers, writers, field tables and JSON Schemas.
//!
//! Each format has one table of fields ([`formats`]). Its reader, its JSON Schema, the arguments of core
//! tools and the reference pages come from that table. Readers report every problem at once, with its
//! line and, where one is known, the fix; messages and their order are those that CLImax users know.

pub mod cli;
pub mod crd;
pub mod documents;
pub mod formats;
pub mod kinds;
pub mod mcp_json;
pub mod mcpserver;
pub mod policy;
mod reader;
pub mod resource;
pub mod schema;
pub mod service;
pub mod serviceclass;
pub mod settings;
pub mod toolset;
pub mod workflow;
pub mod writer;
pub mod yaml;

use std::fmt;

use thiserror::Error;

use crate::yaml::SyntaxError;

/// The value of a file, with warnings for its author.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded<T> {
    /// The value.
    pub value: T,
    /// The warnings, by line.
    pub warnings: Vec<Warning>,
}

/// An unknown field, or one without the intended effect. It never fails a load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// The path: field names and list indexes from the top.
    pub path: Vec<String>,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// What is wrong.
    pub message: String,
    /// A known field with a similar name.
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

/// The severity of a problem in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// The file can be used, but probably not as intended.
    Warning,
    /// The file cannot be used.
    Error,
}

/// A problem in a file. Prints as `tools → 0 → name: Field required`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The path: field names and list indexes from the top.
    pub path: Vec<String>,
    /// What is wrong.
    pub message: String,
    /// The fix, if one is known.
    pub fix: Option<String>,
    /// The line, from 1; for a missing field, the line of the mapping that lacks it.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// Its kind.
    pub kind: ProblemKind,
}

/// The kind of a problem in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProblemKind {
    /// A required field is missing.
    Missing,
    /// A required field is missing, and an unknown field has a similar name.
    Misspelled,
    /// A value is invalid.
    Invalid,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path.join(" → "))?;
        }
        f.write_str(&self.message)
    }
}

fn not_a_mapping(found: &str) -> String {
    match found {
        "NoneType" => format!("the file is empty ({found}): it must hold a mapping"),
        found => format!("the file must hold a mapping, not {found}"),
    }
}

/// The message for an unknown field.
pub(crate) const UNKNOWN_FIELD: &str = "unknown field";

/// Why a file cannot be loaded. Prints on one line.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LoadError {
    /// It is not YAML.
    #[error(transparent)]
    Syntax(#[from] SyntaxError),
    /// It is not a mapping.
    #[error("{}", not_a_mapping(found))]
    NotAMapping {
        /// The Python name of the type found: `NoneType`, `list`, `str`.
        found: &'static str,
    },
    /// A field at the top has a name that is not text in YAML.
    #[error(
        "line {line}, column {column}: keywords must be strings; quote `{written}`, which is {found}"
    )]
    KeyNotText {
        /// The name as written.
        written: String,
        /// The Python name of its type.
        found: &'static str,
        /// The line, from 1.
        line: usize,
        /// The column in characters, from 1.
        column: usize,
    },
    /// Fields are missing or have invalid values; in the order of the format.
    #[error("{}", one_line(.0))]
    Fields(Vec<Problem>),
}

fn one_line(problems: &[Problem]) -> String {
    problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests;
