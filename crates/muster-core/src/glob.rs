//! Shell patterns over whole names: `*`, `?`, `[a-z]`, `[^a-z]` and `\` escapes.
//!
//! No wildcard matches `/`. Matching backtracks to the last star only, so its time is bounded by
//! the length of the pattern times the length of the name.

use std::str::Chars;

use memchr::memchr2_iter;
use thiserror::Error;

/// A compiled glob pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glob {
    /// The pattern as it was written.
    text: Box<str>,
    parts: Vec<Part>,
    case: CaseSensitivity,
    /// The longest literal that every matching name contains, for a fast pre-check.
    needle: Vec<u8>,
}

/// Whether matching is case-sensitive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CaseSensitivity {
    /// Capital and small letters differ.
    Sensitive,
    /// Capital and small letters are equal.
    Insensitive,
}

/// The pattern has a syntax error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("syntax error in pattern")]
pub struct InvalidGlob;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    /// Any text without `/`.
    Star,
    /// Any character but `/`.
    Any,
    /// A literal character.
    Char(char),
    /// A character class.
    Class { inverted: bool, ranges: Vec<(char, char)> },
}

impl Glob {
    /// Compiles a pattern.
    pub fn new(pattern: &str, case: CaseSensitivity) -> Result<Self, InvalidGlob> {
        let mut chars = pattern.chars();
        let mut parts = Vec::new();
        while let Some(c) = chars.next() {
            parts.push(match c {
                '*' if parts.last() == Some(&Part::Star) => continue,
                '*' => Part::Star,
                '?' => Part::Any,
                '\\' => Part::Char(case.of(chars.next().ok_or(InvalidGlob)?)),
                '[' => class(&mut chars, case)?,
                c => Part::Char(case.of(c)),
            });
        }
        let needle = needle(&parts);
        Ok(Self { text: pattern.into(), parts, case, needle })
    }

    /// The pattern as it was written.
    pub const fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the whole of `name` matches.
    pub fn matches(&self, name: &str) -> bool {
        self.may_contain(name) && self.matches_parts(name)
    }

    /// A fast pre-check that rejects most names of a long list.
    fn may_contain(&self, name: &str) -> bool {
        let Some(&first) = self.needle.first() else { return true };
        // Non-ASCII letters may have ASCII lower-case forms.
        if !name.is_ascii() {
            return true;
        }
        let name = name.as_bytes();
        let is_here = |at| {
            let found = name.get(at..).and_then(|rest| rest.get(..self.needle.len()));
            found.is_some_and(|found| match self.case {
                CaseSensitivity::Sensitive => found == self.needle,
                CaseSensitivity::Insensitive => found.eq_ignore_ascii_case(&self.needle),
            })
        };
        match self.case {
            CaseSensitivity::Sensitive => memchr::memchr_iter(first, name).any(is_here),
            CaseSensitivity::Insensitive => {
                memchr2_iter(first, first.to_ascii_uppercase(), name).any(is_here)
            }
        }
    }

