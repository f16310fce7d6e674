//! The expensive parts of a document's score.

use super::candidates::Candidate;
use crate::{
    index::{Index, LiveShard},
    query::{Bigram, Query, idf},
};

/// The maximum gain by name coverage, as a share of the score.
pub(crate) const NAME_COVERED: f32 = 0.5;

/// Computes final scores.
pub(super) struct Scorer<'a> {
    index: &'a Index,
    query: &'a Query,
    /// A cache of IDFs by shard and term.
    idfs: Vec<Vec<f32>>,
}

impl<'a> Scorer<'a> {
    pub(super) fn new(index: &'a Index, query: &'a Query) -> Self {
        Self { index, query, idfs: vec![Vec::new(); index.shards.len()] }
    }

    /// The final score of a document.
    pub(super) fn score(&mut self, candidate: &Candidate) -> f32 {
        let Some(part) = self.index.shards.get(candidate.part) else { return 0.0 };
        let base = candidate.base + self.bigram_bonus(part, candidate);
        base * (1.0 + NAME_COVERED * self.name_covered(part, candidate))
    }

    /// An upper bound on the final score of a document.
    pub(super) fn bound(&self, candidate: &Candidate) -> f32 {
        let base =
            candidate.base + self.candidate_bigrams(candidate).map(|pair| pair.bonus).sum::<f32>();
        if candidate.in_name > 0.0 { base * (1.0 + NAME_COVERED) } else { base }
    }

    /// The bigrams whose terms both occur in a document.
    fn candidate_bigrams<'b>(
        &'b self,
        candidate: &'b Candidate,
    ) -> impl Iterator<Item = &'b Bigram> {
        // Most documents match one or two terms, so this pre-check decides most often.
        let pairs = if self.query.may_contain_bigram(candidate.terms) {
            self.query.bigrams.as_slice()
        } else {
            &[]
        };
        let both = |pair: &&Bigram| {
            candidate.terms >> pair.first & candidate.terms >> pair.second & 1 != 0
        };
        pairs.iter().filter(both)
    }

    /// The bonus for adjacent terms.
    fn bigram_bonus(&self, part: &LiveShard, candidate: &Candidate) -> f32 {
        let words = part.shard.words(candidate.document);
        let is_adjacent = |pair: &&Bigram| {
            let number = |at: usize| *self.query.terms.get(at)?.exact()?.ids.get(candidate.part)?;
            let (Some(first), Some(second)) = (number(pair.first), number(pair.second)) else {
                return false;
            };
            words.windows(2).any(|two| matches!(two, [a, b] if *a == first && *b == second))
        };
        self.candidate_bigrams(candidate).filter(is_adjacent).map(|pair| pair.bonus).sum()
    }

    /// The share of the name that the query covers, from 0 to 1.
    fn name_covered(&mut self, part: &LiveShard, candidate: &Candidate) -> f32 {
        if candidate.in_name <= 0.0 {
            return 0.0;
        }
        let mut terms: Vec<u32> = part.shard.name(candidate.document).to_vec();
        terms.sort_unstable();
        terms.dedup();
        let whole: f32 = terms.iter().map(|term| self.rarity(candidate.part, part, *term)).sum();
        (candidate.in_name / whole.max(f32::MIN_POSITIVE)).min(1.0)
    }

    fn rarity(&mut self, number: usize, part: &LiveShard, term: u32) -> f32 {
        let Some(known) = self.idfs.get_mut(number) else { return 0.0 };
        if known.is_empty() {
            known.resize(part.shard.terms().len(), f32::NAN);
        }
        let Some(slot) = known.get_mut(term as usize) else { return 0.0 };
        if slot.is_nan() {
            let text = part.shard.terms().get(term).unwrap_or_default();
            let found = self.index.shards.iter();
            let found = found.filter_map(|part| Some(part.frequency(part.shard.find(text)?)));
            *slot = idf(self.index.len(), found.sum());
        }
        *slot
    }
}
