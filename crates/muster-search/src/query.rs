//! Queries: tokenized, expanded and resolved against an index.

use std::collections::BTreeSet;

use super::{
    fuzzy,
    index::Index,
    shard::NAME_MARK,
    synonyms,
    tokenize::{self, Tokens},
};

/// The maximum number of terms in a query.
pub(super) const MAX_TERMS: usize = 64;
/// Longer queries are not expanded with related words: they are specific, and each term costs time.
const LONG_QUERY: usize = 12;
/// The maximum number of terms that are matched fuzzily.
const MAX_FUZZY_TERMS: usize = 8;
/// The bonus for two adjacent words, as a share of the smaller IDF.
const BIGRAM_BONUS: f32 = 0.5;

/// A parsed query.
#[derive(Debug)]
pub(super) struct Query {
    /// The terms in order, each once, without stop words.
    pub(super) terms: Vec<Term>,
    /// Adjacent terms.
    pub(super) bigrams: Vec<Bigram>,
    /// A bit set of the terms that form a bigram with their successor.
    adjacent: u64,
    /// Bit sets of the first and second terms of all other bigrams.
    distant: (u64, u64),
    /// Identifiers in the query, best first.
    pub(super) names: Vec<ExactName>,
}

/// A term of a query.
#[derive(Debug)]
pub(super) struct Term {
    /// The word as written, in lower case.
    pub(super) word: String,
    /// The index terms it is matched with; empty if there is none.
    pub(super) expansions: Vec<Expansion>,
    /// Its inverse document frequency.
    pub(super) idf: f32,
}

/// An index term that a query term is matched with.
#[derive(Debug)]
pub(super) struct Expansion {
    pub(super) term: String,
    pub(super) kind: MatchKind,
    /// The weight of the match, from 0 to 1.
    pub(super) weight: f32,
    pub(super) idf: f32,
    /// The term's ID in each shard.
    pub(super) ids: Vec<Option<u32>>,
}

/// How a query term matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MatchKind {
    /// By the same term.
    Exact,
    /// By a synonym or a related term.
    Synonym,
    /// As a prefix.
    Prefix,
    /// By a small edit distance.
    Fuzzy,
}

/// Two adjacent terms, by index.
#[derive(Debug)]
pub(super) struct Bigram {
    pub(super) first: usize,
    pub(super) second: usize,
    pub(super) bonus: f32,
}

/// An identifier in a query.
#[derive(Debug)]
pub(super) struct ExactName {
    /// Whether it is the whole query.
    pub(super) whole_query: bool,
    /// The ID of its name term in each shard.
    pub(super) ids: Vec<Option<u32>>,
}

impl Query {
    /// Parses a query.
    pub(super) fn new(index: &Index, text: &str) -> Self {
        let words = Tokens::of(text);
        let mut terms: Vec<(String, Term)> = Vec::new();
        let mut order = Vec::new();
        let mut fuzzy_terms = 0;
        let found = tokenize::terms(&words);
        let long = found.len() > LONG_QUERY;
        for (word, stem) in found {
            let known = terms.iter().position(|(term, _)| *term == stem);
            if known.is_none() && terms.len() < MAX_TERMS {
                order.push(terms.len());
                let term = Term::new(index, word, &stem, long, &mut fuzzy_terms);
                terms.push((stem.into_owned(), term));
            } else {
                order.extend(known);
            }
        }
        let terms: Vec<Term> = terms.into_iter().map(|(_, term)| term).collect();
        let bigrams = bigrams(&terms, &order);
        let (mut following, mut first, mut second) = (0, 0, 0);
        for bigram in &bigrams {
            if bigram.second == bigram.first + 1 {
                following |= 1 << bigram.first;
            } else {
                first |= 1 << bigram.first;
                second |= 1 << bigram.second;
            }
        }
        Self {
            terms,
            bigrams,
            adjacent: following,
            distant: (first, second),
            names: names(index, text),
        }
    }

