//! Shell patterns over whole names: `*`, `?`, `[a-z]`, `[^a-z]`, and `\` before a sign that is meant.
//!
//! No wildcard stands for `/`, so a star never has to be tried again once a later one was reached:
//! the time is bounded by the length of the pattern times the length of the name.

use std::str::Chars;

use memchr::memchr2_iter;
use thiserror::Error;

/// A pattern, read once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glob {
    parts: Vec<Part>,
    case: CaseSensitivity,
    /// The longest text of plain signs that every name must contain.
    needle: Vec<u8>,
}

/// Whether capital letters differ from small ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CaseSensitivity {
    /// They do.
    Sensitive,
    /// They do not.
    Insensitive,
}

/// The pattern cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("syntax error in pattern")]
pub struct InvalidGlob;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    /// Any text.
    Star,
    /// Any one sign.
    Any,
    /// This sign.
    Char(char),
    /// One of these, or one of all others.
    Class { inverted: bool, ranges: Vec<(char, char)> },
}

impl Glob {
    /// Reads a pattern.
    pub fn new(pattern: &str, case: CaseSensitivity) -> Result<Self, InvalidGlob> {
        let mut signs = pattern.chars();
        let mut parts = Vec::new();
        while let Some(sign) = signs.next() {
            parts.push(match sign {
                '*' if parts.last() == Some(&Part::Star) => continue,
                '*' => Part::Star,
                '?' => Part::Any,
                '\\' => Part::Char(case.of(signs.next().ok_or(InvalidGlob)?)),
                '[' => class(&mut signs, case)?,
                sign => Part::Char(case.of(sign)),
            });
        }
        let needle = needle(&parts);
        Ok(Self { parts, case, needle })
    }

    /// Whether the whole of `name` fits.
    pub fn matches(&self, name: &str) -> bool {
        self.may_match(name) && self.does_match(name)
    }

    /// Tells most names of a long list apart without going through the pattern.
    fn may_match(&self, name: &str) -> bool {
        let Some(&first) = self.needle.first() else { return true };
        // Letters of other alphabets may have plain ones as their small forms.
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

    fn does_match(&self, name: &str) -> bool {
        let mut parts = self.parts.as_slice();
        let mut text = name.chars();
        // Where to go on after a mismatch: behind the last star, which takes one sign more.
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
                    if after.next().is_some_and(|sign| part.takes(self.case.of(sign))) {
                        (parts, text) = (rest, after);
                        continue;
                    }
                }
                None if text.as_str().is_empty() => return true,
                None => (),
            }
            let Some((rest, mut from)) = retry.take() else { return false };
            if from.next().is_none_or(|sign| sign == '/') {
                return false;
            }
            (parts, text) = (rest, from.clone());
            retry = Some((rest, from));
        }
    }
}

fn needle(parts: &[Part]) -> Vec<u8> {
    let plain = |part: &Part| match part {
        Part::Char(sign) => u8::try_from(*sign).ok().filter(u8::is_ascii),
        Part::Star | Part::Any | Part::Class { .. } => None,
    };
    let runs = parts.split(|part| plain(part).is_none());
    let longest = runs.max_by_key(|run| run.len()).unwrap_or_default();
    longest.iter().filter_map(plain).collect()
}

impl Part {
    fn takes(&self, sign: char) -> bool {
        match self {
            Self::Star => false,
            Self::Any => sign != '/',
            Self::Char(wanted) => *wanted == sign,
            Self::Class { inverted, ranges } => {
                let inside = ranges.iter().any(|(low, high)| (*low..=*high).contains(&sign));
                sign != '/' && inside != *inverted
            }
        }
    }
}

impl CaseSensitivity {
    fn of(self, sign: char) -> char {
        match self {
            Self::Sensitive => sign,
            Self::Insensitive if sign.is_ascii() => sign.to_ascii_lowercase(),
            Self::Insensitive => sign.to_lowercase().next().unwrap_or(sign),
        }
    }
}

/// Reads a class behind its opening bracket.
fn class(signs: &mut Chars<'_>, case: CaseSensitivity) -> Result<Part, InvalidGlob> {
    let mut rest = signs.clone();
    let inverted = rest.next() == Some('^');
    if inverted {
        *signs = rest;
    }
    let mut ranges = Vec::new();
    loop {
        let mut rest = signs.clone();
        if rest.next() == Some(']') && !ranges.is_empty() {
            *signs = rest;
            return Ok(Part::Class { inverted, ranges });
        }
        let low = class_sign(signs)?;
        let mut rest = signs.clone();
        let high = if rest.next() == Some('-') {
            *signs = rest;
            class_sign(signs)?
        } else {
            low
        };
        ranges.push((case.of(low), case.of(high)));
    }
}

fn class_sign(signs: &mut Chars<'_>) -> Result<char, InvalidGlob> {
    match signs.next() {
        None | Some('-' | ']') => Err(InvalidGlob),
        Some('\\') => signs.next().ok_or(InvalidGlob),
        Some(sign) => Ok(sign),
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
    fn the_whole_name_has_to_fit() {
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
        // The Kelvin sign is a capital k.
        assert!(Glob::new("*ok*", CaseSensitivity::Insensitive).unwrap().matches("tO\u{212a}en"));
    }

    #[test]
    fn what_cannot_be_read() {
        for pattern in ["[", "[]", "[]a]", "[a", "[^]", "[a-", "[a-]", "[-a]", "a\\", "[\\"] {
            assert_eq!(
                Glob::new(pattern, CaseSensitivity::Sensitive),
                Err(InvalidGlob),
                "{pattern}"
            );
        }
    }

    #[test]
    fn many_stars_take_no_time() {
        let name = "a".repeat(5_000);
        let glob =
            Glob::new(&format!("{}b", "*a".repeat(200)), CaseSensitivity::Sensitive).unwrap();
        assert!(!glob.matches(&name));
    }

    proptest! {
        #[test]
        fn what_is_sorted_out_early_does_not_fit(pattern in "[aAbK*?_\u{212a}]{0,8}", name in "[aAbBkK_\u{212a}]{0,12}") {
            for case in [CaseSensitivity::Sensitive, CaseSensitivity::Insensitive] {
                let glob = Glob::new(&pattern, case).unwrap();
                prop_assert!(glob.may_match(&name) || !glob.does_match(&name));
            }
        }

        #[test]
        fn any_pattern_ends(pattern in ".{0,20}", name in ".{0,40}") {
            if let Ok(glob) = Glob::new(&pattern, CaseSensitivity::Insensitive) {
                let _ = glob.matches(&name);
            }
        }

        #[test]
        fn a_name_with_stars_put_in_fits_itself(name in "[a-z_]{1,20}", at in 0usize..20) {
            let at = at.min(name.len());
            let (head, tail) = name.split_at(at);
            let glob = Glob::new(&format!("{head}*{tail}"), CaseSensitivity::Sensitive).unwrap();
            prop_assert!(glob.matches(&name));
        }
    }
}
