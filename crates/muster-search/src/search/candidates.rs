//! The candidates of a search.

use std::{
    cmp::{Ordering, Reverse},
    collections::BinaryHeap,
};

use super::{Admit, Named, Place, score::Scorer};
use crate::{document_set::DocumentSet, index::Index, query::Query};

/// A document after the scan.
#[derive(Debug, Clone)]
pub(super) struct Candidate {
    /// The number of its shard.
    pub(super) part: usize,
    pub(super) document: u32,
    pub(super) named: Named,
    /// Its lexical score.
    pub(super) base: f32,
    /// The score of the words in its name.
    pub(super) in_name: f32,
    /// The terms of the query that it contains, as bits.
    pub(super) terms: u64,
}

/// The documents that may still be among the results.
pub(super) struct Candidates<'a> {
    index: &'a Index,
    admit: &'a Admit<'a>,
    limit: usize,
    scorer: Scorer<'a>,
    /// The best documents with known scores.
    best: BinaryHeap<Reverse<Ranked<'a>>>,
    /// Documents whose upper bound, but not whose score, may exceed the worst of the best.
    waiting: Vec<(Key, Candidate)>,
    /// All documents that were offered.
    matching: DocumentSet,
}

impl<'a> Candidates<'a> {
    pub(super) fn new(
        index: &'a Index,
        query: &'a Query,
        admit: &'a Admit<'a>,
        limit: usize,
    ) -> Self {
        let scorer = Scorer::new(index, query);
        let (best, waiting) = (BinaryHeap::new(), Vec::new());
        Self { index, admit, limit, scorer, best, waiting, matching: DocumentSet::of(index) }
    }

    /// Adds a document unless enough others are certainly better.
    pub(super) fn offer(&mut self, candidate: Candidate) {
        self.matching.insert(candidate.part, candidate.document);
        let named = candidate.named;
        let bound = Key { named, score: self.scorer.bound(&candidate) };
        if self.out_of_reach(bound) {
            return;
        }
        if self.out_of_reach(Key { named, score: candidate.base }) {
            self.waiting.push((bound, candidate));
        } else {
            self.judge(candidate);
        }
    }

    /// The best documents with their scores, the best first; and all that were offered.
    pub(super) fn best(mut self) -> (Vec<(Candidate, f32)>, DocumentSet) {
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.retain(|(bound, _)| !self.out_of_reach(*bound));
        waiting.sort_unstable_by_key(|(bound, _)| Reverse(*bound));
        for (bound, candidate) in waiting {
            if self.out_of_reach(bound) {
                break;
            }
            self.judge(candidate);
        }
        let ranked = self.best.into_sorted_vec().into_iter();
        let ranked = ranked.map(|Reverse(ranked)| (ranked.candidate, ranked.key.score));
        (ranked.collect(), self.matching)
    }

    /// Adds a document to the best if it is good enough and visible. Whether it is visible is asked last: that costs most,
    /// and thousands of documents may have the score of the worst of the best.
    fn judge(&mut self, candidate: Candidate) {
        let part = self.index.parts.get(candidate.part);
        let (source, position) =
            part.map(|part| part.shard.place(candidate.document)).unwrap_or_default();
        let place = Place { source, position };
        let key = Key { named: candidate.named, score: self.scorer.score(&candidate) };
        let ranked = Ranked { key, place, candidate };
        let is_full = self.best.len() >= self.limit;
        if is_full && self.best.peek().is_none_or(|Reverse(last)| ranked < *last) {
            return;
        }
        if !(self.admit)(place) {
            return;
        }
        self.best.push(Reverse(ranked));
        if self.best.len() > self.limit {
            self.best.pop();
        }
    }

    fn out_of_reach(&self, key: Key) -> bool {
        let full = self.best.len() >= self.limit;
        full && self.best.peek().is_none_or(|Reverse(last)| key < last.key)
    }
}

/// The rank of a document: exact names first, then scores.
#[derive(Debug, Clone, Copy)]
struct Key {
    named: Named,
    score: f32,
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        self.named.cmp(&other.named).then(self.score.total_cmp(&other.score))
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Key {}

/// Greater is better. Ties are broken by position, so that the order is deterministic.
struct Ranked<'a> {
    key: Key,
    place: Place<'a>,
    candidate: Candidate,
}

impl Ord for Ranked<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key.cmp(&other.key).then_with(|| other.place.cmp(&self.place))
    }
}

impl PartialOrd for Ranked<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ranked<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Ranked<'_> {}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use crate::{document::Document, index::Index, search::Place};

    #[test]
    fn documents_of_equal_scores_are_not_asked_for_one_by_one() {
        let document = || Document { name: "get_invoice", ..Document::default() };
        let documents: Vec<Document<'_>> = (0..1_000).map(|_| document()).collect();
        let index = Index::default().with("shop", &documents);
        let all = index.documents(&|_| true);
        let asked = Cell::new(0);
        let admit = |place: Place<'_>| {
            asked.set(asked.get() + 1);
            place.position != 3
        };
        let answer = index.search_words("invoice", &admit, Some(&all), 5);
        let positions: Vec<usize> = answer.hits.iter().map(|hit| hit.place.position).collect();
        assert_eq!(positions, [0, 1, 2, 4, 5], "ties are broken by position");
        assert!(asked.get() < 20, "asked {} times", asked.get());
    }
}
