//! Finding what fits a query best.
//!
//! Postings are added up document by document in ranges that fit the cache. What is dear to know of a
//! document (whether words stand side by side, how much of its name was asked for, whether the
//! caller may see it) is asked only of those that can still make it into the answer.

mod candidates;
mod scan;

use super::{
    field::Field,
    index::{Index, Part},
    query::{How, Pair, Query, Reading, Term, rarity},
};
use candidates::{Candidate, Candidates};

/// What a document gains when everything in its name was asked for, as a share of its score.
pub(super) const NAME_COVERED: f32 = 0.5;

/// Where a document is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place<'a> {
    /// Whose it is.
    pub source: &'a str,
    /// Which of theirs.
    pub position: usize,
}

/// Whether a document may be found.
pub type Admit<'a> = dyn Fn(Place<'_>) -> bool + 'a;

/// A document that fits.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit<'a> {
    /// Where it is.
    pub place: Place<'a>,
    /// How well it fits; only to be compared with others of the same search.
    pub score: f32,
    /// Whether the query names it.
    pub named: Named,
    /// Why it fits, in the order of the query.
    pub matches: Vec<Match>,
}

/// Whether a query names a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Named {
    /// It does not.
    No,
    /// Its name is in the query, written as only names are.
    Within,
    /// The query is its name.
    Alone,
}

/// A word of a query that is in a document.
#[derive(Debug, Clone, PartialEq)]
pub struct Match {
    /// The word as it was asked for.
    pub word: String,
    /// What is there, without its ending.
    pub term: String,
    /// How the one led to the other.
    pub how: How,
    /// Where it is.
    pub fields: Vec<Field>,
}

/// The `limit` documents among those that `admit` lets through that fit best, the best first.
pub(super) fn best<'a>(
    index: &'a Index,
    query: &Query,
    admit: &Admit<'_>,
    limit: usize,
) -> Vec<Hit<'a>> {
    let mut candidates = Candidates::new(index, admit, limit);
    for (number, part) in index.parts.iter().enumerate() {
        scan::run(part, number, query, &mut candidates);
    }
    let mut names = Names::new(index);
    let best = candidates.best(|candidate| {
        let Some(part) = index.parts.get(candidate.part) else { return 0.0 };
        let base = candidate.base + side_by_side(part, query, candidate);
        base * (1.0 + NAME_COVERED * names.covered(part, candidate))
    });
    let hit = |(candidate, score): (Candidate, f32)| {
        let part = index.parts.get(candidate.part)?;
        let (source, position) = part.shard.place(candidate.document);
        let place = Place { source, position };
        let matches = matches(part, query, &candidate);
        Some(Hit { place, score, named: candidate.named, matches })
    };
    best.into_iter().filter_map(hit).collect()
}

/// What a document gains from words that stand side by side.
fn side_by_side(part: &Part, query: &Query, candidate: &Candidate) -> f32 {
    let words = part.shard.words(candidate.document);
    let stands = |pair: &Pair| {
        let number = |at: usize| *query.terms.get(at)?.same()?.numbers.get(candidate.part)?;
        let (Some(first), Some(second)) = (number(pair.first), number(pair.second)) else {
            return false;
        };
        words.windows(2).any(|two| matches!(two, [a, b] if *a == first && *b == second))
    };
    let possible = query.pairs.iter().filter(|pair| candidate.matches_both(pair));
    possible.filter(|pair| stands(pair)).map(|pair| pair.bonus).sum()
}

/// How much the words of names tell.
struct Names<'a> {
    index: &'a Index,
    /// For each shard and term, once it was asked for.
    rarities: Vec<Vec<f32>>,
}

impl<'a> Names<'a> {
    fn new(index: &'a Index) -> Self {
        Self { index, rarities: vec![Vec::new(); index.parts.len()] }
    }

    /// Which share of what the name says was asked for, from 0 to 1.
    fn covered(&mut self, part: &Part, candidate: &Candidate) -> f32 {
        if candidate.in_name <= 0.0 {
            return 0.0;
        }
        let mut seen: Vec<u32> = part.shard.name(candidate.document).to_vec();
        seen.sort_unstable();
        seen.dedup();
        let whole: f32 = seen.iter().map(|term| self.rarity(candidate.part, part, *term)).sum();
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

fn matches(part: &Part, query: &Query, candidate: &Candidate) -> Vec<Match> {
    let best = |term: &Term| {
        let worth = |reading: &Reading| {
            let number = reading.numbers.get(candidate.part).copied().flatten()?;
            let impact = part.shard.impact(number, candidate.document)?;
            Some((reading.share * reading.rarity * impact.worth(), impact))
        };
        let found = term.readings.iter().filter_map(|reading| Some((reading, worth(reading)?)));
        let (reading, (_, impact)) = found.max_by(|(_, (a, _)), (_, (b, _))| a.total_cmp(b))?;
        Some(Match {
            word: term.word.clone(),
            term: reading.term.clone(),
            how: reading.how,
            fields: impact.fields().collect(),
        })
    };
    query.terms.iter().filter_map(best).collect()
}
