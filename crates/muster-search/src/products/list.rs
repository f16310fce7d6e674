//! The names of products.

use std::sync::OnceLock;

use crate::words::Words;

/// Names that mean the product in whatever case they are written.
const NAMES: &str = include_str!("names.txt");
/// Names that are English words. Those with a `+` are no things that something can be in, on or with.
const WORDS: &str = include_str!("words.txt");

/// The name of a product.
#[derive(Debug, Clone, Copy)]
pub(super) struct Name {
    pub(super) text: &'static str,
    pub(super) case: NameCase,
}

/// The case in which a name means the product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NameCase {
    /// Any.
    Any,
    /// With a capital letter that the start of a sentence does not explain.
    Capital,
    /// The same, or in lower case where it stands alone after a preposition.
    CapitalOrAlone,
}

/// A word of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Spelled {
    /// In lower case.
    pub(super) word: String,
    /// Whether it has a capital letter that the start of a sentence does not explain.
    pub(super) is_capital: bool,
    /// Whether a sign that ends a clause follows.
    pub(super) ends_clause: bool,
}

/// The words of a text.
pub(super) fn spelled(text: &str) -> impl Iterator<Item = Spelled> {
    let mut starts_sentence = true;
    text.split_whitespace().flat_map(move |chunk| {
        let parts = chunk.split(|sign: char| !sign.is_alphanumeric());
        let parts = parts.filter(|part| !part.is_empty());
        let mut words: Vec<Spelled> = parts
            .map(|part| {
                let capitals = part.chars().filter(|sign| sign.is_uppercase()).count();
                let is_capital = capitals > usize::from(starts_sentence);
                starts_sentence = false;
                Spelled { word: part.to_lowercase(), is_capital, ends_clause: false }
            })
            .collect();
        starts_sentence |= chunk.ends_with(['.', '!', '?', ':']);
        if let Some(last) = words.last_mut() {
            last.ends_clause = chunk.ends_with(['.', '!', '?', ':', ',', ';', ')']);
        }
        words
    })
}

/// All names, by their first words in lower case; of those with the same one, the longest first.
fn known() -> &'static [Name] {
    static KNOWN: OnceLock<Vec<Name>> = OnceLock::new();
    KNOWN.get_or_init(|| {
        let any = NAMES.lines().map(|text| Name { text, case: NameCase::Any });
        let words = WORDS.lines().map(|line| match line.strip_suffix('+') {
            Some(text) => Name { text, case: NameCase::CapitalOrAlone },
            None => Name { text: line, case: NameCase::Capital },
        });
        let mut known: Vec<Name> = any.chain(words).collect();
        known.sort_by(|a, b| {
            first(a.text).cmp(first(b.text)).then_with(|| b.text.len().cmp(&a.text.len()))
        });
        known
    })
}

/// The first word of a name, in lower case.
fn first(name: &str) -> impl Iterator<Item = char> {
    let from = name.chars().skip_while(|sign| !sign.is_alphanumeric());
    from.take_while(|sign| sign.is_alphanumeric()).flat_map(char::to_lowercase)
}

/// The names whose first word in lower case is this one, the longest first.
pub(super) fn beginning_with(word: &str) -> impl Iterator<Item = &'static Name> {
    let known = known();
    let start = known.partition_point(|name| first(name.text).lt(word.chars()));
    let from = known.get(start..).unwrap_or_default().iter();
    from.take_while(move |name| first(name.text).eq(word.chars()))
}

/// Whether a name is one word that is taken apart, such as `OneDrive`.
pub(super) fn is_compound(name: &str) -> bool {
    name.chars().all(char::is_alphanumeric) && Words::of(name).iter().nth(1).is_some()
}

/// Whether a word in lower case is the name of a product, and such a compound.
pub(super) fn is_known_compound(word: &str) -> bool {
    beginning_with(word).any(|name| is_compound(name.text))
}

#[cfg(test)]
mod tests {
    use super::{beginning_with, first, known, spelled};

    #[test]
    fn no_name_is_listed_twice() {
        let words = |text| spelled(text).map(|one| one.word).collect::<Vec<_>>();
        let mut all: Vec<_> = known().iter().map(|name| words(name.text)).collect();
        let count = all.len();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), count);
        assert!(count > 2_500, "{count}");
    }

    #[test]
    fn names_are_found_by_their_first_word() {
        for name in known() {
            let found: Vec<_> = beginning_with(&first(name.text).collect::<String>())
                .map(|found| found.text)
                .collect();
            assert!(found.contains(&name.text), "{name:?}");
        }
        assert_eq!(beginning_with("nosuchproduct").count(), 0);
    }
}
