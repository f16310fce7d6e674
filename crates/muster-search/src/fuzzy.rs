//! Fuzzy matching of query words that are not in the index.

use std::collections::BTreeSet;

use super::{index::Index, query::MatchKind};

/// The weight of a fuzzy match.
pub(super) const WEIGHT: f32 = 0.5;

/// Whether a word can be matched fuzzily: long enough, and not a number or a key.
pub(super) fn is_eligible(word: &str) -> bool {
    const MIN_LEN: usize = 5;
    word.chars().count() >= MIN_LEN && word.chars().all(char::is_alphabetic)
}

/// The terms with the prefix `word`; if there are none, those within a small edit distance.
pub(super) fn candidates(index: &Index, word: &str) -> Vec<(String, MatchKind)> {
    let longer = by_prefix(index, word);
    let (terms, how) = match longer.is_empty() {
        true => (by_spelling(index, word), MatchKind::Fuzzy),
        false => (longer, MatchKind::Prefix),
    };
    terms.into_iter().map(|term| (term.to_owned(), how)).collect()
}

fn by_prefix<'a>(index: &'a Index, word: &str) -> Vec<&'a str> {
    const MAX_TERMS: usize = 8;
    const MAX_SCANNED: usize = 256;
    let terms = index.shards.iter().map(|part| part.shard.terms());
    let found: BTreeSet<(usize, &str)> = terms
        .flat_map(|terms| terms.starting_with(word).take(MAX_SCANNED))
        .map(|term| (term.len(), term))
        .collect();
    found.into_iter().take(MAX_TERMS).map(|(_, term)| term).collect()
}

fn by_spelling<'a>(index: &'a Index, word: &str) -> Vec<&'a str> {
    const MAX_TERMS: usize = 4;
    const LONG_WORD: usize = 8;
    let length = word.chars().count();
    let edits = if length < LONG_WORD { 1 } else { 2 };
    // An edit of a non-ASCII word may change several bytes.
    let bytes = if word.is_ascii() { edits as usize } else { 4 * edits as usize };
    let terms = index.shards.iter().map(|part| part.shard.terms());
    let found: BTreeSet<(usize, &str)> = terms
        .flat_map(|terms| terms.with_similar_letters(word, edits))
        .filter(|term| term.len().abs_diff(word.len()) <= bytes)
        .map(|term| (strsim::osa_distance(word, term), term))
        .filter(|(distance, _)| *distance <= edits as usize)
        .collect();
    found.into_iter().take(MAX_TERMS).map(|(_, term)| term).collect()
}