    /// Whether a document with these terms may contain a bigram.
    pub(super) fn may_contain_bigram(&self, terms: u64) -> bool {
        let (first, second) = self.distant;
        terms & terms >> 1 & self.adjacent != 0 || terms & first != 0 && terms & second != 0
    }
}

impl Term {
    fn new(index: &Index, word: &str, stem: &str, long: bool, fuzzy_terms: &mut usize) -> Self {
        let mut expansions: Vec<Expansion> =
            Expansion::new(index, stem, MatchKind::Exact, 1.0).into_iter().collect();
        let skip_related = long && !expansions.is_empty();
        let wanted = synonyms::expansions(stem)
            .iter()
            .filter(|(_, weight)| !skip_related || *weight >= synonyms::SYNONYM_WEIGHT);
        for (synonym, weight) in wanted {
            expansions.extend(Expansion::new(index, synonym, MatchKind::Synonym, *weight));
        }
        if expansions.is_empty() && *fuzzy_terms < MAX_FUZZY_TERMS && fuzzy::is_eligible(stem) {
            *fuzzy_terms += 1;
            for (term, kind) in fuzzy::candidates(index, stem) {
                expansions.extend(Expansion::new(index, &term, kind, fuzzy::WEIGHT));
            }
        }
        let unknown = idf(index.len(), 0);
        let rarity = expansions.first().map_or(unknown, |expansion| expansion.idf);
        Self { word: word.to_owned(), expansions, idf: rarity }
    }

    /// The expansion to the term itself, if it is in the index.
    pub(super) fn exact(&self) -> Option<&Expansion> {
        self.expansions.first().filter(|expansion| expansion.kind == MatchKind::Exact)
    }
}

impl Expansion {
    fn new(index: &Index, term: &str, kind: MatchKind, weight: f32) -> Option<Self> {
        let numbers = ids(index, term);
        let mut frequency = 0;
        for (part, number) in index.shards.iter().zip(&numbers) {
            frequency += number.map_or(0, |number| part.frequency(number));
        }
        (frequency > 0).then(|| {
            let rarity = idf(index.len(), frequency);
            Self { term: term.to_owned(), kind, weight, idf: rarity, ids: numbers }
        })
    }
}

/// The inverse document frequency of a term that occurs in `frequency` of `documents`.
pub(super) fn idf(documents: usize, frequency: u32) -> f32 {
    let (all, with) = (documents as f32, frequency as f32);
    ((all - with + 0.5) / (with + 0.5)).ln_1p()
}

fn ids(index: &Index, term: &str) -> Vec<Option<u32>> {
    index.shards.iter().map(|part| part.shard.find(term)).collect()
}

fn bigrams(terms: &[Term], order: &[usize]) -> Vec<Bigram> {
    let neighbours: BTreeSet<(usize, usize)> =
        order.windows(2).filter_map(|bigram| Some((*bigram.first()?, *bigram.last()?))).collect();
    let rarity = |at: usize| terms.get(at).and_then(Term::exact).map(|expansion| expansion.idf);
    neighbours
        .into_iter()
        .filter_map(|(first, second)| {
            let bonus = BIGRAM_BONUS * rarity(first)?.min(rarity(second)?);
            Some(Bigram { first, second, bonus })
        })
        .collect()
}

fn names(index: &Index, text: &str) -> Vec<ExactName> {
    let name = |text: &str, alone: bool| {
        let normalized = tokenize::normalized_name(text);
        let numbers = ids(index, &format!("{NAME_MARK}{normalized}"));
        numbers
            .iter()
            .any(Option::is_some)
            .then_some(ExactName { whole_query: alone, ids: numbers })
    };
    let within = tokenize::identifiers(text).take(MAX_TERMS).filter_map(|word| name(word, false));
    name(text, true).into_iter().chain(within).collect()
}
