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

/// Returns the names that `prefix_server_tool` may have been shortened to, each with the server's own name for the
/// tool: the tool `git_log` of the server `git`, called as `x_git_git_log`, is `x_git_log`.
pub(crate) fn merged(name: &str) -> impl Iterator<Item = (String, &str)> {
    /// The longest name that is looked at.
    const MAX_LEN: usize = 256;
    let seams = |text: &'_ str| text.match_indices('_').map(|(at, _)| at).collect::<Vec<_>>();
    let seams = if name.len() <= MAX_LEN { seams(name) } else { Vec::new() };
    let pairs = seams.clone().into_iter().flat_map(move |start| {
        let ends = seams.clone().into_iter().filter(move |end| *end > start);
        ends.map(move |end| (start, end))
    });
    pairs.filter_map(move |(start, end)| {
        // The server with its underscore.
        let server = name.get(start + 1..=end).filter(|server| server.len() > 1)?;
        let local = name.get(end + 1..).filter(|local| local.starts_with(server))?;
        Some((format!("{}_{local}", name.get(..start)?), local))
    })
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

/// The prefixes of tools that a gateway shows behind its meta-tools: its own, those of servers, CLIs and workflows.
const BEHIND_META_TOOLS: [&str; 4] = ["core_", "x_", "cli_", "workflow_"];

/// Whether a name is certainly not that of a meta-tool. For all other names, only the gateway's tool list can tell.
pub fn is_behind_meta_tools(tool: &str) -> bool {
    BEHIND_META_TOOLS.iter().any(|prefix| tool.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::{exposed_name, merged};

    #[test]
    fn a_merged_name_is_found_by_its_parts() {
        let all = |name: &str| -> Vec<String> {
            merged(name).map(|(merged, local)| format!("{merged} {local}")).collect()
        };
        assert_eq!(exposed_name("x", "git", "git_log"), "x_git_log");
        assert_eq!(all("x_git_git_log"), ["x_git_log git_log"]);
        assert_eq!(all("x_my_git_my_git_log"), ["x_my_git_log my_git_log"]);
        assert_eq!(all("my_x_git_git_log"), ["my_x_git_log git_log"]);
        assert_eq!(all("x_git_log"), [""; 0]);
        assert_eq!(all("x__git__git"), [""; 0]);
        assert_eq!(all(&"a_".repeat(200)), [""; 0]);
    }
}
