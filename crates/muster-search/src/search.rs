//! Lexical search.
//!
//! Postings are scored document by document in ranges that fit the CPU cache. Expensive criteria
//! (adjacent words, the share of the name in the query, visibility to the caller) are evaluated only for
//! documents that can still be among the results.

mod candidates;
mod scan;
pub(super) mod score;

use super::{
    document_set::DocumentSet,
    field::DocumentField,
    index::{Index, Part},
    query::{How, Query, Reading, Term},
    verdict::MatchStrength,
};
use candidates::{Candidate, Candidates};

/// The position of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place<'a> {
    /// Its source.
    pub source: &'a str,
    /// Its number in the source.
    pub position: usize,
}

/// Whether a document may be found.
pub type Admit<'a> = dyn Fn(Place<'_>) -> bool + 'a;

/// A result of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit<'a> {
    /// Its position.
    pub place: Place<'a>,
    /// Its score, comparable within one search only.
    pub score: f32,
    /// Whether the query names it.
    pub named: Named,
    /// How well it matches.
    pub strength: MatchStrength,
    /// The matching words, in the order of the query.
    pub matches: Vec<Match>,
}

/// Whether a query names a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Named {
    /// It does not.
    No,
    /// Its name is in the query, spelled as a name.
    Within,
    /// The query is its name.
    Alone,
}

/// A word of a query that is in a document.
#[derive(Debug, Clone, PartialEq)]
pub struct Match {
    /// The word of the query.
    pub word: String,
    /// The matching term, stemmed.
    pub term: String,
    /// Why it matches.
    pub how: How,
    /// The fields that contain it.
    pub fields: Vec<DocumentField>,
}

/// The best documents that `admit` accepts, at most `limit`, the best first; and all that contain a term of the query,
/// accepted or not.
pub(super) fn best<'a>(
    index: &'a Index,
    query: &Query,
    admit: &Admit<'_>,
    limit: usize,
) -> (Vec<Hit<'a>>, DocumentSet) {
    let mut candidates = Candidates::new(index, query, admit, limit);
    for (number, part) in index.searched() {
        scan::run(part, number, query, &mut candidates);
    }
    let hit = |(candidate, score): (Candidate, f32)| {
        let part = index.parts.get(candidate.part)?;
        let (source, position) = part.shard.place(candidate.document);
        let place = Place { source, position };
        let (matches, coverage) = matches(part, query, &candidate);
        let strength = MatchStrength::of_words(query, candidate.named, coverage);
        Some(Hit { place, score, named: candidate.named, strength, matches })
    };
    let (best, matching) = candidates.best();
    (best.into_iter().filter_map(hit).collect(), matching)
}

/// The words of the query in a document, and their share of the weight of all its words.
fn matches(part: &Part, query: &Query, candidate: &Candidate) -> (Vec<Match>, f32) {
    let best = |term: &Term| {
        let worth = |reading: &Reading| {
            let number = reading.numbers.get(candidate.part).copied().flatten()?;
            let impact = part.shard.impact(number, candidate.document)?;
            Some((reading.share * reading.rarity * impact.worth(), impact))
        };
        let found = term.readings.iter().filter_map(|reading| Some((reading, worth(reading)?)));
        let (reading, (_, impact)) = found.max_by(|(_, (a, _)), (_, (b, _))| a.total_cmp(b))?;
        let found = Match {
            word: term.word.clone(),
            term: reading.term.clone(),
            how: reading.how,
            fields: impact.fields().collect(),
        };
        Some((found, term.rarity * reading.share))
    };
    let matched = |at: &usize| candidate.terms >> at & 1 != 0;
    let terms = query.terms.iter().enumerate().filter(|(at, _)| matched(at));
    let (matches, weights): (Vec<Match>, Vec<f32>) =
        terms.filter_map(|(_, term)| best(term)).unzip();
    let coverage = weights.iter().sum::<f32>() / query.weight();
    (matches, coverage)
}
