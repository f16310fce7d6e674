//! Tokenization: words in lower case, stemmed, without stop words.
//!
//! **Invariant:** documents and queries are tokenized by the same functions.

use std::{borrow::Cow, collections::BTreeSet, sync::LazyLock};

use rust_stemmers::{Algorithm, Stemmer};

/// Longer tokens are data (keys, hashes, encoded files), not language.
const MAX_TOKEN_LEN: usize = 48;

/// The tokens of a text, in order.
#[derive(Debug, Default)]
pub(super) struct Tokens {
    text: String,
    ends: Vec<usize>,
}

impl Tokens {
    /// Tokenizes a text: identifiers are split, letters lowercased, verbs joined with their
    /// particles.
    ///
    /// Scripts without spaces give character bigrams.
    pub(super) fn of(text: &str) -> Self {
        let mut plain = Self::default();
        let mut previous = CharClass::Other;
        let mut chars = text.chars().peekable();
        while let Some(char) = chars.next() {
            let class = CharClass::of(char);
            let next = chars.peek().map_or(CharClass::Other, |char| CharClass::of(*char));
            if class == CharClass::Other || previous.begins_token(class, next) {
                plain.finish();
            }
            match class {
                CharClass::Other => (),
                CharClass::Unspaced => plain.push_unspaced(char, previous, next),
                CharClass::Upper | CharClass::Lower | CharClass::Digit => {
                    plain.text.extend(char.to_lowercase())
                }
            }
            previous = class;
        }
        plain.finish();
        plain.join_particles()
    }

    /// The tokens in order.
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

    /// Bigrams overlap, so each character is written twice, except an isolated one.
    fn push_unspaced(&mut self, char: char, previous: CharClass, next: CharClass) {
        if previous == CharClass::Unspaced {
            self.text.push(char);
            self.finish();
        }
        if next == CharClass::Unspaced || previous != CharClass::Unspaced {
            self.text.push(char);
        }
    }

    fn finish(&mut self) {
        let start = self.ends.last().copied().unwrap_or_default();
        match self.text.len() - start {
            0 => (),
            1..=MAX_TOKEN_LEN => self.ends.push(self.text.len()),
            _ => self.text.truncate(start),
        }
    }

    fn push(&mut self, word: &str) {
        self.text.push_str(word);
        self.finish();
    }

    /// Joins `log in` and `log me in` to `login`, as identifiers write it.
    fn join_particles(self) -> Self {
        let pair = |at: usize, other: usize| joined_verb(self.get(at)?, self.get(other)?);
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

/// The tokens with their stems, without stop words unless there are only stop words.
pub(super) fn terms(words: &Tokens) -> Vec<(&str, Cow<'_, str>)> {
    let significant: Vec<&str> = words.iter().filter(|word| !is_stop_word(word)).collect();
    let kept = if significant.is_empty() { words.iter().collect() } else { significant };
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
pub(super) fn normalized_name(name: &str) -> String {
    name.chars().filter(|char| char.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// The words in a query that are written as identifiers.
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

/// Whether a word is too frequent or too vague to distinguish tools.
pub(super) fn is_stop_word(word: &str) -> bool {
    STOP_WORD_SET.contains(word)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CharClass {
    Upper,
    Lower,
    Digit,
    /// A script that is written without spaces.
    Unspaced,
    Other,
}

impl CharClass {
    fn of(char: char) -> Self {
        match char {
            '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' => {
                Self::Unspaced
            }
            _ if char.is_uppercase() => Self::Upper,
            _ if char.is_numeric() => Self::Digit,
            _ if char.is_alphanumeric() => Self::Lower,
            _ => Self::Other,
        }
    }

    /// Whether a token begins at a character of class `class` after one of this class.
    fn begins_token(self, class: Self, next: Self) -> bool {
        match (self, class) {
            (Self::Lower | Self::Digit, Self::Upper) => true,
            (Self::Upper, Self::Upper) => next == Self::Lower,
            (Self::Unspaced, Self::Unspaced) => false,
            (Self::Unspaced, _) | (_, Self::Unspaced) => true,
            _ => false,
        }
    }
}

fn is_pronoun(word: &str) -> bool {
    matches!(word, "me" | "us" | "my" | "him" | "her" | "them" | "you" | "it")
}

/// Only imperative forms: `logging into` a site describes a state, not a request.
fn joined_verb(verb: &str, particle: &str) -> Option<&'static str> {
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

static STOP_WORD_SET: LazyLock<BTreeSet<&str>> =
    LazyLock::new(|| STOP_WORDS.split_whitespace().collect());

/// Grammatical words, and words of politeness and of requests.
const STOP_WORDS: &str = "
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
    use super::{Tokens, identifiers, normalized_name, terms};

    #[track_caller]
    fn check(text: &str, expect: &str) {
        assert_eq!(Tokens::of(text).iter().collect::<Vec<_>>().join(" "), expect);
    }

    #[test]
    fn identifiers_are_split() {
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
    fn unspaced_scripts_give_bigrams() {
        check("获取当前日期", "获取 取当 当前 前日 日期");
        check("第1页", "第 1 页");
        check("查询12306余票", "查询 12306 余票");
    }

    #[test]
    fn endings_and_stop_words_are_dropped() {
        let check = |text: &str, expect: &[&str]| {
            let words = Tokens::of(text);
            let terms: Vec<_> = terms(&words).into_iter().map(|(_, term)| term).collect();
            assert_eq!(terms, expect);
        };
        check("Could you list all the issues?", &["list", "issu"]);
        check("how are you", &["how", "are", "you"]);
        check("naïve café", &["naïve", "café"]);
        check("", &[]);
    }

    #[test]
    fn long_tokens_are_dropped() {
        check(&"x".repeat(49), "");
        check(&format!("a {} b", "x".repeat(500)), "a b");
    }

    #[test]
    fn identifiers_are_recognised_in_a_sentence() {
        let found: Vec<_> = identifiers("call `git_status`, thenRun or e.g. x").collect();
        assert_eq!(found, ["git_status", "thenRun", "e.g"]);
        assert_eq!(normalized_name("Git-Status_2"), "gitstatus2");
    }
}
