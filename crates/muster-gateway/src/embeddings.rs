//! The embeddings of tools, for search by meaning.
//!
//! The model is loaded and tools are embedded in the background; until then search uses keywords alone. This starts
//! with the first search, or immediately if the cache file exists: a gateway that is never searched needs no model.
//! Vectors are cached in memory and in a file, so that nothing is embedded twice when a server reconnects or the
//! gateway restarts.

mod vector_file;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::{Arc, OnceLock, RwLock},
};

use muster_core::{catalog::ToolEntry, name::ToolName};
use muster_search::meaning::{Embed, QueryMeaning, described};
use tokio::sync::{Notify, watch};

use self::vector_file::Vectors;
use crate::dispatch::GatewaySnapshot;

/// The number of tools that are embedded before the vectors are published.
const BATCH: usize = 16;
/// The size of the cache. Vectors of tools in the catalog are never evicted.
const MAX_CACHED: usize = 20_000;
/// The text whose vector identifies a model.
const FINGERPRINT_TEXT: &str = "find the right tool";

/// Loads the model, or logs why it cannot.
pub type LoadModel = dyn Fn() -> Option<Arc<dyn Embed>> + Send + Sync;

type ToolVectors = BTreeMap<ToolName, ToolEmbedding>;

/// The embeddings of all tools.
pub struct ToolEmbeddings {
    load: Box<LoadModel>,
    model: OnceLock<Option<Arc<dyn Embed>>>,
    vectors: RwLock<Arc<ToolVectors>>,
    /// The file that caches vectors.
    file: Option<PathBuf>,
    /// Notified by searches.
    wanted: Notify,
}

/// The cached vectors, of tools in the catalog and others.
struct VectorCache {
    fingerprint: Vec<f32>,
    known: Vectors,
    /// Whether there are vectors that are not in the file.
    dirty: bool,
}

/// The embedding of one tool.
#[derive(Clone)]
struct ToolEmbedding {
    /// The text that was embedded.
    text: Arc<str>,
    vector: Arc<[f32]>,
}

impl ToolEmbeddings {
    /// Embeddings of no tools; the model is loaded with the first batch.
    pub fn new(load: Box<LoadModel>) -> Self {
        Self {
            load,
            model: OnceLock::new(),
            vectors: RwLock::default(),
            file: None,
            wanted: Notify::new(),
        }
    }

    /// Caches vectors in a file.
    #[must_use]
    pub fn cached_in(self, file: PathBuf) -> Self {
        Self { file: Some(file), ..self }
    }

    /// Embeds the tools of every snapshot, until the gateway shuts down.
    pub async fn follow(self: Arc<Self>, mut state: watch::Receiver<Arc<GatewaySnapshot>>) {
        // Wait for the first search, to save the memory of the model in gateways that are never searched.
        let mut is_wanted = self.file.as_ref().is_some_and(|file| file.exists());
        while !is_wanted {
            tokio::select! {
                () = self.wanted.notified() => is_wanted = true,
                changed = state.changed() => if changed.is_err() { return },
            }
        }
        let mut cache = None;
        loop {
            let now = Arc::clone(&state.borrow_and_update());
            loop {
                let (embeddings, now) = (Arc::clone(&self), Arc::clone(&now));
                let some = tokio::task::spawn_blocking(move || {
                    let progress = embeddings.embed_some(&now, &mut cache);
                    (progress, cache)
                });
                let (progress, known) = match some.await {
                    Ok(done) => done,
                    Err(error) => {
                        tracing::error!(
                            "search uses keywords only, because embedding failed: {error}"
                        );
                        return;
                    }
                };
                cache = known;
                match progress {
                    Progress::Some => (),
                    Progress::All => break,
                    // Without a model there is nothing to do.
                    Progress::NoModel => return,
                }
                if state.has_changed().unwrap_or(true) {
                    break;
                }
            }
            if state.changed().await.is_err() {
                return;
            }
        }
    }

    /// Requests embeddings. Every search calls this.
    pub(crate) fn want(&self) {
        self.wanted.notify_one();
    }

