//! Names of tools, backends and resources.

use std::{borrow::Cow, fmt, sync::Arc};

use serde::Serialize;
use thiserror::Error;

use crate::text;

/// Names reserved by the gateway.
const RESERVED: [&str; 2] = ["core", "mcp-aggregator"];
/// The limit leaves room for a file extension and a temporary prefix: names become file names.
const MAX_NAME_LEN: usize = 200;

/// The name of a tool as agents see it. Any text is valid.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct ToolName(Arc<str>);

impl ToolName {
    /// Wraps a name without checks.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }

    /// The name as a string slice.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name as a message quotes it.
    #[must_use]
    pub fn shortened(&self) -> Self {
        match text::shortened(&self.0) {
            Cow::Borrowed(_) => self.clone(),
            Cow::Owned(short) => Self::new(short),
        }
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

/// The name under which clients see an item of an MCP server: `prefix_server_name`, or
/// `prefix_name` if the item's own name already begins with the server's.
pub fn exposed_name(prefix: &str, server: &str, name: &str) -> String {
    let begins = name.strip_prefix(server).is_some_and(|rest| rest.starts_with('_'));
    if begins { format!("{prefix}_{name}") } else { format!("{prefix}_{server}_{name}") }
}

/// The name of a backend, unique among running backends.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct BackendName(Arc<str>);

impl BackendName {
    /// Wraps a name without checks.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }

    /// The name as a string slice.
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

/// Why a resource name is invalid.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InvalidName {
    /// The name is empty.
    #[error("name is required")]
    Missing,
    /// The name cannot be used as a file name, or is reserved.
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
        _ if name.len() > MAX_NAME_LEN => invalid("it is too long"),
        _ if RESERVED.contains(&name) => invalid("the gateway uses it itself"),
        _ => Ok(()),
    }
}
