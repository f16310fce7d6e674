//! The search index of a catalog, built lazily.
//!
//! A catalog that is never searched needs no index. If the catalog changes by one source, only that
//! source is indexed again.
//!
//! **Invariant:** the gateway's own tools do not affect the scores of other tools. The weight of a word depends on how
//! many tools in the index contain it, and the gateway can have more tools than a small catalog. They therefore have a
//! separate index.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use muster_search::{
    document::{Document, parameters},
    index::Index,
};
use rpds::RedBlackTreeMapSync;
use serde_json::Value;

use super::{CatalogSource, ToolEntry};
use crate::{json::RawObject, name::BackendName};

/// The search index of a catalog.
#[derive(Debug, Clone, Default)]
pub struct CatalogIndex {
    /// Without the gateway's own tools.
    others: Index,
    /// The gateway's own tools.
    gateway: Index,
    /// Both.
    all: Index,
    /// Both, to search for the gateway's own tools.
    for_gateway: Index,
}

impl CatalogIndex {
    /// The index of all tools but the gateway's own.
    pub fn without_gateway(&self) -> &Index {
        &self.others
    }

    /// The index of all tools. Document sets of the other index are also valid for this one.
    pub fn all(&self) -> &Index {
        &self.all
    }

    /// The index of all tools, of which searches find the gateway's own only.
    pub fn for_gateway(&self) -> &Index {
        &self.for_gateway
    }

    /// Replaces or removes the tools of a source. `words` returns the description of a tool.
    pub(super) fn replace<'a>(
        &mut self,
        backend: &BackendName,
        source: Option<&'a CatalogSource>,
        words: impl Fn(&'a ToolEntry) -> &'a str,
    ) {
        self.others = self.others.without(backend.as_str());
        self.gateway = self.gateway.without(backend.as_str());
        if let Some(source) = source {
            let index = if source.is_gateway() { &mut self.gateway } else { &mut self.others };
            *index = with_source(index, source, words);
        }
    }

    /// Rebuilds the combined indexes after sources were replaced.
    pub(super) fn joined(self) -> Self {
        let all = self.others.beside(&self.gateway);
        let for_gateway = self.others.behind(&self.gateway);
        Self { all, for_gateway, ..self }
    }
}

/// A lazily built search index.
#[derive(Clone, Default)]
pub(super) struct LazyIndex {
    base: CatalogIndex,
    /// Sources that changed since `base` was built; `None` for a removed source.
    pending: RedBlackTreeMapSync<BackendName, Option<Arc<CatalogSource>>>,
    built: Arc<OnceLock<CatalogIndex>>,
}

impl LazyIndex {
    /// Replaces or removes the source of one backend.
    pub(super) fn with(&self, backend: BackendName, source: Option<Arc<CatalogSource>>) -> Self {
        let (base, mut pending) = match self.built.get() {
            Some(built) => (built.clone(), RedBlackTreeMapSync::new_sync()),
            None => (self.base.clone(), self.pending.clone()),
        };
        pending.insert_mut(backend, source);
        Self { base, pending, built: Arc::default() }
    }

    /// The index, built on first use.
    pub(super) fn get(&self) -> &CatalogIndex {
        self.built.get_or_init(|| {
            let mut index = self.base.clone();
            for (backend, source) in &self.pending {
                index.replace(backend, source.as_deref(), |entry| &entry.description);
            }
            index.joined()
        })
    }
}

impl fmt::Debug for LazyIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LazyIndex")
            .field("built", &self.built.get().is_some())
            .finish_non_exhaustive()
    }
}

/// Adds a source to an index. `words` returns the description of a tool.
fn with_source<'a>(
    index: &Index,
    source: &'a CatalogSource,
    words: impl Fn(&'a ToolEntry) -> &'a str,
) -> Index {
    let info = &source.info;
    let category = info.category.as_deref();
    let tags: Vec<&str> = info.tags.iter().map(String::as_str).chain(category).collect();
    // Parsed schemas take several times the memory of their text, so only one is in memory at a time.
    index.with_each(source.backend.as_str(), |push| {
        for entry in &source.entries {
            let fields = IndexedFields::of(entry);
            push(&Document {
                name: &entry.local_name,
                full_names: &fields.names,
                title: &fields.title,
                server: &info.title,
                description: words(entry),
                parameters: &parameters(&fields.schema),
                tags: &tags,
                aliases: &[],
            });
        }
    })
}

/// The parts of a tool's definition that are indexed.
struct IndexedFields<'a> {
    names: [&'a str; 1],
    title: String,
    schema: Value,
}

impl<'a> IndexedFields<'a> {
    fn of(entry: &'a ToolEntry) -> Self {
        let definition = entry.definition.as_deref().and_then(RawObject::parse);
        Self {
            names: [entry.name.as_str()],
            title: definition.and_then(|own| own.get_text("title")).unwrap_or_default(),
            schema: serde_json::from_str(entry.input_schema.get()).unwrap_or_default(),
        }
    }
}
