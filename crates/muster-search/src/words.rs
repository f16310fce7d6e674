//! The tokenizer: words in lower case, stemmed, without stop words.
//!
//! **Invariant:** documents and queries are tokenized by the same functions, so equal words are equal
//! terms.

use std::{borrow::Cow, collections::BTreeSet, sync::LazyLock};

use rust_stemmers::{Algorithm, Stemmer};

/// Longer words are data (keys, hashes, encoded files), not language.
const LONGEST: usize = 48;

/// The words of a text, in order.
#[derive(Debug, Default)]
pub(super) struct Words {
    text: String,
    ends: Vec<usize>,
}

impl Words {
    /// The words of `text`: identifiers split, lower case, verbs joined with their particles.
    ///
    /// Scripts without spaces give bigrams.
    pub(super) fn of(text: &str) -> Self {
        let mut plain = Self::default();
        let mut previous = Kind::Other;
        let mut chars = text.chars().peekable();
        while let Some(char) = chars.next() {
            let kind = Kind::of(char);
            let next = chars.peek().map_or(Kind::Other, |char| Kind::of(*char));
            if kind == Kind::Other || previous.parts(kind, next) {
                plain.finish();
            }
            match kind {
                Kind::Other => (),
                Kind::Dense => plain.push_dense(char, previous, next),
                Kind::Upper | Kind::Lower | Kind::Digit => plain.text.extend(char.to_lowercase()),
            }
            previous = kind;
        }
        plain.finish();
        plain.joined()
    }

    /// The words.
    pub(super) fn iter(&self) -> impl Iterator<Item = &str> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).filter_map(|(start, end)| self.text.get(start..*end))
    }

    fn get(&self, at: usize) -> Option<&str> {
        let start = match at.checked_sub(1) {
            Some(before) => *self.ends.get(before)?,
            None => 0,
        };
        self.text.get(start..*self.ends.get(at)?)
    }

    /// Bigrams overlap, so each character is written twice, except a single one.
    fn push_dense(&mut self, char: char, previous: Kind, next: Kind) {
        if previous == Kind::Dense {
            self.text.push(char);
            self.finish();
        }
        if next == Kind::Dense || previous != Kind::Dense {
            self.text.push(char);
        }
    }

    fn finish(&mut self) {
        let start = self.ends.last().copied().unwrap_or_default();
        match self.text.len() - start {
            0 => (),
            1..=LONGEST => self.ends.push(self.text.len()),
            _ => self.text.truncate(start),
        }
    }

    fn push(&mut self, word: &str) {
        self.text.push_str(word);
        self.finish();
    }

    /// `log in` and `log me in` become `login`, as identifiers have it.
    fn joined(self) -> Self {
        let pair = |at: usize, other: usize| join(self.get(at)?, self.get(other)?);
        if !(0..self.ends.len()).any(|at| pair(at, at + 1).is_some() || pair(at, at + 2).is_some())
        {
            return self;
        }
        let mut joined = Self::default();
        let mut at = 0;
        while let Some(word) = self.get(at) {
            let pronoun = self.get(at + 1).is_some_and(is_pronoun);
            let (word, used) = match (pair(at, at + 1), pair(at, at + 2)) {
                (Some(whole), _) => (whole, 2),
                (None, Some(whole)) if pronoun => (whole, 3),
                (None, _) => (word, 1),
            };
            joined.push(word);
            at += used;
        }
        joined
    }
}

/// The terms of a text without stop words; all of them if there are only stop words.
pub(super) fn terms(words: &Words) -> Vec<(&str, Cow<'_, str>)> {
    let telling: Vec<&str> = words.iter().filter(|word| !says_nothing(word)).collect();
    let kept = if telling.is_empty() { words.iter().collect() } else { telling };
    kept.into_iter().map(|word| (word, stem(word))).collect()
}

/// The stem of a word. Only ASCII words are stemmed.
pub(super) fn stem(word: &str) -> Cow<'_, str> {
    static STEMMER: LazyLock<Stemmer> = LazyLock::new(|| Stemmer::create(Algorithm::English));
    if word.bytes().all(|byte| byte.is_ascii_lowercase()) {
        STEMMER.stem(word)
    } else {
        Cow::Borrowed(word)
    }
}

