//! What tools mean, kept beside the catalog.
//!
//! Nobody waits for it: the model is read and tools are embedded in the background, and until then
//! search goes by words alone. What has been embedded once is remembered, in a file too where there is one: a
//! server that comes back, or a gateway that starts again, costs no thought.

mod vector_file;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::{Arc, OnceLock, RwLock},
};

use muster_core::{catalog::ToolEntry, name::ToolName};
use muster_search::meaning::{Embed, described};
use tokio::sync::watch;

use self::vector_file::Vectors;
use crate::dispatch::GatewaySnapshot;

/// So many tools are embedded before others may find them.
const BATCH: usize = 16;
/// So many texts are remembered, those of tools that are there before any other.
const MAX_CACHED: usize = 20_000;
/// What every model is asked, to tell it from others.
const FINGERPRINT_TEXT: &str = "find the right tool";

/// Reads a model, or says in the log why it cannot be.
pub type LoadModel = dyn Fn() -> Option<Arc<dyn Embed>> + Send + Sync;

type ToolVectors = BTreeMap<ToolName, ToolEmbedding>;

/// What tools mean.
pub struct ToolEmbeddings {
    load: Box<LoadModel>,
    model: OnceLock<Option<Arc<dyn Embed>>>,
    vectors: RwLock<Arc<ToolVectors>>,
    /// Where what was embedded is kept.
    file: Option<PathBuf>,
}

/// What was embedded, for tools that are there and others.
struct VectorCache {
    fingerprint: Vec<f32>,
    known: Vectors,
    /// Whether there is something that the file does not have.
    dirty: bool,
}

/// What one tool means.
#[derive(Clone)]
struct ToolEmbedding {
    /// What was embedded.
    text: Arc<str>,
    vector: Arc<[f32]>,
}

impl ToolEmbeddings {
    /// Knows nothing yet.
    pub fn new(load: Box<LoadModel>) -> Self {
        Self { load, model: OnceLock::new(), vectors: RwLock::default(), file: None }
    }

    /// Keeps what was embedded in a file, for the next start.
    #[must_use]
    pub fn cached_in(self, file: PathBuf) -> Self {
        Self { file: Some(file), ..self }
    }

    /// Embeds what there is, and what comes, until the gateway ends.
    pub async fn follow(self: Arc<Self>, mut state: watch::Receiver<Arc<GatewaySnapshot>>) {
        let mut cache = None;
        loop {
            let now = Arc::clone(&state.borrow_and_update());
            loop {
                let (embeddings, now) = (Arc::clone(&self), Arc::clone(&now));
                let some = tokio::task::spawn_blocking(move || {
                    let progress = embeddings.embed_some(&now, &mut cache);
                    (progress, cache)
                });
                let Ok((progress, known)) = some.await else { return };
                cache = known;
                match progress {
                    Progress::Some => (),
                    Progress::All => break,
                    // Without a model there is nothing to follow.
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

    /// The vector of a question, if there is a model by now and anything to compare it with. Takes time.
    pub fn embed_query(&self, text: &str) -> Option<Vec<f32>> {
        let model = self.model.get()?.as_ref()?;
        (!self.known().is_empty()).then(|| model.embed(text))
    }

    /// The vectors of tools, as of now.
    pub(crate) fn snapshot(&self) -> EmbeddingSnapshot {
        EmbeddingSnapshot(self.known())
    }

    fn known(&self) -> Arc<ToolVectors> {
        self.vectors.read().map(|known| Arc::clone(&known)).unwrap_or_default()
    }

    /// Embeds a few tools that are new, and takes what is known from `cache`, which is none at first.
    fn embed_some(&self, state: &GatewaySnapshot, cache: &mut Option<VectorCache>) -> Progress {
        let Some(model) = self.model.get_or_init(|| (self.load)()) else {
            return Progress::NoModel;
        };
        let cache = cache.get_or_insert_with(|| VectorCache::of(&**model, self.file.as_deref()));
        let known = self.known();
        let mut next = ToolVectors::clone(&known);
        let (mut embedded, mut more) = (0, false);
        for (source, entry) in state.catalog.callable() {
            let text =
                described(&source.info.title, &entry.local_name, state.policy.description(entry));
            if known.get(&entry.name).is_some_and(|embedding| *embedding.text == *text) {
                continue;
            }
            let embedding = match cache.known.get_key_value(&*text) {
                Some((text, vector)) => {
                    ToolEmbedding { text: text.clone(), vector: vector.clone() }
                }
                // What is remembered further on costs nothing, so the rest is looked at all the same.
                None if embedded == BATCH => {
                    more = true;
                    continue;
                }
                None => {
                    embedded += 1;
                    cache.add(text.into(), |text| model.embed(text).into())
                }
            };
            next.insert(entry.name.clone(), embedding);
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
        let fingerprint = model.embed(FINGERPRINT_TEXT);
        let known =
            file.map(|file| vector_file::read(file, &fingerprint, MAX_CACHED)).unwrap_or_default();
        Self { fingerprint, known, dirty: false }
    }

    fn add(&mut self, text: Arc<str>, embed: impl FnOnce(&str) -> Arc<[f32]>) -> ToolEmbedding {
        let vector = embed(&text);
        self.known.insert(Arc::clone(&text), Arc::clone(&vector));
        self.dirty = true;
        ToolEmbedding { text, vector }
    }

    /// Forgets what is too much, and writes down what is new.
    fn keep(&mut self, used: &ToolVectors, file: Option<&Path>) {
        if self.known.len() > MAX_CACHED {
            let used: BTreeSet<&str> = used.values().map(|embedding| &*embedding.text).collect();
            self.known.retain(|text, _| used.contains(&**text));
        }
        let Some(file) = file.filter(|_| self.dirty) else { return };
        match vector_file::write(file, &self.fingerprint, &self.known) {
            Ok(()) => self.dirty = false,
            Err(error) => tracing::warn!("what tools mean is not kept: {error}"),
        }
    }
}

enum Progress {
    Some,
    All,
    NoModel,
}

/// The vectors of tools at one moment.
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
