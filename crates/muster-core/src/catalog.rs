//! What there is to call, as an immutable value.
//!
//! Backends *push* their tools here when they change; the catalog never asks a backend anything.
//! A request works on one [`CatalogSnapshot`] from start to end.

mod indexed;
mod names;
pub mod offer;
pub mod ranked;
pub mod search;
mod template;

use std::sync::Arc;

use rpds::RedBlackTreeMapSync;

use serde_json::value::RawValue;

use crate::{
    cli::Param,
    name::{BackendName, ToolName},
    schema::validator::Validator,
    suggest,
};
use indexed::Indexed;
use names::Names;

/// One tool in the catalog.
#[derive(Debug, Clone)]
pub struct ToolEntry {
    /// The name that agents see.
    pub name: ToolName,
    /// Who runs it.
    pub backend: BackendName,
    /// What the backend itself calls it.
    pub local_name: Arc<str>,
    /// What it does.
    pub description: Arc<str>,
    /// What it takes, as JSON Schema.
    pub input_schema: Arc<RawValue>,
    /// What it takes, as a CLI definition says it; none for tools that only have a schema.
    pub params: Option<Arc<[Param]>>,
    /// The whole definition as an MCP server listed it, in its own names; none for tools that muster
    /// describes itself.
    pub definition: Option<Arc<RawValue>>,
    /// Holds arguments against the schema; made at the first call.
    pub validator: Arc<Validator>,
}

/// A resource, a template of resources, or a prompt.
#[derive(Debug, Clone)]
pub struct CatalogItem {
    /// What clients call it: an address, a template of one, or a name.
    pub name: Arc<str>,
    /// Who has it.
    pub backend: BackendName,
    /// What the backend itself calls it.
    pub local_name: Arc<str>,
    /// The whole definition as the backend listed it, in its own names.
    pub definition: Arc<RawValue>,
}

/// Everything one backend has on offer.
#[derive(Debug, Clone, Default)]
pub struct Offer {
    /// Its tools, in its own order; names may repeat.
    pub tools: Vec<ToolEntry>,
    /// Its resources.
    pub resources: Vec<CatalogItem>,
    /// Its templates of resources.
    pub templates: Vec<CatalogItem>,
    /// Its prompts.
    pub prompts: Vec<CatalogItem>,
}

/// What a backend says about itself.
#[derive(Debug, Clone)]
pub struct BackendInfo {
    /// Its name for people and filters; need not be unique.
    pub title: Arc<str>,
    /// One line about it.
    pub description: Arc<str>,
    /// What it is about.
    pub category: Option<Arc<str>>,
    /// Words for search.
    pub tags: Arc<[String]>,
}

/// Everything one backend offers.
#[derive(Debug, Clone)]
pub struct CatalogSource {
    /// The backend.
    pub backend: BackendName,
    /// What it says about itself.
    pub info: BackendInfo,
    /// Its resources.
    pub resources: Vec<CatalogItem>,
    /// Its templates of resources.
    pub templates: Vec<CatalogItem>,
    /// Its prompts.
    pub prompts: Vec<CatalogItem>,
    /// Its tools, in its own order; names may repeat.
    entries: Vec<Arc<ToolEntry>>,
    /// For each tool the text that queries are matched against, made once.
    haystacks: Vec<String>,
}

impl CatalogSource {
    /// A backend with what it has on offer.
    pub fn new(backend: BackendName, about: BackendInfo, offer: Offer) -> Self {
        let Offer { tools, resources, templates, prompts } = offer;
        let haystacks = tools.iter().map(|entry| search::haystack(&about, entry)).collect();
        let entries = tools.into_iter().map(Arc::new).collect();
        Self { backend, info: about, resources, templates, prompts, entries, haystacks }
    }

    /// Its tools, in its own order; names may repeat.
    pub fn entries(&self) -> &[Arc<ToolEntry>] {
        &self.entries
    }
}

/// Which of two tools with one name is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NameCollision {
    /// The one defined later: a config may replace what an earlier one defined.
    #[default]
    LastWins,
    /// The one of the backend that was there first: a newcomer takes nothing over.
    FirstWins,
}

/// Every tool at one moment.
///
/// **Invariant:** one that differs from another by a source shares everything else with it, so a
/// catalog of one's own costs as much as what is one's own in it.
#[derive(Debug, Clone, Default)]
pub struct CatalogSnapshot {
    /// By when they were first added.
    sources: RedBlackTreeMapSync<u64, Arc<CatalogSource>>,
    /// When each backend was first added.
    orders: RedBlackTreeMapSync<BackendName, u64>,
    names: Names,
    indexed: Indexed,
}