/// A name without case and separators.
pub(super) fn squeezed(name: &str) -> String {
    name.chars().filter(|char| char.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// Whether a description only repeats the name, as some do where a description is required.
pub(super) fn repeats_name(description: &str, name: &str) -> bool {
    // Separators at most double the length; longer descriptions, which are most, are not compared.
    description.len() <= 2 * name.len() + 2 && squeezed(description) == squeezed(name)
}

/// The words of a query that look like names of tools.
pub(super) fn identifiers(query: &str) -> impl Iterator<Item = &str> {
    query
        .split(|char: char| char.is_whitespace() || "\"'`(),;?!".contains(char))
        .map(|word| word.trim_matches(|char: char| !char.is_alphanumeric()))
        .filter(|word| {
            let inner = word.chars().skip(1).any(|char| "_-./:".contains(char));
            let camel = word.chars().zip(word.chars().skip(1));
            inner || camel.into_iter().any(|(a, b)| a.is_lowercase() && b.is_uppercase())
        })
}

/// Whether a word is a stop word.
pub(super) fn says_nothing(word: &str) -> bool {
    SAYS_NOTHING.contains(word)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Upper,
    Lower,
    Digit,
    /// Of a script without spaces.
    Dense,
    Other,
}

impl Kind {
    fn of(char: char) -> Self {
        match char {
            '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' => {
                Self::Dense
            }
            _ if char.is_uppercase() => Self::Upper,
            _ if char.is_numeric() => Self::Digit,
            _ if char.is_alphanumeric() => Self::Lower,
            _ => Self::Other,
        }
    }

    /// Whether a new word starts at a character of `kind` after one of this kind.
    fn parts(self, kind: Self, next: Self) -> bool {
        match (self, kind) {
            (Self::Lower | Self::Digit, Self::Upper) => true,
            (Self::Upper, Self::Upper) => next == Self::Lower,
            (Self::Dense, Self::Dense) => false,
            (Self::Dense, _) | (_, Self::Dense) => true,
            _ => false,
        }
    }
}

fn is_pronoun(word: &str) -> bool {
    matches!(word, "me" | "us" | "my" | "him" | "her" | "them" | "you" | "it")
}

/// Joins imperatives only: `logging into` a site describes a state, usually that of another user.
fn join(verb: &str, particle: &str) -> Option<&'static str> {
    let joined = match (verb, particle) {
        ("log" | "logs" | "sign" | "signs", "in" | "into" | "on") => "login",
        ("log" | "logs" | "sign" | "signs", "out" | "off") => "logout",
        ("sign" | "signs", "up") => "signup",
        ("look" | "looks", "up") => "lookup",
        ("set" | "sets", "up") => "setup",
        ("back" | "backs", "up") => "backup",
        ("clean" | "cleans", "up") => "cleanup",
        ("check" | "checks", "out") => "checkout",
        ("check" | "checks", "in") => "checkin",
        ("shut" | "shuts", "down") => "shutdown",
        ("roll" | "rolls", "back") => "rollback",
        _ => return None,
    };
    Some(joined)
}

static SAYS_NOTHING: LazyLock<BTreeSet<&str>> =
    LazyLock::new(|| EMPTY_WORDS.split_whitespace().collect());

/// Stop words: of grammar, politeness and requests.
const EMPTY_WORDS: &str = "
    a able about actually again all also although am an and another any anything are aren as
    assist at basically be because been being both by can cannot certain could couldn curious
    currently d dear did didn do does doesn doing don done each eg either etc every few for from
    getting give given gives going gonna got had handle has have having he hello help helps her
    here hey hi him his hope hoping how however i id ie if im in interested into is isn it its
    itself ive just kindly know let lets like ll looking lot lots love m make many may maybe me
    might mine more most much must my myself need needed needs no nor not now of ok okay on one
    onto or other our ours out over own per perhaps please possible possibly provide provided
    provides re really s same shall she should shouldn so some somehow someone something such
    sure t tell than thank thanks that the their theirs them then there these they this those
    though to too try trying under up us use used using ve very via wanna want wanted wants was
    wasn we were weren what when where which while who whom whose why will with without won
    wonder wondering would wouldn yes you your yours
";

#[cfg(test)]
mod tests {
    use super::{Words, identifiers, squeezed, terms};

    #[track_caller]
    fn check(text: &str, expect: &str) {
        assert_eq!(Words::of(text).iter().collect::<Vec<_>>().join(" "), expect);
    }

    #[test]
    fn identifiers_are_taken_apart() {
        check("getHTTPResponse_by-id", "get http response by id");
        check("github.create_issue", "github create issue");
        check("k8s S3Bucket v2", "k8s s3 bucket v2");
        check("I'm Bob’s", "i m bob s");
    }

    #[test]
    fn verbs_are_joined_with_their_particles() {
        check("Please log me in", "please login");
        check("look up a word, then shut down", "lookup a word then shutdown");
        check("log the error in detail", "log the error in detail");
    }

    #[test]
    fn scripts_without_blanks_give_pairs() {
        check("获取当前日期", "获取 取当 当前 前日 日期");
        check("第1页", "第 1 页");
        check("查询12306余票", "查询 12306 余票");
    }

    #[test]
    fn endings_and_empty_words_are_dropped() {
        let check = |text: &str, expect: &[&str]| {
            let words = Words::of(text);
            let terms: Vec<_> = terms(&words).into_iter().map(|(_, term)| term).collect();
            assert_eq!(terms, expect);
        };
        check("Could you list all the issues?", &["list", "issu"]);
        check("how are you", &["how", "are", "you"]);
        check("naïve café", &["naïve", "café"]);
        check("", &[]);
    }

    #[test]
    fn data_is_not_language() {
        check(&"x".repeat(49), "");
        check(&format!("a {} b", "x".repeat(500)), "a b");
    }

    #[test]
    fn names_are_recognised_in_a_sentence() {
        let found: Vec<_> = identifiers("call `git_status`, thenRun or e.g. x").collect();
        assert_eq!(found, ["git_status", "thenRun", "e.g"]);
        assert_eq!(squeezed("Git-Status_2"), "gitstatus2");
    }
}
