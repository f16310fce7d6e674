//! The candidates of a search.

use std::{
    cmp::{Ordering, Reverse},
    collections::BinaryHeap,
};

use super::{DocumentFilter, DocumentId, NameMatch, score::Scorer};
use crate::{index::Index, query::Query};

/// The partial score of a document.
#[derive(Debug, Clone)]
pub(super) struct Candidate {
    /// The index of its shard.
    pub(super) part: usize,
    pub(super) document: u32,
    pub(super) name_match: NameMatch,
    /// The score of its matched terms.
    pub(super) base: f32,
    /// The IDF sum of the matched terms in its name.
    pub(super) in_name: f32,
    /// A bit set of the matched query terms.
    pub(super) terms: u64,
}

/// A bounded heap of the best documents.
pub(super) struct Candidates<'a> {
    index: &'a Index,
    admit: &'a DocumentFilter<'a>,
    limit: usize,
    scorer: Scorer<'a>,
    /// The best documents with a final score.
    best: BinaryHeap<Reverse<RankedCandidate<'a>>>,
    /// Documents that rank only if their final score is near its upper bound.
    deferred: Vec<(RankKey, Candidate)>,
}

impl<'a> Candidates<'a> {
    pub(super) fn new(
        index: &'a Index,
        query: &'a Query,
        admit: &'a DocumentFilter<'a>,
        limit: usize,
    ) -> Self {
        let scorer = Scorer::new(index, query);
        Self { index, admit, limit, scorer, best: BinaryHeap::new(), deferred: Vec::new() }
    }

    /// Adds a document unless it cannot rank.
    pub(super) fn offer(&mut self, candidate: Candidate) {
        let named = candidate.name_match;
        let bound = RankKey { named, score: self.scorer.bound(&candidate) };
        if self.cannot_rank(bound) {
            return;
        }
        if self.cannot_rank(RankKey { named, score: candidate.base }) {
            self.deferred.push((bound, candidate));
        } else {
            self.insert(candidate);
        }
    }

    /// The best documents with their scores, best first.
    pub(super) fn best(mut self) -> Vec<(Candidate, f32)> {
        let mut waiting = std::mem::take(&mut self.deferred);
        waiting.retain(|(bound, _)| !self.cannot_rank(*bound));
        waiting.sort_unstable_by_key(|(bound, _)| Reverse(*bound));
        for (bound, candidate) in waiting {
            if self.cannot_rank(bound) {
                break;
            }
            self.insert(candidate);
        }
        let ranked = self.best.into_sorted_vec().into_iter();
        ranked.map(|Reverse(ranked)| (ranked.candidate, ranked.key.score)).collect()
    }

    /// Scores a document and adds it, if the filter accepts it.
    fn insert(&mut self, candidate: Candidate) {
        let part = self.index.shards.get(candidate.part);
        let (source, position) =
            part.map(|part| part.shard.document_id(candidate.document)).unwrap_or_default();
        let place = DocumentId { source, position };
        if !(self.admit)(place) {
            return;
        }
        let key = RankKey { named: candidate.name_match, score: self.scorer.score(&candidate) };
        self.best.push(Reverse(RankedCandidate { key, place, candidate }));
        if self.best.len() > self.limit {
            self.best.pop();
        }
    }

    fn cannot_rank(&self, key: RankKey) -> bool {
        let full = self.best.len() >= self.limit;
        full && self.best.peek().is_none_or(|Reverse(last)| key < last.key)
    }
}

/// The rank: named documents first, then by score.
#[derive(Debug, Clone, Copy)]
struct RankKey {
    named: NameMatch,
    score: f32,
}

impl Ord for RankKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.named.cmp(&other.named).then(self.score.total_cmp(&other.score))
    }
}

impl PartialOrd for RankKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for RankKey {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for RankKey {}

/// Greater is better. Ties are broken by the document, so that the order is deterministic.
struct RankedCandidate<'a> {
    key: RankKey,
    place: DocumentId<'a>,
    candidate: Candidate,
}

impl Ord for RankedCandidate<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key.cmp(&other.key).then_with(|| other.place.cmp(&self.place))
    }
}

impl PartialOrd for RankedCandidate<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for RankedCandidate<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for RankedCandidate<'_> {}
