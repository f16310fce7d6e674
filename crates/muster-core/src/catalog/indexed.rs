//! The index for ranked search, made when someone first searches.
//!
//! A catalog that nobody searches costs no index. One that differs from an indexed one by a source is
//! indexed in the time that this source takes.

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

/// An index, or what it takes to make it.
#[derive(Clone, Default)]
pub(super) struct Indexed {
    base: Index,
    /// What has changed since then.
    since: RedBlackTreeMapSync<BackendName, Option<Arc<CatalogSource>>>,
    made: Arc<OnceLock<Index>>,
}

impl Indexed {
    /// The same, but for what one backend offers.
    pub(super) fn with(&self, backend: BackendName, source: Option<Arc<CatalogSource>>) -> Self {
        let (base, mut since) = match self.made.get() {
            Some(made) => (made.clone(), RedBlackTreeMapSync::new_sync()),
            None => (self.base.clone(), self.since.clone()),
        };
        since.insert_mut(backend, source);
        Self { base, since, made: Arc::default() }
    }

    /// The index.
    pub(super) fn get(&self) -> &Index {
        self.made.get_or_init(|| {
            self.since.iter().fold(self.base.clone(), |index, (backend, source)| match source {
                Some(source) => with_source(&index, source, |entry| &entry.description),
                None => index.without(backend.as_str()),
            })
        })
    }
}

impl fmt::Debug for Indexed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Indexed").field("made", &self.made.get().is_some()).finish_non_exhaustive()
    }
}

/// An index in which a source stands, with `words` to describe its tools.
pub(super) fn with_source<'a>(
    index: &Index,
    source: &'a CatalogSource,
    words: impl Fn(&'a ToolEntry) -> &'a str,
) -> Index {
    let about = &source.info;
    let category = about.category.as_deref();
    let tags: Vec<&str> = about.tags.iter().map(String::as_str).chain(category).collect();
    let read: Vec<Read<'_>> = source.entries.iter().map(|entry| Read::of(entry)).collect();
    let taken: Vec<_> = read.iter().map(|read| parameters(&read.schema)).collect();
    let documents: Vec<Document<'_>> = source
        .entries
        .iter()
        .zip(read.iter().zip(&taken))
        .map(|(entry, (read, parameters))| Document {
            name: &entry.local_name,
            full_names: &read.names,
            title: &read.title,
            server: &about.title,
            description: words(entry),
            parameters,
            tags: &tags,
            aliases: &[],
        })
        .collect();
    index.with(source.backend.as_str(), &documents)
}

/// What has to be read of a tool before it can be described.
struct Read<'a> {
    names: [&'a str; 1],
    title: String,
    schema: Value,
}

impl<'a> Read<'a> {
    fn of(entry: &'a ToolEntry) -> Self {
        let definition = entry.definition.as_deref().and_then(RawObject::parse);
        Self {
            names: [entry.name.as_str()],
            title: definition.and_then(|own| own.get_text("title")).unwrap_or_default(),
            schema: serde_json::from_str(entry.input_schema.get()).unwrap_or_default(),
        }
    }
}
