//! Names, checked once where they enter.

use std::{fmt, sync::Arc};

use serde::Serialize;
use thiserror::Error;

/// Names that the gateway uses itself.
const RESERVED: [&str; 2] = ["core", "mcp-aggregator"];
/// The name becomes the name of a file, with an ending and a temporary prefix.
const LONGEST_NAME: usize = 200;

/// The name of a tool as agents see it. Any text: CLI configs may name a tool as they like.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct ToolName(Arc<str>);

impl ToolName {
    /// Takes a name as it is.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::borrow::Borrow<str> for ToolName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// The name under which clients see something of an MCP server: `prefix_server_name`, or
/// `prefix_name` where the name begins with the server's own prefix already.
pub fn exposed_name(prefix: &str, server: &str, name: &str) -> String {
    let begins = name.strip_prefix(server).is_some_and(|rest| rest.starts_with('_'));
    if begins { format!("{prefix}_{name}") } else { format!("{prefix}_{server}_{name}") }
}

/// The name of a backend: unique among those that run at one time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct BackendName(Arc<str>);

impl BackendName {
    /// Takes a name as it is.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::borrow::Borrow<str> for BackendName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for BackendName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why a resource cannot have a name.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InvalidName {
    /// There is none.
    #[error("name is required")]
    Missing,
    /// It cannot be that of a file, or the gateway uses it itself.
    #[error("invalid name '{name}': {reason}")]
    Unusable {
        /// The name.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },
}

/// Checks the name of a resource: an MCP server, a workflow, a service class or a service.
pub fn check_resource_name(name: &str) -> Result<(), InvalidName> {
    let invalid = |reason| Err(InvalidName::Unusable { name: name.to_owned(), reason });
    match name {
        "" => Err(InvalidName::Missing),
        _ if name.starts_with('.') => invalid("it must not begin with a dot"),
        _ if name.contains(['/', '\\']) => invalid("it must not hold `/` or `\\`"),
        _ if name.contains(char::is_control) => invalid("it must not hold control characters"),
        _ if name.len() > LONGEST_NAME => invalid("it is too long"),
        _ if RESERVED.contains(&name) => invalid("the gateway uses it itself"),
        _ => Ok(()),
    }
}
