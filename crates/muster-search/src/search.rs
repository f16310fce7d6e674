//! Retrieval of the best documents for a query.
//!
//! Postings are accumulated in document ranges that fit the CPU cache. The expensive parts of a
//! score (bigrams, name coverage, the caller's filter) are computed only for documents that can
//! still rank.

mod candidates;
mod scan;
pub(super) mod score;

use super::{
    field::Field,
    index::{Index, LiveShard},
    query::{Expansion, MatchKind, Query, Term},
};
use candidates::{Candidate, Candidates};

/// Identifies a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DocumentId<'a> {
    /// The source.
    pub source: &'a str,
    /// The position within the source.
    pub position: usize,
}

/// A filter over documents.
pub type DocumentFilter<'a> = dyn Fn(DocumentId<'_>) -> bool + 'a;

/// A document in a search result.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchHit<'a> {
    /// The document.
    pub document: DocumentId<'a>,
    /// Its score; comparable only within one result.
    pub score: f32,
    /// Whether the query names it.
    pub named: NameMatch,
    /// The matched terms in query order.
    pub matches: Vec<TermMatch>,
}

/// Whether a query names a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NameMatch {
    /// It does not.
    None,
    /// The query contains its name, written as an identifier.
    Contained,
    /// The query is its name.
    Exact,
}

/// A query term that occurs in a document.
#[derive(Debug, Clone, PartialEq)]
pub struct TermMatch {
    /// The word in the query.
    pub word: String,
    /// The stemmed term in the document.
    pub term: String,
    /// How they matched.
    pub kind: MatchKind,
    /// The fields that the term occurs in.
    pub fields: Vec<Field>,
}

/// The best `limit` documents that `admit` accepts, best first.
pub(super) fn top_hits<'a>(
    index: &'a Index,
    query: &Query,
    admit: &DocumentFilter<'_>,
    limit: usize,
) -> Vec<SearchHit<'a>> {
    let mut candidates = Candidates::new(index, query, admit, limit);
    for (number, part) in index.shards.iter().enumerate() {
        scan::run(part, number, query, &mut candidates);
    }
    let hit = |(candidate, score): (Candidate, f32)| {
        let part = index.shards.get(candidate.part)?;
        let (source, position) = part.shard.document_id(candidate.document);
        let place = DocumentId { source, position };
        let matches = matches(part, query, &candidate);
        Some(SearchHit { document: place, score, named: candidate.name_match, matches })
    };
    candidates.best().into_iter().filter_map(hit).collect()
}

impl Index {
    /// The number of documents that `admit` accepts and that match any term.
    pub fn matching(&self, text: &str, admit: &DocumentFilter<'_>) -> usize {
        let query = Query::new(self, text);
        let expansions = || query.terms.iter().flat_map(|term| &term.expansions);
        let count = |(number, part): (usize, &LiveShard)| {
            let mut seen = vec![0_u64; (part.shard.len() as usize).div_ceil(64)];
            let names = query.names.iter().map(|name| &name.ids);
            for numbers in expansions().map(|expansion| &expansion.ids).chain(names) {
                let Some(Some(term)) = numbers.get(number) else { continue };
                for posting in part.shard.postings(*term) {
                    if let Some(bits) = seen.get_mut(posting.document as usize / 64) {
                        *bits |= 1 << (posting.document % 64);
                    }
                }
            }
            let counted = |document: u32| {
                let (source, position) = part.shard.document_id(document);
                part.has(document) && admit(DocumentId { source, position })
            };
            let set = |document: &u32| {
                let bits = seen.get(*document as usize / 64).copied().unwrap_or_default();
                bits >> (document % 64) & 1 != 0
            };
            (0..part.shard.len()).filter(set).filter(|document| counted(*document)).count()
        };
        self.shards.iter().enumerate().map(count).sum()
    }
}

fn matches(part: &LiveShard, query: &Query, candidate: &Candidate) -> Vec<TermMatch> {
    let best = |term: &Term| {
        let weight = |expansion: &Expansion| {
            let number = expansion.ids.get(candidate.part).copied().flatten()?;
            let impact = part.shard.impact(number, candidate.document)?;
            Some((expansion.weight * expansion.idf * impact.value(), impact))
        };
        let found =
            term.expansions.iter().filter_map(|expansion| Some((expansion, weight(expansion)?)));
        let (expansion, (_, impact)) = found.max_by(|(_, (a, _)), (_, (b, _))| a.total_cmp(b))?;
        Some(TermMatch {
            word: term.word.clone(),
            term: expansion.term.clone(),
            kind: expansion.kind,
            fields: impact.fields().collect(),
        })
    };
    let matched = |at: &usize| candidate.terms >> at & 1 != 0;
    let terms = query.terms.iter().enumerate().filter(|(at, _)| matched(at));
    terms.filter_map(|(_, term)| best(term)).collect()
}
