//! Hashes of the lists that clients see, so that they are notified only of real changes.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use muster_core::{
    catalog::{CatalogItem, ToolEntry},
    request::Change,
};
use muster_gateway::dispatch::GatewaySnapshot;

/// The hashes of all lists.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ListHashes {
    tools: u64,
    resources: u64,
    prompts: u64,
}

impl ListHashes {
    pub(super) fn of(state: &GatewaySnapshot) -> Self {
        let GatewaySnapshot { catalog, policy, .. } = state;
        let mut tools = DefaultHasher::new();
        // The meta-tools name every source, even an empty one.
        for source in catalog.sources() {
            source.info.title.hash(&mut tools);
            source.info.description.hash(&mut tools);
        }
        // A tool that is hidden from most callers may be shown to some.
        let shown = |entry: &ToolEntry| !policy.callers.is_empty() || policy.shows(entry);
        for (_, entry) in catalog.callable().filter(|(_, entry)| shown(entry)) {
            entry.name.as_str().hash(&mut tools);
            policy.description(entry).hash(&mut tools);
            match &entry.definition {
                Some(definition) => definition.get().hash(&mut tools),
                None => entry.input_schema.get().hash(&mut tools),
            }
        }
        Self {
            tools: tools.finish(),
            resources: hash(catalog.resources().chain(catalog.templates())),
            prompts: hash(catalog.prompts()),
        }
    }

    /// The lists that changed.
    pub(super) fn changes_since(&self, before: &Self) -> Vec<Change> {
        let lists = [
            (self.tools != before.tools, Change::Tools),
            (self.resources != before.resources, Change::Resources),
            (self.prompts != before.prompts, Change::Prompts),
        ];
        lists.into_iter().filter_map(|(changed, list)| changed.then_some(list)).collect()
    }
}

fn hash<'a>(listed: impl Iterator<Item = &'a CatalogItem>) -> u64 {
    let mut hasher = DefaultHasher::new();
    for listed in listed {
        listed.name.hash(&mut hasher);
        listed.definition.get().hash(&mut hasher);
    }
    hasher.finish()
}
