//! Toolsets: named selections of tools.

use std::collections::BTreeSet;

use crate::{
    catalog::{CatalogSnapshot, CatalogSource, ToolEntry},
    effect::Effect,
    glob::Glob,
    name::BackendName,
};

/// A named selection of tools.
///
/// A tool is selected by its server, by its own name or by a tag of its server. A toolset with none of the three
/// selects every tool. The gateway's own tools are selected only by patterns that begin with `core`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Toolset {
    /// One line about it.
    pub description: String,
    /// Patterns of server names.
    pub servers: Vec<Glob>,
    /// Patterns of tools, by the name that agents see or as `server/tool`.
    pub tools: Vec<ToolPattern>,
    /// Tags of servers and CLIs.
    pub tags: Vec<String>,
    /// The worst effect of its tools; `None` for any.
    pub effect: Option<Effect>,
    /// Patterns of its tools that are listed under their own names, next to the meta-tools.
    pub pinned: Vec<ToolPattern>,
}

/// A pattern of tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolPattern {
    /// The pattern.
    pub glob: Glob,
    /// Whether it is matched against `server/tool` instead of the name that agents see.
    pub with_server: bool,
    /// Whether it begins with `core`: only then it selects the gateway's own tools.
    pub names_core: bool,
}

impl ToolPattern {
    fn matches(&self, entry: &ToolEntry) -> bool {
        let matches = match self.with_server {
            true => self.glob.matches(&format!("{}/{}", entry.backend, entry.local_name)),
            false => self.glob.matches(entry.name.as_str()),
        };
        matches && (self.names_core || !entry.audience.is_gateway())
    }
}

/// A toolset whose servers are looked up in a catalog.
#[derive(Debug, Clone)]
pub(super) struct ResolvedToolset {
    selects_all: bool,
    backends: BTreeSet<BackendName>,
    tools: Vec<ToolPattern>,
    effect: Option<Effect>,
    pinned: Vec<ToolPattern>,
}

impl Toolset {
    pub(super) fn resolved(&self, catalog: &CatalogSnapshot) -> ResolvedToolset {
        let Self { servers, tools, tags, effect, pinned, .. } = self;
        let selects = |source: &&CatalogSource| {
            let named = |glob: &Glob| {
                glob.matches(source.backend.as_str()) || glob.matches(&source.info.title)
            };
            servers.iter().any(named) || source.info.tags.iter().any(|tag| tags.contains(tag))
        };
        let mut backends: BTreeSet<BackendName> =
            catalog.sources().filter(selects).map(|one| one.backend.clone()).collect();
        // A family's tools count as tools of each of its servers. A call still reaches only selected servers, because
        // the policy also decides on the server's own tool.
        let families = catalog.sources().filter(|source| {
            source.family_members().iter().any(|member| backends.contains(member))
        });
        let families: Vec<BackendName> = families.map(|family| family.backend.clone()).collect();
        backends.extend(families);
        ResolvedToolset {
            selects_all: servers.is_empty() && tools.is_empty() && tags.is_empty(),
            backends,
            tools: tools.clone(),
            effect: *effect,
            pinned: pinned.clone(),
        }
    }
}

impl ResolvedToolset {
    /// Whether a tool with this effect is selected.
    pub(super) fn selects(&self, entry: &ToolEntry, effect: Effect) -> bool {
        let is_ours = entry.audience.is_gateway();
        let by_server = !is_ours && (self.selects_all || self.backends.contains(&entry.backend));
        let by_name = |pattern: &ToolPattern| pattern.matches(entry);
        let within = self.effect.is_none_or(|most| effect <= most);
        within && (by_server || self.tools.iter().any(by_name))
    }

    /// Whether a tool is listed under its own name.
    pub(super) fn pins(&self, entry: &ToolEntry) -> bool {
        self.pinned.iter().any(|pattern| pattern.matches(entry))
    }

    /// Whether a server without tools is selected.
    pub(super) fn selects_server(&self, backend: &BackendName) -> bool {
        self.selects_all || self.backends.contains(backend)
    }
}