    /// The vectors of a search query and its clauses. `None` without a model or vectors to compare with. Blocks.
    pub fn embed_query(&self, text: &str) -> Option<QueryMeaning> {
        let model = self.model.get()?.as_ref()?;
        (!self.known().is_empty()).then(|| QueryMeaning::of(&**model, text))?
    }

    /// The current vectors.
    pub(crate) fn snapshot(&self) -> EmbeddingSnapshot {
        EmbeddingSnapshot(self.known())
    }

    fn known(&self) -> Arc<ToolVectors> {
        self.vectors.read().map(|known| Arc::clone(&known)).unwrap_or_default()
    }

    /// Embeds one batch of new tools. Vectors found in `cache` do not count towards the batch.
    fn embed_some(&self, state: &GatewaySnapshot, cache: &mut Option<VectorCache>) -> Progress {
        let Some(model) = self.model.get_or_init(|| (self.load)()) else {
            return Progress::NoModel;
        };
        let cache = cache.get_or_insert_with(|| VectorCache::of(&**model, self.file.as_deref()));
        let known = self.known();
        let mut next = ToolVectors::clone(&known);
        let (mut new, mut more) = (Vec::new(), false);
        for (source, entry) in state.catalog.callable() {
            let text =
                described(&source.info.title, &entry.local_name, state.policy.description(entry));
            if known.get(&entry.name).is_some_and(|embedding| *embedding.text == *text) {
                continue;
            }
            match cache.known.get_key_value(&*text) {
                Some((text, vector)) => {
                    let embedding = ToolEmbedding { text: text.clone(), vector: vector.clone() };
                    next.insert(entry.name.clone(), embedding);
                }
                // The remaining tools may be cached, which costs nothing.
                None if new.len() == BATCH => more = true,
                None => new.push((entry.name.clone(), text)),
            }
        }
        let texts: Vec<&str> = new.iter().map(|(_, text)| text.as_str()).collect();
        let vectors = model.embed(&texts);
        for ((name, text), vector) in new.into_iter().zip(vectors) {
            next.insert(name, cache.add(text.into(), vector.into()));
        }
        if !more {
            next.retain(|name, _| state.catalog.get(name.as_str()).is_some());
            cache.keep(&next, self.file.as_deref());
        }
        if let Ok(mut known) = self.vectors.write() {
            *known = Arc::new(next);
        }
        if more { Progress::Some } else { Progress::All }
    }
}

impl VectorCache {
    fn of(model: &dyn Embed, file: Option<&Path>) -> Self {
        let fingerprint = model.embed(&[FINGERPRINT_TEXT]).pop().unwrap_or_default();
        let known =
            file.map(|file| vector_file::read(file, &fingerprint, MAX_CACHED)).unwrap_or_default();
        Self { fingerprint, known, dirty: false }
    }

    fn add(&mut self, text: Arc<str>, vector: Arc<[f32]>) -> ToolEmbedding {
        self.known.insert(Arc::clone(&text), Arc::clone(&vector));
        self.dirty = true;
        ToolEmbedding { text, vector }
    }

    /// Evicts vectors beyond the limit and writes new ones to the file.
    fn keep(&mut self, used: &ToolVectors, file: Option<&Path>) {
        if self.known.len() > MAX_CACHED {
            let used: BTreeSet<&str> = used.values().map(|embedding| &*embedding.text).collect();
            self.known.retain(|text, _| used.contains(&**text));
        }
        let Some(file) = file.filter(|_| self.dirty) else { return };
        match vector_file::write(file, &self.fingerprint, &self.known) {
            Ok(()) => self.dirty = false,
            Err(error) => tracing::warn!("cannot write the embedding cache: {error}"),
        }
    }
}

enum Progress {
    Some,
    All,
    NoModel,
}

/// The vectors of all tools at one moment.
pub(crate) struct EmbeddingSnapshot(Arc<ToolVectors>);

impl EmbeddingSnapshot {
    /// The vector of a tool.
    pub(crate) fn of(&self, entry: &ToolEntry) -> Option<&[f32]> {
        self.0.get(&entry.name).map(|embedding| &*embedding.vector)
    }
}

impl std::fmt::Debug for ToolEmbeddings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ToolEmbeddings").field("tools", &self.known().len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
