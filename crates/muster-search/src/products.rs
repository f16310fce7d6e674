//! Products that a query names and that are not here.
//!
//! Nearness cannot tell that a catalog has nothing for Jira if it has GitHub, whose tools read much the same. Names can: a
//! known name that no visible tool mentions is an answer by itself.

use std::{collections::BTreeMap, sync::OnceLock};

use super::{
    index::Index,
    query::numbers,
    search::Admit,
    verdict::is_seen,
    words::{self, Words},
};

/// Names that mean the product in whatever case they are written.
const NAMES: &str = include_str!("products/names.txt");
/// Names that are English words: only capitalised, and not at the start of a sentence, do they mean the product.
const WORDS: &str = include_str!("products/words.txt");
/// The most products that are named, and the most words of a query that are looked at.
const MOST: usize = 3;
const MOST_WORDS: usize = 128;

/// A name, and whether it is an English word.
type Named = (&'static str, bool);

/// The names by their first word in lower case, the longest first.
fn known() -> &'static BTreeMap<String, Vec<Named>> {
    static KNOWN: OnceLock<BTreeMap<String, Vec<Named>>> = OnceLock::new();
    KNOWN.get_or_init(|| {
        let mut known: BTreeMap<String, Vec<Named>> = BTreeMap::new();
        for (list, is_word) in [(NAMES, false), (WORDS, true)] {
            for name in list.lines().map(str::trim).filter(|name| !name.is_empty()) {
                if let Some((first, _)) = spelled(name).next() {
                    known.entry(first).or_default().push((name, is_word));
                }
            }
        }
        for names in known.values_mut() {
            names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        }
        known
    })
}

/// The products that a query names and no visible document mentions.
pub(super) fn absent(index: &Index, query: &str, admit: &Admit<'_>) -> Vec<&'static str> {
    let words: Vec<(String, bool)> = spelled(query).take(MOST_WORDS).collect();
    let mut found: Vec<&'static str> = Vec::new();
    let mut at = 0;
    while let Some((word, is_capital)) = words.get(at) {
        let here = |(name, is_word): &&Named| {
            let mut rest = words.iter().skip(at);
            (!is_word || *is_capital)
                && spelled(name).all(|(part, _)| rest.next().is_some_and(|(word, _)| *word == part))
        };
        let named = known().get(word).and_then(|names| names.iter().find(here));
        if let Some((name, _)) = named {
            if found.len() < MOST && !found.contains(name) && !is_mentioned(index, name, admit) {
                found.push(name);
            }
            at += spelled(name).count();
        } else {
            at += 1;
        }
    }
    found
}

/// The words of a text in lower case, and whether each has a capital letter that the start of a sentence does not explain.
fn spelled(text: &str) -> impl Iterator<Item = (String, bool)> {
    let mut starts_sentence = true;
    text.split_whitespace().flat_map(move |chunk| {
        let parts = chunk.split(|sign: char| !sign.is_alphanumeric());
        let parts: Vec<&str> = parts.filter(|part| !part.is_empty()).collect();
        let words: Vec<(String, bool)> = parts
            .iter()
            .map(|part| {
                let capitals = part.chars().filter(|sign| sign.is_uppercase()).count();
                let is_capital = capitals > usize::from(starts_sentence);
                starts_sentence = false;
                (part.to_lowercase(), is_capital)
            })
            .collect();
        starts_sentence |= chunk.ends_with(['.', '!', '?', ':']);
        words
    })
}

/// Whether a visible document has all words of a name.
fn is_mentioned(index: &Index, name: &str, admit: &Admit<'_>) -> bool {
    // Descriptions write it in one of these ways, which are taken apart differently.
    let squeezed: String = name.to_lowercase().split_whitespace().collect();
    [name.to_owned(), name.to_lowercase(), squeezed].iter().any(|name| {
        let words = Words::of(name);
        let terms = words::terms(&words);
        !terms.is_empty()
            && terms.iter().all(|(_, stem)| is_seen(index, &numbers(index, stem), admit))
    })
}

#[cfg(test)]
mod tests {
    use super::{absent, known};
    use crate::{document::Document, index::Index};

    fn named(query: &str) -> Vec<&'static str> {
        let tool = |name, description| Document { name, description, ..Document::default() };
        let index = Index::default().with(
            "hub",
            &[
                tool("create_issue", "Creates an issue in a GitHub repository"),
                tool("list_events", "Lists the events of a Google calendar"),
            ],
        );
        absent(&index, query, &|_| true)
    }

    #[test]
    fn products_that_are_not_here_are_named() {
        assert_eq!(named("create a jira ticket"), ["Jira"]);
        assert_eq!(named("Copy the GitHub issue to Trello and Asana"), ["Trello", "Asana"]);
        assert_eq!(named("add a row in google sheets"), ["Google Sheets"]);
        assert_eq!(named("what is on my google calendar"), [""; 0]);
        assert_eq!(named("open an issue on github"), [""; 0]);
    }

    #[test]
    fn english_words_are_products_only_with_a_capital() {
        assert_eq!(named("a linear regression on monday"), [""; 0]);
        assert_eq!(named("Linear regression. Box plots"), [""; 0]);
        assert_eq!(named("create the issue in Linear"), ["Linear"]);
    }

    #[test]
    fn no_name_is_listed_twice() {
        let mut all: Vec<&str> = known().values().flatten().map(|(name, _)| *name).collect();
        let count = all.len();
        all.sort_by_key(|name| name.to_lowercase());
        all.dedup_by_key(|name| name.to_lowercase());
        assert_eq!(all.len(), count);
        assert!(count > 500, "{count}");
    }
}
