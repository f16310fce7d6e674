//! The documents that can still make it into an answer.

use std::{
    cmp::{Ordering, Reverse},
    collections::BinaryHeap,
};

use super::{Admit, NAME_COVERED, Named, Place};
use crate::ranking::{
    index::Index,
    query::{Pair, Query},
};

/// What one pass knows of a document.
#[derive(Debug, Clone)]
pub(super) struct Candidate {
    /// The number of its shard.
    pub(super) part: usize,
    pub(super) document: u32,
    pub(super) named: Named,
    /// What its words are worth.
    pub(super) base: f32,
    /// What those in its name tell.
    pub(super) in_name: f32,
    /// Which terms of the query it has, as bits.
    pub(super) terms: u64,
}

impl Candidate {
    /// Whether it has both words of a pair.
    pub(super) fn matches_both(&self, pair: &Pair) -> bool {
        self.terms >> pair.first & self.terms >> pair.second & 1 != 0
    }

    /// No less than what it can come to.
    fn bound(&self, query: &Query) -> f32 {
        let possible = query.pairs.iter().filter(|pair| self.matches_both(pair));
        let base = self.base + possible.map(|pair| pair.bonus).sum::<f32>();
        if self.in_name > 0.0 { base * (1.0 + NAME_COVERED) } else { base }
    }
}

/// The documents that can still make it into an answer.
pub(super) struct Candidates<'a> {
    index: &'a Index,
    admit: &'a Admit<'a>,
    limit: usize,
    /// The least that the best ones come to, each for a document that is let through.
    sure: BinaryHeap<Reverse<Key>>,
    waiting: Vec<Waiting>,
}

struct Waiting {
    bound: Key,
    /// Whether it is known that it is let through.
    admitted: bool,
    candidate: Candidate,
}

impl<'a> Candidates<'a> {
    pub(super) fn new(index: &'a Index, admit: &'a Admit<'a>, limit: usize) -> Self {
        Self { index, admit, limit, sure: BinaryHeap::new(), waiting: Vec::new() }
    }

    /// Keeps a document unless enough others are better for sure.
    pub(super) fn offer(&mut self, query: &Query, candidate: &Candidate) {
        let named = candidate.named;
        let bound = Key { named, score: candidate.bound(query) };
        let least = Key { named, score: candidate.base };
        if self.out_of_reach(&bound) {
            return;
        }
        let admitted = !self.out_of_reach(&least);
        if admitted {
            if !self.admits(candidate) {
                return;
            }
            self.sure.push(Reverse(least));
            if self.sure.len() > self.limit {
                self.sure.pop();
            }
        }
        self.waiting.push(Waiting { bound, admitted, candidate: candidate.clone() });
    }

    /// The best ones with what they come to, the best first.
    pub(super) fn best(
        mut self,
        mut score: impl FnMut(&Candidate) -> f32,
    ) -> Vec<(Candidate, f32)> {
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.retain(|waiting| !self.out_of_reach(&waiting.bound));
        waiting.sort_unstable_by(|a, b| b.bound.cmp(&a.bound));
        let mut best: BinaryHeap<Reverse<Ranked<'_>>> = BinaryHeap::new();
        for Waiting { bound, admitted, candidate } in waiting {
            let full = best.len() >= self.limit;
            if full && best.peek().is_some_and(|Reverse(last)| bound < last.key) {
                break;
            }
            if !admitted && !self.admits(&candidate) {
                continue;
            }
            let key = Key { named: candidate.named, score: score(&candidate) };
            let place = self.place(&candidate);
            best.push(Reverse(Ranked { key, place, candidate }));
            if best.len() > self.limit {
                best.pop();
            }
        }
        let ranked = best.into_sorted_vec().into_iter();
        ranked.map(|Reverse(ranked)| (ranked.candidate, ranked.key.score)).collect()
    }

    fn out_of_reach(&self, key: &Key) -> bool {
        let full = self.sure.len() >= self.limit;
        full && self.sure.peek().is_none_or(|Reverse(last)| key < last)
    }

    fn admits(&self, candidate: &Candidate) -> bool {
        (self.admit)(self.place(candidate))
    }

    fn place(&self, candidate: &Candidate) -> Place<'a> {
        let part = self.index.parts.get(candidate.part);
        let (source, position) =
            part.map(|part| part.shard.place(candidate.document)).unwrap_or_default();
        Place { source, position }
    }
}

/// What comes first: what is named, then what fits.
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

/// Greater is better; between equals the place decides, so that the order never depends on anything
/// else.
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
