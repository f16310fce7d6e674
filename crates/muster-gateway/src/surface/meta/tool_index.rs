//! The index of the tools that a caller may call: core tools first, then the others, each by name. Lists and
//! search indexes are made on first use.

use std::sync::{Arc, OnceLock};

use muster_core::{
    catalog::{CatalogSource, ToolEntry, ranked::RankedTools},
    effect::Effect,
    name::BackendName,
    schema::signature,
};
use muster_search::{index::Index, meaning::nearness};

use crate::{dispatch::GatewaySnapshot, embeddings::EmbeddingSnapshot as Embeddings};

/// The longest summary, in characters.
const MAX_SUMMARY: usize = 120;
/// The longest signature, in characters.
pub(in crate::surface) const MAX_SIGNATURE: usize = 100;

/// The tools of a snapshot.
#[derive(Debug, Default)]
pub(super) struct ToolIndex {
    tools: OnceLock<Vec<Shown>>,
    /// A search index over the policy's own descriptions, if it sets any.
    index: OnceLock<Option<Index>>,
}

/// A search query, with its vector if there is a model.
pub(super) struct Question<'a> {
    pub(super) text: &'a str,
    pub(super) meant: Option<&'a [f32]>,
    pub(super) embeddings: Option<&'a Embeddings>,
}

/// A tool as the policy presents it.
#[derive(Debug)]
pub(super) struct Shown {
    pub(super) entry: Arc<ToolEntry>,
    /// The policy's description in place of the tool's own.
    instead: Option<Arc<str>>,
    /// The effect that the policy declares.
    said: Option<Effect>,
    /// The description in lower case, made on first use.
    small: OnceLock<Box<str>>,
}

impl ToolIndex {
    /// The tools in order.
    pub(super) fn tools(&self, state: &GatewaySnapshot) -> &[Shown] {
        self.tools.get_or_init(|| {
            let shown = |entry: &&Arc<ToolEntry>| state.policy.shows(entry);
            let (mut tools, others): (Vec<Shown>, Vec<Shown>) = state
                .catalog
                .sorted()
                .filter(shown)
                .map(|entry| Shown::of(state, entry))
                .partition(|shown| shown.name().starts_with("core_"));
            tools.extend(others);
            tools
        })
    }

    /// The tools that match a query, best first.
    pub(super) fn search<'a>(
        &'a self,
        state: &'a GatewaySnapshot,
        question: &Question<'_>,
        admit: impl Fn(&CatalogSource, &Arc<ToolEntry>) -> bool,
        limit: usize,
    ) -> RankedTools<'a> {
        let own = self.index.get_or_init(|| {
            let other = |entry: &ToolEntry| *state.policy.description(entry) != *entry.description;
            let mut backends: Vec<&BackendName> = state
                .catalog
                .sources()
                .filter(|source| source.entries().iter().any(|entry| other(entry)))
                .map(|source| &source.backend)
                .collect();
            backends.dedup();
            let words = |entry| state.policy.description(entry);
            (!backends.is_empty())
                .then(|| state.catalog.index_with_descriptions(backends.into_iter(), words))
        });
        let index = own.as_ref().unwrap_or_else(|| state.catalog.index());
        let shown = |source: &CatalogSource, entry: &Arc<ToolEntry>| {
            state.policy.shows(entry) && admit(source, entry)
        };
        let near = |entry: &ToolEntry| {
            let meant = question.meant?;
            question.embeddings?.of(entry).map(|vector| nearness(vector, meant))
        };
        let near = question.meant.map(|_| &near as &dyn Fn(&ToolEntry) -> Option<f32>);
        state.catalog.ranker(index).search(question.text, shown, near, limit)
    }
}

/// The number of tools that a snapshot shows.
pub(super) fn count(state: &GatewaySnapshot) -> usize {
    if state.policy.shows_all() {
        return state.catalog.len();
    }
    state.catalog.sorted().filter(|entry| state.policy.shows(entry)).count()
}

impl Shown {
    /// A tool under the policy of a snapshot.
    pub(super) fn of(state: &GatewaySnapshot, entry: &Arc<ToolEntry>) -> Self {
        let words = state.policy.description(entry);
        let instead = (*words != *entry.description).then(|| Arc::from(words));
        let said = state.policy.ruled_effect(entry);
        Self { entry: Arc::clone(entry), instead, said, small: OnceLock::new() }
    }

    /// The name that agents use.
    pub(super) fn name(&self) -> &str {
        self.entry.name.as_str()
    }

    /// The description.
    pub(super) fn description(&self) -> &str {
        self.instead.as_deref().unwrap_or(&self.entry.description)
    }

    /// The description in lower case.
    pub(super) fn small_description(&self) -> &str {
        self.small.get_or_init(|| self.description().to_lowercase().into())
    }

    /// The effect.
    pub(super) fn effect(&self) -> Effect {
        self.said.unwrap_or_else(|| Effect::of(&self.entry))
    }

    /// The signature in one line; none without arguments.
    pub(super) fn signature(&self) -> Option<String> {
        let line = signature::line(&self.entry.input_schema, MAX_SIGNATURE);
        (!line.is_empty()).then_some(line)
    }
}

/// The first line of a description, cut to the limit.
pub(in crate::surface) fn summary(description: &str) -> String {
    let line = first_line(description);
    match line.char_indices().nth(MAX_SUMMARY) {
        Some((end, _)) => line.get(..end).unwrap_or_default().trim_end().to_owned() + "...",
        None => line.to_owned(),
    }
}

fn first_line(description: &str) -> &str {
    description.trim().lines().next().unwrap_or_default().trim()
}

#[cfg(test)]
mod tests {
    use super::summary;

    #[test]
    fn a_summary_is_one_short_line() {
        assert_eq!(summary("\n  Reads a file. \n\nMore."), "Reads a file.");
        assert_eq!(summary(""), "");
        assert_eq!(summary(&"ä".repeat(120)), "ä".repeat(120));
        assert_eq!(summary(&"ä".repeat(121)), "ä".repeat(120) + "...");
    }
}
