//! A query, resolved against an index.

use std::collections::BTreeSet;

use super::{
    index::Index,
    repair,
    shard::WHOLE,
    synonyms,
    words::{self, Words},
};

/// The maximum number of words.
pub(super) const MOST_TERMS: usize = 64;
/// Longer queries are not extended by related words: they name things, and each word costs time.
const WORDY: usize = 12;
/// The maximum number of unknown words that are corrected.
const MOST_REPAIRS: usize = 8;
/// The weight of a pair of adjacent words, as a share of the more common one.
const SIDE_BY_SIDE: f32 = 0.5;

/// A query.
#[derive(Debug)]
pub(super) struct Query {
    /// Its words without stop words and repetitions, in order.
    pub(super) terms: Vec<Term>,
    /// Its pairs of adjacent words.
    pub(super) pairs: Vec<Pair>,
    /// The terms that form a pair with the next one, as bits.
    following: u64,
    /// The first and the second terms of all other pairs, as bits.
    apart: (u64, u64),
    /// Exact names in it, the most certain first.
    pub(super) names: Vec<Name>,
}

/// A word of a query.
#[derive(Debug)]
pub(super) struct Term {
    /// As written, in lower case.
    pub(super) word: String,
    /// The terms it matches; none if there is no similar term.
    pub(super) readings: Vec<Reading>,
    /// Its inverse document frequency.
    pub(super) rarity: f32,
}

/// A term that a word of a query matches.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) term: String,
    pub(super) how: How,
    /// The weight of the match, from 0 to 1.
    pub(super) share: f32,
    pub(super) rarity: f32,
    /// The number of the term in each shard.
    pub(super) numbers: Vec<Option<u32>>,
}

/// Why a word of a query matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// It is the same term.
    Same,
    /// It is a synonym or related word.
    Synonym,
    /// It is a prefix.
    Prefix,
    /// It is a correction.
    Spelling,
}

/// Two adjacent words, by their positions among the terms.
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) first: usize,
    pub(super) second: usize,
    pub(super) bonus: f32,
}

/// An exact name in a query.
#[derive(Debug)]
pub(super) struct Name {
    /// Whether the query is this name alone.
    pub(super) alone: bool,
    /// The number of the term in each shard.
    pub(super) numbers: Vec<Option<u32>>,
}

impl Query {
    /// Parses a query.
    pub(super) fn new(index: &Index, text: &str) -> Self {
        let words = Words::of(text);
        let mut terms: Vec<(String, Term)> = Vec::new();
        let mut order = Vec::new();
        let mut repairs = 0;
        let found = words::terms(&words);
        let wordy = found.len() > WORDY;
        for (word, stem) in found {
            let known = terms.iter().position(|(term, _)| *term == stem);
            if known.is_none() && terms.len() < MOST_TERMS {
                order.push(terms.len());
                let term = Term::new(index, word, &stem, wordy, &mut repairs);
                terms.push((stem.into_owned(), term));
            } else {
                order.extend(known);
            }
        }
        let terms: Vec<Term> = terms.into_iter().map(|(_, term)| term).collect();
        let pairs = pairs(&terms, &order);
        let (mut following, mut first, mut second) = (0, 0, 0);
        for pair in &pairs {
            if pair.second == pair.first + 1 {
                following |= 1 << pair.first;
            } else {
                first |= 1 << pair.first;
                second |= 1 << pair.second;
            }
        }
        Self { terms, pairs, following, apart: (first, second), names: names(index, text) }
    }

    /// The weight of all its words.
    pub(super) fn weight(&self) -> f32 {
        self.terms.iter().map(|term| term.rarity).sum::<f32>().max(f32::MIN_POSITIVE)
    }

    /// Whether a document with these terms may have both words of a pair.
    pub(super) fn may_pair(&self, terms: u64) -> bool {
        let (first, second) = self.apart;
        terms & terms >> 1 & self.following != 0 || terms & first != 0 && terms & second != 0
    }
}

impl Term {
    fn new(index: &Index, word: &str, stem: &str, wordy: bool, repairs: &mut usize) -> Self {
        let mut readings: Vec<Reading> =
            Reading::new(index, stem, How::Same, 1.0).into_iter().collect();
        let enough = wordy && !readings.is_empty();
        let wanted =
            synonyms::of(stem).iter().filter(|(_, share)| !enough || *share >= synonyms::SAME);
        for (synonym, share) in wanted {
            readings.extend(Reading::new(index, synonym, How::Synonym, *share));
        }
        if readings.is_empty() && *repairs < MOST_REPAIRS && repair::worth_trying(stem) {
            *repairs += 1;
            for (term, how) in repair::of(index, stem) {
                readings.extend(Reading::new(index, &term, how, repair::SHARE));
            }
        }
        let unheard = rarity(index.len(), 0);
        let rarity = readings.first().map_or(unheard, |reading| reading.rarity);
        Self { word: word.to_owned(), readings, rarity }
    }

    /// The exact match, if there is such a term.
    pub(super) fn same(&self) -> Option<&Reading> {
        self.readings.first().filter(|reading| reading.how == How::Same)
    }
}

impl Reading {
    fn new(index: &Index, term: &str, how: How, share: f32) -> Option<Self> {
        let numbers = numbers(index, term);
        let mut frequency = 0;
        for (part, number) in index.parts.iter().zip(&numbers) {
            frequency += number.map_or(0, |number| part.frequency(number));
        }
        (frequency > 0).then(|| {
            let rarity = rarity(index.len(), frequency);
            Self { term: term.to_owned(), how, share, rarity, numbers }
        })
    }
}

/// The inverse document frequency of a term in `frequency` of `documents`.
pub(super) fn rarity(documents: usize, frequency: u32) -> f32 {
    let (all, with) = (documents as f32, frequency as f32);
    ((all - with + 0.5) / (with + 0.5)).ln_1p()
}

/// The number of a term in each shard.
pub(super) fn numbers(index: &Index, term: &str) -> Vec<Option<u32>> {
    index.parts.iter().map(|part| part.shard.find(term)).collect()
}

fn pairs(terms: &[Term], order: &[usize]) -> Vec<Pair> {
    let neighbours: BTreeSet<(usize, usize)> =
        order.windows(2).filter_map(|pair| Some((*pair.first()?, *pair.last()?))).collect();
    let rarity = |at: usize| terms.get(at).and_then(Term::same).map(|reading| reading.rarity);
    neighbours
        .into_iter()
        .filter_map(|(first, second)| {
            let bonus = SIDE_BY_SIDE * rarity(first)?.min(rarity(second)?);
            Some(Pair { first, second, bonus })
        })
        .collect()
}

fn names(index: &Index, text: &str) -> Vec<Name> {
    let name = |text: &str, alone: bool| {
        let squeezed = words::squeezed(text);
        let numbers = numbers(index, &format!("{WHOLE}{squeezed}"));
        numbers.iter().any(Option::is_some).then_some(Name { alone, numbers })
    };
    let within = words::identifiers(text).take(MOST_TERMS).filter_map(|word| name(word, false));
    name(text, true).into_iter().chain(within).collect()
}