impl CatalogSnapshot {
    /// A snapshot in which `source` stands as given; the others stay as they are.
    ///
    /// Of two tools with one name the later wins: later in the source, and of two sources the one
    /// that was added later.
    #[must_use]
    pub fn with(&self, source: CatalogSource) -> Self {
        let mut next = self.clone();
        let source = Arc::new(source);
        let order = match self.orders.get(&source.backend) {
            Some(order) => *order,
            None => self.sources.last().map_or(0, |(last, _)| last + 1),
        };
        let before = self.sources.get(&order).map(|source| source.entries()).unwrap_or_default();
        next.names.replace(order, before, source.entries());
        next.indexed = self.indexed.with(source.backend.clone(), Some(Arc::clone(&source)));
        next.orders.insert_mut(source.backend.clone(), order);
        next.sources.insert_mut(order, source);
        next
    }

    /// The same for several sources at once.
    #[must_use]
    pub fn with_all(&self, added: impl IntoIterator<Item = CatalogSource>) -> Self {
        added.into_iter().fold(self.clone(), |snapshot, source| snapshot.with(source))
    }

    /// A snapshot without what `backend` offers. Whose its tools were is remembered.
    #[must_use]
    pub fn without(&self, backend: &BackendName) -> Self {
        let mut next = self.clone();
        let Some(order) = self.orders.get(backend) else { return next };
        let before = self.sources.get(order).map(|source| source.entries()).unwrap_or_default();
        next.names.replace(*order, before, &[]);
        next.indexed = self.indexed.with(backend.clone(), None);
        next.orders.remove_mut(backend);
        next.sources.remove_mut(order);
        next
    }

    /// An empty snapshot that settles collisions as told.
    pub fn with_collisions(collision: NameCollision) -> Self {
        Self { names: Names::with_collisions(collision), ..Self::default() }
    }

    /// Whose tool it was, if it is no longer there.
    pub fn former_backend(&self, name: &str) -> Option<&BackendName> {
        self.names.former_backend(name)
    }

    /// The prompts, in the order of their sources.
    pub fn prompts(&self) -> impl Iterator<Item = &CatalogItem> {
        self.sources().flat_map(|source| &source.prompts)
    }

    /// The resources, in the order of their sources.
    pub fn resources(&self) -> impl Iterator<Item = &CatalogItem> {
        self.sources().flat_map(|source| &source.resources)
    }

    /// The templates of resources, in the order of their sources.
    pub fn templates(&self) -> impl Iterator<Item = &CatalogItem> {
        self.sources().flat_map(|source| &source.templates)
    }

    /// Who answers for an address: who lists it, else who has a template that fits it.
    pub fn resource_backend(&self, uri: &str) -> Option<&BackendName> {
        let listed = self.resources().find(|resource| *resource.name == *uri);
        let fitting = || self.templates().find(|template| template::fits(&template.name, uri));
        listed.or_else(fitting).map(|found| &found.backend)
    }

    /// Who offers something, in the order they were added.
    pub fn sources(&self) -> impl Iterator<Item = &CatalogSource> {
        self.sources.values().map(|source| &**source)
    }

    /// What one backend offers.
    pub fn source(&self, backend: &str) -> Option<&CatalogSource> {
        self.sources.get(self.orders.get(backend)?).map(|source| &**source)
    }

    /// Finds a tool by its exact name.
    pub fn get(&self, name: &str) -> Option<&Arc<ToolEntry>> {
        self.names.get(name)
    }

    /// How many tools can be called.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there is no tool.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The tools that can be called, each at the place of the definition that won.
    pub fn callable(&self) -> impl Iterator<Item = (&CatalogSource, &Arc<ToolEntry>)> {
        self.sources()
            .flat_map(|source| source.entries.iter().map(move |entry| (source, entry)))
            .filter(|(_, entry)| self.is_callable(entry))
    }

    /// The tools that can be called, each at the place where its name first occurs.
    pub fn by_first_definition(&self) -> Vec<&Arc<ToolEntry>> {
        let mut seen = std::collections::BTreeSet::new();
        self.sources()
            .flat_map(|source| &source.entries)
            .filter(|entry| seen.insert(&entry.name))
            .filter_map(|entry| self.get(entry.name.as_str()))
            .collect()
    }

    /// The tools that can be called, sorted by name.
    pub fn sorted(&self) -> impl Iterator<Item = &Arc<ToolEntry>> {
        self.names.winners()
    }

    /// Names that `name` may have been meant for, among those that `shown` lets through.
    pub fn similar(&self, name: &str, shown: impl Fn(&ToolEntry) -> bool) -> Vec<ToolName> {
        let names = self.sorted().filter(|entry| shown(entry)).map(|entry| entry.name.as_str());
        suggest::similar(name, names).into_iter().map(ToolName::new).collect()
    }

    fn is_callable(&self, entry: &Arc<ToolEntry>) -> bool {
        self.names.is_callable(entry)
    }
}

#[cfg(test)]
mod tests;
