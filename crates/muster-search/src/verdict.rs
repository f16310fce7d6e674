//! The verdict of a search: found, unsure, or no such tool.
//!
//! The strength of a result is the score of its best document, as a share of the score of a document with
//! every word of the query in its name. A weak result has one of two causes that words alone cannot
//! distinguish: the tool does not exist, or it is described in other words. A wrong "no such tool" is
//! worse than a poor match, so the thresholds are low. `bench/retrieval` measures both errors.

use super::{
    field::MOST,
    index::Index,
    query::{Query, Term},
    search::{self, Admit, Hit, Named, Place, score::NAME_COVERED},
};

/// The threshold of "no such tool". Half of the other one: no answerable question of the tuning sets is
/// as weak, and other sets will be harder.
const NO_SUCH_TOOL: f32 = UNSURE / 2.0;
/// The threshold of "unsure". One answerable question in fifty of the tuning sets is below it.
const UNSURE: f32 = 0.085;
/// The thresholds with embeddings, for the best similarity plus twice the lexical strength.
const MEANT_NO_SUCH_TOOL: f32 = 0.38;
const MEANT_UNSURE: f32 = 0.53;
/// The number of servers that are named.
const NEAREST: usize = 3;

/// The result of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer<'a> {
    /// The verdict.
    pub verdict: SearchVerdict<'a>,
    /// The strength of the best document, from 0 to 1.
    pub strength: f32,
    /// The best documents first. If there is no such tool, the nearest ones.
    pub hits: Vec<Hit<'a>>,
}

/// Whether the results answer the query.
#[derive(Debug, Clone, PartialEq)]
pub enum SearchVerdict<'a> {
    /// They do.
    Found,
    /// They may.
    Unsure {
        /// The words without a match.
        unmatched_terms: Vec<String>,
    },
    /// They do not.
    NoSuchTool {
        /// The words without a match.
        unmatched_terms: Vec<String>,
        /// The servers of the nearest tools, the nearest first.
        nearest_servers: Vec<&'a str>,
    },
}

impl Index {
    /// The best matches of `text`: at most `limit` documents that `admit` accepts.
    ///
    /// A text without words has no matches.
    pub fn search<'a>(&'a self, text: &str, admit: &Admit<'_>, limit: usize) -> Answer<'a> {
        let query = Query::new(self, text);
        let hits = search::best(self, &query, admit, limit);
        let strength = strength(&query, &hits);
        let verdict = judged(self, &query, admit, &hits, (strength, None));
        Answer { verdict, strength, hits }
    }
}

/// The verdict for a lexical strength and, if known, the best similarity.
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

/// The words that no visible document contains.
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
