//! What there is to call, as an immutable value.
//!
//! Backends *push* their tools here when they change; the catalog never asks a backend anything.
//! A request works on one [`Snapshot`] from start to end.

pub mod search;

use std::{collections::BTreeMap, sync::Arc};

use serde_json::value::RawValue;

use crate::{
    cli::Param,
    name::{BackendName, ToolName},
    suggest,
};

/// One tool in the catalog.
#[derive(Debug, Clone)]
pub struct Entry {
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
}

/// What a backend says about itself.
#[derive(Debug, Clone)]
pub struct About {
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
pub struct Source {
    /// The backend.
    pub backend: BackendName,
    /// What it says about itself.
    pub about: About,
    /// Its tools, in its own order; names may repeat.
    entries: Vec<Arc<Entry>>,
    /// For each tool the text that queries are matched against, made once.
    haystacks: Vec<String>,
}

impl Source {
    /// A backend with its tools.
    pub fn new(backend: BackendName, about: About, entries: Vec<Entry>) -> Self {
        let haystacks = entries.iter().map(|entry| search::haystack(&about, entry)).collect();
        Self { backend, about, entries: entries.into_iter().map(Arc::new).collect(), haystacks }
    }

    /// Its tools, in its own order; names may repeat.
    pub fn entries(&self) -> &[Arc<Entry>] {
        &self.entries
    }
}

/// Every tool at one moment.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    sources: Arc<[Arc<Source>]>,
    by_name: Arc<BTreeMap<ToolName, Arc<Entry>>>,
}

impl Snapshot {
    /// A snapshot in which `source` stands as given; the others stay as they are.
    ///
    /// Of two tools with one name the later wins: later in the source, and of two sources the one
    /// that was added later.
    #[must_use]
    pub fn with(&self, source: Source) -> Self {
        let mut sources = self.sources.to_vec();
        let source = Arc::new(source);
        match sources.iter_mut().find(|other| other.backend == source.backend) {
            Some(place) => *place = source,
            None => sources.push(source),
        }
        Self::of(sources)
    }

    fn of(sources: Vec<Arc<Source>>) -> Self {
        let by_name = sources
            .iter()
            .flat_map(|source| &source.entries)
            .map(|entry| (entry.name.clone(), Arc::clone(entry)))
            .collect();
        Self { sources: sources.into(), by_name: Arc::new(by_name) }
    }

    /// Who offers something, in the order they were added.
    pub fn sources(&self) -> impl Iterator<Item = &Source> {
        self.sources.iter().map(|source| &**source)
    }

    /// Finds a tool by its exact name.
    pub fn get(&self, name: &str) -> Option<&Arc<Entry>> {
        self.by_name.get(name)
    }

    /// The tools that can be called, each at the place of the definition that won.
    pub fn surviving(&self) -> impl Iterator<Item = (&Source, &Arc<Entry>)> {
        self.sources
            .iter()
            .flat_map(|source| source.entries.iter().map(|entry| (&**source, entry)))
            .filter(|(_, entry)| self.survives(entry))
    }

    /// The tools that can be called, each at the place where its name first occurs.
    pub fn by_first_place(&self) -> Vec<&Arc<Entry>> {
        let mut seen = std::collections::BTreeSet::new();
        self.sources
            .iter()
            .flat_map(|source| &source.entries)
            .filter(|entry| seen.insert(&entry.name))
            .filter_map(|entry| self.get(entry.name.as_str()))
            .collect()
    }

    /// The tools that can be called, sorted by name.
    pub fn sorted(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.by_name.values()
    }

    /// Names that `name` may have been meant for, among those that `shown` lets through.
    pub fn similar(&self, name: &str, shown: impl Fn(&Entry) -> bool) -> Vec<ToolName> {
        let names = self.sorted().filter(|entry| shown(entry)).map(|entry| entry.name.as_str());
        suggest::similar(name, names).into_iter().map(ToolName::new).collect()
    }

    fn survives(&self, entry: &Arc<Entry>) -> bool {
        self.get(entry.name.as_str()).is_some_and(|winner| Arc::ptr_eq(winner, entry))
    }
}