    fn matches_parts(&self, name: &str) -> bool {
        let mut parts = self.parts.as_slice();
        let mut text = name.chars();
        // Where to resume after a mismatch: after the last star, which then matches one more character.
        let mut retry: Option<(&[Part], Chars<'_>)> = None;
        loop {
            match parts.split_first() {
                Some((Part::Star, rest)) => {
                    retry = Some((rest, text.clone()));
                    parts = rest;
                    continue;
                }
                Some((part, rest)) => {
                    let mut after = text.clone();
                    if after.next().is_some_and(|c| part.takes(self.case.of(c))) {
                        (parts, text) = (rest, after);
                        continue;
                    }
                }
                None if text.as_str().is_empty() => return true,
                None => (),
            }
            let Some((rest, mut from)) = retry.take() else { return false };
            if from.next().is_none_or(|c| c == '/') {
                return false;
            }
            (parts, text) = (rest, from.clone());
            retry = Some((rest, from));
        }
    }
}

fn needle(parts: &[Part]) -> Vec<u8> {
    let plain = |part: &Part| match part {
        Part::Char(c) => u8::try_from(*c).ok().filter(u8::is_ascii),
        Part::Star | Part::Any | Part::Class { .. } => None,
    };
    let runs = parts.split(|part| plain(part).is_none());
    let longest = runs.max_by_key(|run| run.len()).unwrap_or_default();
    longest.iter().filter_map(plain).collect()
}

impl Part {
    fn takes(&self, c: char) -> bool {
        match self {
            Self::Star => false,
            Self::Any => c != '/',
            Self::Char(wanted) => *wanted == c,
            Self::Class { inverted, ranges } => {
                let inside = ranges.iter().any(|(low, high)| (*low..=*high).contains(&c));
                c != '/' && inside != *inverted
            }
        }
    }
}

impl CaseSensitivity {
    fn of(self, c: char) -> char {
        match self {
            Self::Sensitive => c,
            Self::Insensitive if c.is_ascii() => c.to_ascii_lowercase(),
            Self::Insensitive => c.to_lowercase().next().unwrap_or(c),
        }
    }
}

/// Parses a class after its opening bracket.
fn class(chars: &mut Chars<'_>, case: CaseSensitivity) -> Result<Part, InvalidGlob> {
    let mut rest = chars.clone();
    let inverted = rest.next() == Some('^');
    if inverted {
        *chars = rest;
    }
    let mut ranges = Vec::new();
    loop {
        let mut rest = chars.clone();
        if rest.next() == Some(']') && !ranges.is_empty() {
            *chars = rest;
            return Ok(Part::Class { inverted, ranges });
        }
        let low = class_char(chars)?;
        let mut rest = chars.clone();
        let high = if rest.next() == Some('-') {
            *chars = rest;
            class_char(chars)?
        } else {
            low
        };
        ranges.push((case.of(low), case.of(high)));
    }
}

fn class_char(chars: &mut Chars<'_>) -> Result<char, InvalidGlob> {
    match chars.next() {
        None | Some('-' | ']') => Err(InvalidGlob),
        Some('\\') => chars.next().ok_or(InvalidGlob),
        Some(c) => Ok(c),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{CaseSensitivity, Glob, InvalidGlob};

    #[track_caller]
    fn check(pattern: &str, name: &str, expect: bool) {
        assert_eq!(
            Glob::new(pattern, CaseSensitivity::Sensitive).unwrap().matches(name),
            expect,
            "{pattern} ~ {name}"
        );
    }

    #[test]
    fn the_whole_name_must_match() {
        check("", "", true);
        check("", "a", false);
        check("abc", "abc", true);
        check("abc", "abcd", false);
        check("*", "anything", true);
        check("*", "", true);
        check("core_*", "core_service_list", true);
        check("core_*", "x_core_list", false);
        check("*list*", "core_service_list_all", true);
        check("*_list", "core_service_list", true);
        check("*_list", "core_service_list_all", false);
        check("a*b*c", "a__b__b__c", true);
        check("a*b*c", "a__c__b", false);
        check("**", "x", true);
        check("a?c", "abc", true);
        check("a?c", "ac", false);
        check("a?", "aé", true);
    }

    #[test]
    fn classes_and_escapes() {
        check("[abc]x", "bx", true);
        check("[a-c]x", "dx", false);
        check("[^a-c]x", "dx", true);
        check("[^a-c]x", "ax", false);
        check("x[0-9][0-9]", "x42", true);
        check("a\\*b", "a*b", true);
        check("a\\*b", "axb", false);
        check("[\\]]", "]", true);
        check("[a\\-]", "-", true);
        check("Core*", "core_x", false);
    }

    #[test]
    fn wildcards_stop_at_slashes() {
        check("*", "a/b", false);
        check("a?b", "a/b", false);
        check("a[^x]b", "a/b", false);
        check("*/*", "a/b", true);
        check("*/*", "a/b/c", false);
        check("*[^a]*b", "xy/b", false);
    }

    #[test]
    fn case_may_be_ignored() {
        let glob = Glob::new("CORE_[L-M]*", CaseSensitivity::Insensitive).unwrap();
        assert!(glob.matches("core_list"));
        assert!(glob.matches("Core_Mist"));
        assert!(!glob.matches("core_get"));
        // The Kelvin sign is a capital `k`.
        assert!(Glob::new("*ok*", CaseSensitivity::Insensitive).unwrap().matches("tO\u{212a}en"));
    }

    #[test]
    fn invalid_patterns_are_rejected() {
        for pattern in ["[", "[]", "[]a]", "[a", "[^]", "[a-", "[a-]", "[-a]", "a\\", "[\\"] {
            assert_eq!(
                Glob::new(pattern, CaseSensitivity::Sensitive),
                Err(InvalidGlob),
                "{pattern}"
            );
        }
    }

    #[test]
    fn many_stars_match_in_linear_time() {
        let name = "a".repeat(5_000);
        let glob =
            Glob::new(&format!("{}b", "*a".repeat(200)), CaseSensitivity::Sensitive).unwrap();
        assert!(!glob.matches(&name));
    }

    proptest! {
        #[test]
        fn the_pre_check_rejects_no_match(pattern in "[aAbK*?_\u{212a}]{0,8}", name in "[aAbBkK_\u{212a}]{0,12}") {
            for case in [CaseSensitivity::Sensitive, CaseSensitivity::Insensitive] {
                let glob = Glob::new(&pattern, case).unwrap();
                prop_assert!(glob.may_contain(&name) || !glob.matches_parts(&name));
            }
        }

        #[test]
        fn matching_terminates(pattern in ".{0,20}", name in ".{0,40}") {
            if let Ok(glob) = Glob::new(&pattern, CaseSensitivity::Insensitive) {
                let _ = glob.matches(&name);
            }
        }

        #[test]
        fn a_name_matches_itself_with_a_star_inserted(name in "[a-z_]{1,20}", at in 0usize..20) {
            let at = at.min(name.len());
            let (head, tail) = name.split_at(at);
            let glob = Glob::new(&format!("{head}*{tail}"), CaseSensitivity::Sensitive).unwrap();
            prop_assert!(glob.matches(&name));
        }
    }
}
