//! What tools mean, kept beside the catalog.
//!
//! Nobody waits for it: the model is read and tools are embedded in the background, and until then
//! search goes by words alone.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock, RwLock},
};

use muster_core::{
    catalog::Entry,
    name::ToolName,
    ranking::meaning::{Embed, described},
};
use tokio::sync::watch;

use crate::dispatch::State;

/// So many tools are embedded before others may find them.
const BATCH: usize = 16;

/// Reads a model, or says in the log why it cannot be.
pub type Loading = dyn Fn() -> Option<Arc<dyn Embed>> + Send + Sync;

type Vectors = BTreeMap<ToolName, Meaning>;

/// What tools mean.
pub struct Meanings {
    loading: Box<Loading>,
    model: OnceLock<Option<Arc<dyn Embed>>>,
    vectors: RwLock<Arc<Vectors>>,
}

/// What one tool means.
#[derive(Clone)]
struct Meaning {
    /// What was embedded.
    text: Arc<str>,
    vector: Arc<[f32]>,
}

impl Meanings {
    /// Knows nothing yet.
    pub fn new(loading: Box<Loading>) -> Self {
        Self { loading, model: OnceLock::new(), vectors: RwLock::default() }
    }

    /// Embeds what there is, and what comes, until the gateway ends.
    pub async fn follow(self: Arc<Self>, mut state: watch::Receiver<Arc<State>>) {
        loop {
            let now = Arc::clone(&state.borrow_and_update());
            loop {
                let (meanings, now) = (Arc::clone(&self), Arc::clone(&now));
                match tokio::task::spawn_blocking(move || meanings.embed_some(&now)).await {
                    Ok(Progress::Some) => (),
                    Ok(Progress::All) => break,
                    // Without a model there is nothing to follow.
                    Ok(Progress::NoModel) | Err(_) => return,
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
    pub fn of_question(&self, text: &str) -> Option<Vec<f32>> {
        let model = self.model.get()?.as_ref()?;
        (!self.known().is_empty()).then(|| model.embed(text))
    }

    /// The vectors of tools, as of now.
    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot(self.known())
    }

    fn known(&self) -> Arc<Vectors> {
        self.vectors.read().map(|known| Arc::clone(&known)).unwrap_or_default()
    }

    fn embed_some(&self, state: &State) -> Progress {
        let Some(model) = self.model.get_or_init(|| (self.loading)()) else {
            return Progress::NoModel;
        };
        let known = self.known();
        let mut missing = state.catalog.surviving().filter_map(|(source, entry)| {
            let text = described(source, entry, state.policy.description(entry));
            let same = known.get(&entry.name).is_some_and(|meaning| *meaning.text == *text);
            (!same).then(|| (entry.name.clone(), text))
        });
        let batch: Vec<(ToolName, String)> = missing.by_ref().take(BATCH).collect();
        let more = missing.next().is_some();
        drop(missing);
        let mut next = Vectors::clone(&known);
        for (name, text) in batch {
            let vector = model.embed(&text).into();
            next.insert(name, Meaning { text: text.into(), vector });
        }
        if !more {
            next.retain(|name, _| state.catalog.get(name.as_str()).is_some());
        }
        if let Ok(mut known) = self.vectors.write() {
            *known = Arc::new(next);
        }
        if more { Progress::Some } else { Progress::All }
    }
}

enum Progress {
    Some,
    All,
    NoModel,
}

/// The vectors of tools at one moment.
pub(crate) struct Snapshot(Arc<Vectors>);

impl Snapshot {
    /// The vector of a tool.
    pub(crate) fn of(&self, entry: &Entry) -> Option<&[f32]> {
        self.0.get(&entry.name).map(|meaning| &*meaning.vector)
    }
}

impl std::fmt::Debug for Meanings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Meanings").field("tools", &self.known().len()).finish_non_exhaustive()
    }
}
