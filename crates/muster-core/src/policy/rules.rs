//! The rules of a policy, found by the tools that they name.
//!
//! A key is the name that agents see (`x_github_create_issue`), a server and the server's own name of
//! a tool (`github/create_issue`), or the beginning of such a pair (`github/*`, `github/get_*`). The
//! own name of a tool alone (`git_log`) names tools of CLIs and workflows only: an MCP server chooses
//! the names of its tools, and must not be able to choose one that a rule for another server lets in.

use indexmap::IndexMap;

use super::Rule;
use crate::catalog::ToolEntry;

/// Rules by key, in file order.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    by_key: IndexMap<String, Rule>,
    /// Whether a key names a server.
    has_servers: bool,
    /// The positions of keys that end with `*`.
    prefixes: Vec<usize>,
}

impl Rules {
    /// The rule with this key.
    pub fn get(&self, key: &str) -> Option<&Rule> {
        self.by_key.get(key)
    }

    /// The keys in file order.
    pub fn keys(&self) -> impl Iterator<Item = &String> {
        self.by_key.keys()
    }

    /// The keys and their rules in file order.
    pub fn iter(&self) -> impl Iterator<Item = (&String, &Rule)> {
        self.by_key.iter()
    }

    /// The number of rules.
    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Whether there is no rule.
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// The rules that name a tool, the most specific first.
    pub(super) fn of<'a>(&'a self, entry: &'a ToolEntry) -> impl Iterator<Item = &'a Rule> {
        let own_name = !entry.is_upstream() && *entry.local_name != *entry.name.as_str();
        let own_name = own_name.then(|| self.get(&entry.local_name)).flatten();
        self.explicit(entry).chain(own_name).chain(self.prefixed(entry))
    }

    /// The rules that name exactly this tool, not a group of tools.
    pub(super) fn explicit<'a>(&'a self, entry: &'a ToolEntry) -> impl Iterator<Item = &'a Rule> {
        let path = || format!("{}/{}", entry.backend, entry.local_name);
        let path = self.has_servers.then(path).and_then(|path| self.get(&path));
        self.get(entry.name.as_str()).into_iter().chain(path)
    }

    /// The rule for the own name of an MCP server's tool. It lets nothing in, but its limits hold: a
    /// limit that was meant for this tool must not vanish because of its spelling.
    pub(super) fn bare<'a>(&'a self, entry: &ToolEntry) -> Option<&'a Rule> {
        let bare = entry.is_upstream() && *entry.local_name != *entry.name.as_str();
        bare.then(|| self.get(&entry.local_name)).flatten()
    }

    fn prefixed<'a>(&'a self, entry: &'a ToolEntry) -> impl Iterator<Item = &'a Rule> {
        let keys = self.prefixes.iter().rev().filter_map(|at| self.by_key.get_index(*at));
        keys.filter(|(key, _)| is_prefix(key, entry)).map(|(_, rule)| rule)
    }
}

/// Whether a key such as `github/get_*` names a tool.
pub(super) fn is_prefix(key: &str, entry: &ToolEntry) -> bool {
    let start = key.strip_suffix('*').unwrap_or(key);
    let own = start.strip_prefix(entry.backend.as_str()).and_then(|rest| rest.strip_prefix('/'));
    own.is_some_and(|start| entry.local_name.starts_with(start))
}

impl FromIterator<(String, Rule)> for Rules {
    fn from_iter<T: IntoIterator<Item = (String, Rule)>>(rules: T) -> Self {
        let by_key: IndexMap<String, Rule> = rules.into_iter().collect();
        let has_servers = by_key.keys().any(|key| key.contains('/'));
        let grouped = |key: &String| key.contains('/') && key.ends_with('*');
        let keys = by_key.keys().enumerate();
        let prefixes = keys.filter(|(_, key)| grouped(key)).map(|(at, _)| at).collect();
        Self { by_key, has_servers, prefixes }
    }
}
