//! The verdict whether search results match the query.
//!
//! The strength of a result is the score of its best document relative to a document that has every
//! query term in its name. Weak results have two causes that words alone cannot distinguish: the
//! tool does not exist, or it is described in other words. A false "no such tool" is worse than a
//! poor match, so the thresholds are low. `bench/retrieval` measures both error rates.

use super::{
    field::MAX_IMPACT,
    index::Index,
    query::{Query, Term},
    search::{self, DocumentFilter, DocumentId, NameMatch, SearchHit, score::NAME_COVERED},
};

/// Below this strength there is no such tool. Half of the other threshold: no answerable query in
/// the tuning sets is as weak, but other sets will be harder.
const NO_SUCH_TOOL: f32 = UNSURE / 2.0;
/// Below this strength the result is uncertain. One answerable query in fifty of the tuning sets is
/// as weak.
const UNSURE: f32 = 0.085;
/// The thresholds for hybrid search, which are compared with the best similarity plus twice the
/// strength.
const HYBRID_NO_SUCH_TOOL: f32 = 0.38;
const HYBRID_UNSURE: f32 = 0.53;
/// The maximum number of servers suggested.
const MAX_SERVERS: usize = 3;

/// The result of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchResults<'a> {
    /// Whether the query was matched.
    pub verdict: Verdict<'a>,
    /// The match strength of the best document, from 0 to 1.
    pub strength: f32,
    /// The best documents, best first. Without a match, the nearest ones.
    pub hits: Vec<SearchHit<'a>>,
}

/// Whether a query was matched.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict<'a> {
    /// There is a match.
    Found,
    /// The match is uncertain.
    Unsure {
        /// The words that match nothing.
        unmatched_terms: Vec<String>,
    },
    /// There is no match.
    NoSuchTool {
        /// The words that match nothing.
        unmatched_terms: Vec<String>,
        /// The servers of the nearest tools, nearest first.
        nearest_servers: Vec<&'a str>,
    },
}

impl Index {
    /// The best `limit` documents for `text` among those that `admit` accepts.
    ///
    /// A query without words finds nothing.
    pub fn search<'a>(
        &'a self,
        text: &str,
        admit: &DocumentFilter<'_>,
        limit: usize,
    ) -> SearchResults<'a> {
        let query = Query::new(self, text);
        let hits = search::top_hits(self, &query, admit, limit);
        let strength = strength(&query, &hits);
        let verdict = assess(self, &query, admit, &hits, (strength, None));
        SearchResults { verdict, strength, hits }
    }
}

/// The verdict by the strength and, if known, the best semantic similarity.
pub(super) fn assess<'a>(
    index: &Index,
    query: &Query,
    admit: &DocumentFilter<'_>,
    hits: &[SearchHit<'a>],
    (strength, nearest): (f32, Option<f32>),
) -> Verdict<'a> {
    let (evidence, unsure, no_such_tool) = match nearest {
        None => (strength, UNSURE, NO_SUCH_TOOL),
        Some(nearest) => (nearest + 2.0 * strength, HYBRID_UNSURE, HYBRID_NO_SUCH_TOOL),
    };
    let named = hits.first().is_some_and(|best| best.named != NameMatch::None);
    if named || evidence >= unsure {
        return Verdict::Found;
    }
    let unmatched_terms = unmatched(index, query, admit);
    if evidence >= no_such_tool {
        Verdict::Unsure { unmatched_terms }
    } else {
        Verdict::NoSuchTool { unmatched_terms, nearest_servers: nearest_servers(hits) }
    }
}

pub(super) fn strength(query: &Query, hits: &[SearchHit<'_>]) -> f32 {
    let Some(best) = hits.first() else { return 0.0 };
    if best.named != NameMatch::None {
        return 1.0;
    }
    let rarities: f32 = query.terms.iter().map(|term| term.idf).sum();
    (best.score / (rarities * MAX_IMPACT * (1.0 + NAME_COVERED)).max(f32::MIN_POSITIVE)).min(1.0)
}

/// The query words that occur in no visible document.
fn unmatched(index: &Index, query: &Query, admit: &DocumentFilter<'_>) -> Vec<String> {
    let seen = |term: &Term| {
        term.expansions.iter().any(|reading| {
            let found = index.shards.iter().zip(&reading.ids);
            found.filter_map(|(part, number)| Some((part, (*number)?))).any(|(part, number)| {
                let documents = part.shard.postings(number).iter().map(|posting| posting.document);
                documents.filter(|document| part.has(*document)).any(|document| {
                    let (source, position) = part.shard.document_id(document);
                    admit(DocumentId { source, position })
                })
            })
        })
    };
    query.terms.iter().filter(|term| !seen(term)).map(|term| term.word.clone()).collect()
}

fn nearest_servers<'a>(hits: &[SearchHit<'a>]) -> Vec<&'a str> {
    let mut servers: Vec<&str> = Vec::new();
    for hit in hits {
        if !servers.contains(&hit.document.source) && servers.len() < MAX_SERVERS {
            servers.push(hit.document.source);
        }
    }
    servers
}
