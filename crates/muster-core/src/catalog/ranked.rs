//! Ranked search over the catalog.

use std::{cell::Cell, sync::Arc};

use muster_search::{
    document_set::DocumentSet,
    index::Index,
    meaning::{Meaning, QueryMeaning},
    query::How,
    search::{Match, Named, Place},
    verdict::{MatchStrength, SearchVerdict},
};

use super::{CatalogSnapshot, CatalogSource, ToolEntry, indexed::CatalogIndex};
use crate::name::BackendName;

/// A catalog with an index to search.
#[derive(Debug, Clone, Copy)]
pub struct Ranker<'a> {
    catalog: &'a CatalogSnapshot,
    index: &'a Index,
}

/// The result of a ranked search.
#[derive(Debug)]
pub struct RankedTools<'a> {
    /// The best tools, best first. Without a match, the nearest ones.
    pub found: Vec<RankedTool<'a>>,
    /// The number of tools that match at all.
    pub total: usize,
    /// Whether the query was matched.
    pub verdict: SearchVerdict<'a>,
    /// The words of the query that no tool has.
    pub unmatched_terms: Vec<String>,
    /// The products that the query names and no tool mentions.
    pub absent_products: Vec<&'static str>,
    /// The source of a tool that does for another product what is asked of an absent one.
    pub alternative: Option<&'a CatalogSource>,
}

/// A tool in a search result.
#[derive(Debug, Clone)]
pub struct RankedTool<'a> {
    /// Its source.
    pub source: &'a CatalogSource,
    /// The tool.
    pub entry: &'a Arc<ToolEntry>,
    /// Its score; comparable only within one result.
    pub score: f32,
    /// How well it matches.
    pub strength: MatchStrength,
    /// Whether the query names it.
    pub is_named: bool,
    /// Whether it matches by prefix or similar spelling only.
    pub guessed: bool,
    /// The words of the query that it has, in their order.
    pub matches: Vec<Match>,
}

impl CatalogSnapshot {
    /// The index over all tools, by their own descriptions.
    pub fn index(&self) -> &CatalogIndex {
        self.indexed.get()
    }

    /// An index in which the tools of some backends have other descriptions.
    #[must_use]
    pub fn index_with_descriptions<'a>(
        &'a self,
        backends: impl Iterator<Item = &'a BackendName>,
        words: impl Fn(&'a ToolEntry) -> &'a str,
    ) -> CatalogIndex {
        let mut index = self.index().clone();
        for source in backends.filter_map(|backend| self.source(backend.as_str())) {
            index.replace(&source.backend, Some(source), &words);
        }
        index.joined()
    }

    /// Searches an index of this catalog.
    pub fn ranker<'a>(&'a self, index: &'a Index) -> Ranker<'a> {
        Ranker { catalog: self, index }
    }
}

/// The vector of a tool, if it is known.
pub type ToolVector<'a> = dyn Fn(&ToolEntry) -> Option<&'a [f32]> + 'a;

impl<'a> Ranker<'a> {
    /// The documents of the tools that `admit` accepts.
    pub fn documents(self, admit: impl Fn(&CatalogSource, &Arc<ToolEntry>) -> bool) -> DocumentSet {
        let tool = self.tools();
        self.index.documents(&|place| {
            tool(place).is_some_and(|(source, entry)| {
                self.catalog.is_callable(entry) && admit(source, entry)
            })
        })
    }

    /// Returns a lookup of tools by document. Neighbouring documents are usually of the same source, so the last source
    /// is tried first.
    fn tools(self) -> impl Fn(Place<'_>) -> Option<(&'a CatalogSource, &'a Arc<ToolEntry>)> {
        let last: Cell<Option<&'a CatalogSource>> = Cell::new(None);
        move |place| {
            let known = last.get().filter(|source| source.backend.as_str() == place.source);
            let source = known.or_else(|| self.catalog.source(place.source))?;
            last.set(Some(source));
            Some((source, source.entries().get(place.position)?))
        }
    }

    /// The best `limit` tools for `text` among those that `admit` accepts. `meaning` adds semantic
    /// similarity; `sure` holds documents that are known to be accepted.
    pub fn search(
        self,
        text: &str,
        admit: impl Fn(&CatalogSource, &Arc<ToolEntry>) -> bool,
        meaning: Option<(&QueryMeaning, &ToolVector<'_>)>,
        sure: Option<&DocumentSet>,
        limit: usize,
    ) -> RankedTools<'a> {
        let tool = self.tools();
        let admitted = |place: Place<'_>| {
            tool(place).is_some_and(|(source, entry)| {
                self.catalog.is_callable(entry) && admit(source, entry)
            })
        };
        let answer = match meaning {
            None => self.index.search_words(text, &admitted, sure, limit),
            Some((query, vector)) => {
                let vector = |place: Place<'_>| tool(place).and_then(|(_, entry)| vector(entry));
                let meaning = Meaning { query, vector: &vector };
                self.index.search_meaning(text, &admitted, meaning, sure, limit)
            }
        };
        let found = answer.hits.into_iter().filter_map(|hit| {
            let (source, entry) = tool(hit.place)?;
            let alike = |one: &Match| matches!(one.how, How::Prefix | How::Spelling);
            let is_named = hit.named != Named::No;
            let guessed = !is_named && !hit.matches.is_empty() && hit.matches.iter().all(alike);
            let (score, strength, matches) = (hit.score, hit.strength, hit.matches);
            Some(RankedTool { source, entry, score, strength, is_named, guessed, matches })
        });
        RankedTools {
            found: found.collect(),
            total: answer.total,
            verdict: answer.verdict,
            unmatched_terms: answer.unmatched_terms,
            absent_products: answer.absent_products,
            alternative: answer.alternative.and_then(|place| Some(tool(place)?.0)),
        }
    }
}
