//! The tools that fit a question in words, best first.

use std::{cell::Cell, sync::Arc};

use muster_search::{
    index::Index,
    query::How,
    search::{Match, Named, Place},
    verdict::Verdict,
};

use super::{CatalogSnapshot, CatalogSource, ToolEntry, indexed};
use crate::name::BackendName;

/// Words of a question, and the index they are looked for in.
#[derive(Debug, Clone, Copy)]
pub struct Ranker<'a> {
    catalog: &'a CatalogSnapshot,
    index: &'a Index,
}

/// What a question came to.
#[derive(Debug)]
pub struct RankedTools<'a> {
    /// What fits, best first. With no such tool, what comes nearest.
    pub found: Vec<RankedTool<'a>>,
    /// How many tools have anything of what was asked for.
    pub total: usize,
    /// Whether it is what was asked for.
    pub verdict: Verdict<'a>,
    /// How well the best one fits, from 0 to 1.
    pub strength: f32,
}

/// A tool that fits.
#[derive(Debug, Clone, Copy)]
pub struct RankedTool<'a> {
    /// Who offers it.
    pub source: &'a CatalogSource,
    /// The tool.
    pub entry: &'a Arc<ToolEntry>,
    /// How well it fits; only to be compared with others of the same answer.
    pub score: f32,
    /// Whether no word is there as it was asked for, only some that are written alike.
    pub guessed: bool,
}

impl CatalogSnapshot {
    /// The index over all tools, in the words of those who offer them.
    pub fn index(&self) -> &Index {
        self.indexed.get()
    }

    /// The index as if the tools of some backends were described in other words.
    #[must_use]
    pub fn index_with_descriptions<'a>(
        &'a self,
        backends: impl Iterator<Item = &'a BackendName>,
        words: impl Fn(&'a ToolEntry) -> &'a str,
    ) -> Index {
        backends
            .filter_map(|backend| self.source(backend.as_str()))
            .fold(self.index().clone(), |index, source| {
                indexed::with_source(&index, source, &words)
            })
    }

    /// Looks for words in an index of this catalog.
    pub fn ranker<'a>(&'a self, index: &'a Index) -> Ranker<'a> {
        Ranker { catalog: self, index }
    }
}

/// How near a tool is in meaning to what is looked for, where anybody knows.
pub type Similarity<'a> = dyn Fn(&ToolEntry) -> Option<f32> + 'a;

impl<'a> Ranker<'a> {
    /// The `limit` tools that fit `text` best, among those that `admit` lets through. `near` says how
    /// near a tool is in meaning, where anybody knows.
    pub fn search(
        self,
        text: &str,
        admit: impl Fn(&CatalogSource, &Arc<ToolEntry>) -> bool,
        near: Option<&Similarity<'_>>,
        limit: usize,
    ) -> RankedTools<'a> {
        let last: Cell<Option<&'a CatalogSource>> = Cell::new(None);
        let tool = |place: Place<'_>| {
            let known = last.get().filter(|source| source.backend.as_str() == place.source);
            let source = known.or_else(|| self.catalog.source(place.source))?;
            last.set(Some(source));
            Some((source, source.entries().get(place.position)?))
        };
        let admitted = |place: Place<'_>| {
            tool(place).is_some_and(|(source, entry)| {
                self.catalog.is_callable(entry) && admit(source, entry)
            })
        };
        let answer = match near {
            None => self.index.search(text, &admitted, limit),
            Some(near) => {
                let near = |place: Place<'_>| tool(place).and_then(|(_, entry)| near(entry));
                self.index.search_meaning(text, &admitted, &near, limit)
            }
        };
        let found = answer.hits.iter().filter_map(|hit| {
            let (source, entry) = tool(hit.place)?;
            let alike = |one: &Match| matches!(one.how, How::Prefix | How::Spelling);
            let guessed =
                hit.named == Named::No && !hit.matches.is_empty() && hit.matches.iter().all(alike);
            Some(RankedTool { source, entry, score: hit.score, guessed })
        });
        let found: Vec<RankedTool<'a>> = found.collect();
        // What is near in meaning need not have a word in common.
        let total = self.index.matching(text, &admitted).max(found.len());
        RankedTools { found, total, verdict: answer.verdict, strength: answer.strength }
    }
}
