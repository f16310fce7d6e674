//! The search index of a catalog, built lazily.
//!
//! A catalog that is never searched needs no index. If the catalog changes by one source, only that
//! source is indexed again.

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

/// A lazily built search index.
#[derive(Clone, Default)]
pub(super) struct LazyIndex {
    base: Index,
    /// Sources that changed since `base` was built; none for a removed one.
    pending: RedBlackTreeMapSync<BackendName, Option<Arc<CatalogSource>>>,
    built: Arc<OnceLock<Index>>,
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
    pub(super) fn get(&self) -> &Index {
        self.built.get_or_init(|| {
            self.pending.iter().fold(self.base.clone(), |index, (backend, source)| match source {
                Some(source) => with_source(&index, source, |entry| &entry.description),
                None => index.without(backend.as_str()),
            })
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

/// Adds a source to an index, with `words` as the description of a tool.
pub(super) fn with_source<'a>(
    index: &Index,
    source: &'a CatalogSource,
    words: impl Fn(&'a ToolEntry) -> &'a str,
) -> Index {
    let info = &source.info;
    let category = info.category.as_deref();
    let tags: Vec<&str> = info.tags.iter().map(String::as_str).chain(category).collect();
    // Parsed schemas take several times the memory of their text, so that only one is there at a time.
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
