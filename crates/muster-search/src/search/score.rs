//! The exact score of a document, which is expensive to compute.

use super::candidates::Candidate;
use crate::{
    index::{Index, Part},
    query::{Pair, Query, rarity},
};

/// The bonus, as a share of the score, if the query contains every word of the name.
pub(crate) const NAME_COVERED: f32 = 0.5;

/// The terms of a name that are sorted without an allocation.
const SHORT_NAME: usize = 16;

/// Scores documents, one by one.
pub(super) struct Scorer<'a> {
    index: &'a Index,
    query: &'a Query,
    /// Cached weights of terms in names, by shard and term.
    rarities: Vec<Vec<f32>>,
}

impl<'a> Scorer<'a> {
    pub(super) fn new(index: &'a Index, query: &'a Query) -> Self {
        Self { index, query, rarities: vec![Vec::new(); index.parts.len()] }
    }

    /// The score of a document.
    pub(super) fn score(&mut self, candidate: &Candidate) -> f32 {
        let Some(part) = self.index.parts.get(candidate.part) else { return 0.0 };
        let base = candidate.base + self.side_by_side(part, candidate);
        base * (1.0 + NAME_COVERED * self.name_covered(part, candidate))
    }

    /// An upper bound on the score of a document.
    pub(super) fn bound(&self, candidate: &Candidate) -> f32 {
        let base = candidate.base + self.possible(candidate).map(|pair| pair.bonus).sum::<f32>();
        if candidate.in_name > 0.0 { base * (1.0 + NAME_COVERED) } else { base }
    }

    /// The pairs whose words are both in a document.
    fn possible<'b>(&'b self, candidate: &'b Candidate) -> impl Iterator<Item = &'b Pair> {
        // The common case: most documents have one or two of the words.
        let pairs =
            if self.query.may_pair(candidate.terms) { self.query.pairs.as_slice() } else { &[] };
        let both =
            |pair: &&Pair| candidate.terms >> pair.first & candidate.terms >> pair.second & 1 != 0;
        pairs.iter().filter(both)
    }

    /// The bonus for adjacent words.
    fn side_by_side(&self, part: &Part, candidate: &Candidate) -> f32 {
        let words = part.shard.words(candidate.document);
        let stands = |pair: &&Pair| {
            let number =
                |at: usize| *self.query.terms.get(at)?.same()?.numbers.get(candidate.part)?;
            let (Some(first), Some(second)) = (number(pair.first), number(pair.second)) else {
                return false;
            };
            words.windows(2).any(|two| matches!(two, [a, b] if *a == first && *b == second))
        };
        self.possible(candidate).filter(stands).map(|pair| pair.bonus).sum()
    }

    /// The share of its name that the query contains, from 0 to 1.
    fn name_covered(&mut self, part: &Part, candidate: &Candidate) -> f32 {
        if candidate.in_name <= 0.0 {
            return 0.0;
        }
        let name = part.shard.name(candidate.document);
        let (mut short, mut long) = ([0; SHORT_NAME], Vec::new());
        let terms = match short.get_mut(..name.len()) {
            Some(terms) => {
                terms.copy_from_slice(name);
                terms
            }
            None => {
                long.extend_from_slice(name);
                long.as_mut_slice()
            }
        };
        terms.sort_unstable();
        let (mut whole, mut last) = (0.0_f32, None);
        for term in terms {
            // Each once.
            if last.replace(*term) != Some(*term) {
                whole += self.rarity(candidate.part, part, *term);
            }
        }
        (candidate.in_name / whole.max(f32::MIN_POSITIVE)).min(1.0)
    }

    fn rarity(&mut self, number: usize, part: &Part, term: u32) -> f32 {
        let Some(known) = self.rarities.get_mut(number) else { return 0.0 };
        if known.is_empty() {
            known.resize(part.shard.terms().len(), f32::NAN);
        }
        let Some(slot) = known.get_mut(term as usize) else { return 0.0 };
        if slot.is_nan() {
            let text = part.shard.terms().get(term).unwrap_or_default();
            let found = self.index.parts.iter();
            let found = found.filter_map(|part| Some(part.frequency(part.shard.find(text)?)));
            *slot = rarity(self.index.len(), found.sum());
        }
        *slot
    }
}
