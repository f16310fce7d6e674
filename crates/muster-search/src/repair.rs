//! Corrections of unknown words.

use std::collections::BTreeSet;

use super::{index::Index, query::How};

/// The weight of a correction.
pub(super) const SHARE: f32 = 0.5;

/// Whether a word can be corrected: long enough, and neither a number nor a key.
pub(super) fn worth_trying(word: &str) -> bool {
    const SHORTEST: usize = 5;
    word.chars().count() >= SHORTEST && word.chars().all(char::is_alphabetic)
}

/// The terms that start with `word`, or else those within a small edit distance.
pub(super) fn of(index: &Index, word: &str) -> Vec<(String, How)> {
    let longer = longer(index, word);
    let (terms, how) = match longer.is_empty() {
        true => (alike(index, word), How::Spelling),
        false => (longer, How::Prefix),
    };
    terms.into_iter().map(|term| (term.to_owned(), how)).collect()
}

fn longer<'a>(index: &'a Index, word: &str) -> Vec<&'a str> {
    const MOST: usize = 8;
    const LOOKED_AT: usize = 256;
    let terms = index.parts.iter().map(|part| part.shard.terms());
    let found: BTreeSet<(usize, &str)> = terms
        .flat_map(|terms| terms.starting_with(word).take(LOOKED_AT))
        .map(|term| (term.len(), term))
        .collect();
    found.into_iter().take(MOST).map(|(_, term)| term).collect()
}

fn alike<'a>(index: &'a Index, word: &str) -> Vec<&'a str> {
    const MOST: usize = 4;
    const LONG: usize = 8;
    let length = word.chars().count();
    let edits = if length < LONG { 1 } else { 2 };
    // Only outside of ASCII does one edit change more than one byte.
    let bytes = if word.is_ascii() { edits as usize } else { 4 * edits as usize };
    let terms = index.parts.iter().map(|part| part.shard.terms());
    let found: BTreeSet<(usize, &str)> = terms
        .flat_map(|terms| terms.resembling(word, edits))
        .filter(|term| term.len().abs_diff(word.len()) <= bytes)
        .map(|term| (strsim::osa_distance(word, term), term))
        .filter(|(distance, _)| *distance <= edits as usize)
        .collect();
    found.into_iter().take(MOST).map(|(_, term)| term).collect()
}
