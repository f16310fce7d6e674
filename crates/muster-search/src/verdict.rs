//! Whether what was found is what was asked for.
//!
//! The strength of an answer is what its best document got, as a share of what a document would get
//! that has every word of the query in its name. Weak answers are of two kinds that words alone cannot
//! tell apart: the tool does not exist, or it is described in other words. To say wrongly that there is
//! nothing is worse than to show what does not fit, so the lines are drawn low. How often each side
//! errs is measured in `bench/retrieval`.

use super::{
    field::MOST,
    index::Index,
    query::{Query, Term},
    search::{self, Admit, Hit, Named, Place, score::NAME_COVERED},
};

/// Below this, nothing that was asked for is there. Half of the other line, since no answerable question
/// in the sets to tune on is as weak and other sets will be harder.
const NO_SUCH_TOOL: f32 = UNSURE / 2.0;
/// Below this, it may not be what was asked for. One answerable question in fifty is as weak,
/// in the sets to tune on.
const UNSURE: f32 = 0.085;
/// The same lines where it is known how near the nearest tool is in meaning: that, and twice the
/// strength of words, are added up.
const MEANT_NO_SUCH_TOOL: f32 = 0.38;
const MEANT_UNSURE: f32 = 0.53;
/// So many servers are named.
const NEAREST: usize = 3;

/// What a search came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer<'a> {
    /// Whether it is what was asked for.
    pub verdict: SearchVerdict<'a>,
    /// How well the best document fits, from 0 to 1.
    pub strength: f32,
    /// What fits best, the best first. With no such tool, what comes nearest.
    pub hits: Vec<Hit<'a>>,
}

/// Whether what was found is what was asked for.
#[derive(Debug, Clone, PartialEq)]
pub enum SearchVerdict<'a> {
    /// It is, as far as words can tell.
    Found,
    /// It may be.
    Unsure {
        /// The words that nothing matched.
        unmatched_terms: Vec<String>,
    },
    /// It is not.
    NoSuchTool {
        /// The words that nothing matched.
        unmatched_terms: Vec<String>,
        /// Whose tools come nearest, the nearest first.
        nearest_servers: Vec<&'a str>,
    },
}

impl Index {
    /// What fits `text` best among what `admit` lets through: at most `limit` documents.
    ///
    /// A text without any word finds nothing. Whoever wants a list does not search.
    pub fn search<'a>(&'a self, text: &str, admit: &Admit<'_>, limit: usize) -> Answer<'a> {
        let query = Query::new(self, text);
        let hits = search::best(self, &query, admit, limit);
        let strength = strength(&query, &hits);
        let verdict = judged(self, &query, admit, &hits, (strength, None));
        Answer { verdict, strength, hits }
    }
}

/// Judges by how strong the words are, and how near the nearest is in meaning, if that is known.
pub(super) fn judged<'a>(
    index: &Index,
    query: &Query,
    admit: &Admit<'_>,
    hits: &[Hit<'a>],
    (strength, nearest): (f32, Option<f32>),
) -> SearchVerdict<'a> {
    let (evidence, unsure, no_such_tool) = match nearest {
        None => (strength, UNSURE, NO_SUCH_TOOL),
        Some(nearest) => (nearest + 2.0 * strength, MEANT_UNSURE, MEANT_NO_SUCH_TOOL),
    };
    let named = hits.first().is_some_and(|best| best.named != Named::No);
    if named || evidence >= unsure {
        return SearchVerdict::Found;
    }
    let unmatched_terms = unmatched(index, query, admit);
    if evidence >= no_such_tool {
        SearchVerdict::Unsure { unmatched_terms }
    } else {
        SearchVerdict::NoSuchTool { unmatched_terms, nearest_servers: nearest_servers(hits) }
    }
}

pub(super) fn strength(query: &Query, hits: &[Hit<'_>]) -> f32 {
    let Some(best) = hits.first() else { return 0.0 };
    if best.named != Named::No {
        return 1.0;
    }
    let rarities: f32 = query.terms.iter().map(|term| term.rarity).sum();
    (best.score / (rarities * MOST * (1.0 + NAME_COVERED)).max(f32::MIN_POSITIVE)).min(1.0)
}

/// The words that are in nothing that may be seen.
fn unmatched(index: &Index, query: &Query, admit: &Admit<'_>) -> Vec<String> {
    let seen = |term: &Term| {
        term.readings.iter().any(|reading| {
            let found = index.parts.iter().zip(&reading.numbers);
            found.filter_map(|(part, number)| Some((part, (*number)?))).any(|(part, number)| {
                let documents = part.shard.postings(number).iter().map(|posting| posting.document);
                documents.filter(|document| part.has(*document)).any(|document| {
                    let (source, position) = part.shard.place(document);
                    admit(Place { source, position })
                })
            })
        })
    };
    query.terms.iter().filter(|term| !seen(term)).map(|term| term.word.clone()).collect()
}

fn nearest_servers<'a>(hits: &[Hit<'a>]) -> Vec<&'a str> {
    let mut servers: Vec<&str> = Vec::new();
    for hit in hits {
        if !servers.contains(&hit.place.source) && servers.len() < NEAREST {
            servers.push(hit.place.source);
        }
    }
    servers
}
