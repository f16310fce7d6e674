//! Python regular expressions, matched against the whole text.
//!
//! Policies limit what agents may do, so a pattern must mean exactly what it means in CLImax, and
//! no input may keep it busy for long.

mod flags;
mod piece;
mod set;
mod token;
mod translate;

use std::sync::{Arc, OnceLock};

use fancy_regex::{Regex, RegexBuilder};
use thiserror::Error;

use crate::policy::pattern::{flags::Flags, set::NEVER};

/// The backtracking limit of a match.
const MAX_BACKTRACKS: usize = 200_000;
/// The longest text, in bytes, for a pattern that backtracks.
const MAX_BACKTRACKING_TEXT: usize = 32 * 1024;
/// The most instructions of a compiled pattern.
const MAX_PROGRAM: usize = 100_000;
/// The size limit, in bytes, of a pattern that does not backtrack.
const MAX_AUTOMATON: usize = 10 * 1024 * 1024;
/// The size limit, in bytes, of each part of a pattern that backtracks.
const MAX_DELEGATE: usize = 64 * 1024 * 1024;

/// A compiled pattern.
///
/// Compiled at the first match; clones share the result.
#[derive(Debug, Clone)]
pub struct Pattern {
    source: Arc<str>,
    compiled: Arc<Compiled>,
}

/// The compiled forms. Nearly all values are ASCII, and for them classes such as `\w` are far
/// smaller.
#[derive(Debug, Default)]
struct Compiled {
    for_ascii: OnceLock<Result<Matcher, InvalidPattern>>,
    for_any: OnceLock<Result<Matcher, InvalidPattern>>,
}

#[derive(Debug)]
struct Matcher {
    regex: Regex,
    max_text: usize,
}

/// A pattern that cannot be used. As in CLImax this is reported when the pattern is used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{reason}")]
pub struct InvalidPattern {
    reason: String,
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

impl Pattern {
    /// Wraps a pattern. Errors are reported by the first match.
    pub fn new(source: &str) -> Self {
        Self { source: source.into(), compiled: Arc::default() }
    }

    /// The source of the pattern.
    pub fn as_str(&self) -> &str {
        &self.source
    }

    /// Compiles the pattern for the first match.
    pub fn check(&self) -> Result<(), InvalidPattern> {
        self.matches("").map(drop)
    }

    /// Whether the whole of `text` matches.
    pub fn matches(&self, text: &str) -> Result<bool, InvalidPattern> {
        let compiled = if text.is_ascii() {
            self.compiled.for_ascii.get_or_init(|| self.compile(Flags::ASCII_TEXT))
        } else {
            self.compiled.for_any.get_or_init(|| self.compile(Flags::default()))
        };
        let matcher = compiled.as_ref().map_err(Clone::clone)?;
        let too_expensive = || self.invalid("too expensive for this value");
        if text.len() > matcher.max_text {
            return Err(too_expensive());
        }
        // The only possible error is an exceeded backtracking limit.
        matcher.regex.is_match(text).map_err(|_| too_expensive())
    }

    fn compile(&self, flags: Flags) -> Result<Matcher, InvalidPattern> {
        let pattern = translate::translate(&self.source, flags)
            .map_err(|reason| self.invalid(&format!("broken: {reason}")))?;
        let mut builder = RegexBuilder::new(&pattern);
        builder.backtrack_limit(MAX_BACKTRACKS).max_prog_size(MAX_PROGRAM);
        if !translate::backtracks(&pattern) {
            if let Ok(regex) = builder.delegate_size_limit(MAX_AUTOMATON).build() {
                return Ok(Matcher { regex, max_text: usize::MAX });
            }
            // Too large for a single automaton. Look-arounds that always hold make the engine
            // backtrack and count repetitions instead of unrolling them.
            builder.pattern(format!("(?!{NEVER}){pattern}(?!{NEVER})"));
        }
        let regex = builder.delegate_size_limit(MAX_DELEGATE).build();
        regex
            .map(|regex| Matcher { regex, max_text: MAX_BACKTRACKING_TEXT })
            .map_err(|err| self.invalid(&format!("not supported: {err}")))
    }

    fn invalid(&self, how: &str) -> InvalidPattern {
        InvalidPattern { reason: format!("pattern `{}` is {how}", self.source) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Pattern;

    /// Checks texts that match and texts that do not, by the results of Python.
    #[track_caller]
    fn check(pattern: &str, matching: &[&str], other: &[&str]) {
        let compiled = Pattern::new(pattern);
        for (texts, expect) in [(matching, true), (other, false)] {
            for text in texts {
                assert_eq!(compiled.matches(text), Ok(expect), "{pattern:?} against {text:?}");
            }
        }
    }

    #[test]
    fn the_whole_text_must_match() {
        check("[a-z]+", &["abc"], &["abc1", "ABC", "", "abc\n", "1abc"]);
        check("a|b", &["a", "b"], &["ab", "ac", ""]);
        check("a|ab", &["a", "ab"], &["abb"]);
        check("", &[""], &["a", "\n"]);
        check("(?:a|ab)(?:c|bcd)", &["ac", "abc", "abcd"], &["abcdx"]);
        check("x+?", &["x", "xxx"], &["xxxy"]);
    }

    #[test]
    fn anchors() {
        check("^src/.*$", &["src/a", "src/"], &["xsrc/a", "src/a\nb", "src/a\n"]);
        check("a$\n", &["a\n"], &["a", "a\n\n"]);
        check("(a$|b)\n?", &["a", "a\n", "b\n"], &["a\nb"]);
        check("a$.*", &["a"], &["a\n", "ab"]);
        check("(?s)a$.*", &["a", "a\n"], &["ab", "a\n\n"]);
        check(r"a\Z", &["a"], &["a\n"]);
        check(r"(?s)a\Z.*", &["a"], &["a\n"]);
        check(r"\Aa", &["a"], &["\na"]);
        check("(?m)^a$\n^b$", &["a\nb"], &["a\nb\n", "ab"]);
        check("(?m)a\n^", &["a\n"], &["a"]);
        check("(?m:a$)\nb|(?:c$)\nd", &["a\nb"], &["c\nd"]);
    }

    #[test]
    fn boundaries_match_python() {
        check(r".*\bfoo\b.*", &["foo", "a foo.", "é foo"], &["food", "éfoo", "foo_"]);
        check(r"\b", &[], &["", "a"]);
        check(r"\B", &[], &["", "a"]);
        check(r".\B.", &["ab", "--", "é²"], &["a-", "a\u{301}"]);
        check(r"(?a).\b.", &["aé", "a-"], &["ab", "éé"]);
    }

    #[test]
    fn classes_match_python() {
        check(
            r"\w+",
            &["é日本", "٣", "_x", "²", "a1_"],
            &["a b", "e\u{301}", "a\u{200D}b", "‿", ""],
        );
        check(r"\d+", &["12", "٣", "５"], &["²", "½", "a", "Ⅷ"]);
        check(
            r"\s",
            &[" ", "\n", "\u{1C}", "\u{1F}", "\u{A0}", "\u{85}", "\u{2028}"],
            &["\u{200B}", "_"],
        );
        check(r"\W\D\S", &["--a", "\u{301}é日"], &["a--", "-1-", "-- "]);
        check(r"(?a)\w\d\s", &["a1 ", "_0\u{B}"], &["é1 ", "a٣ ", "a1\u{1C}", "a1\u{A0}"]);
        check(r"[\W\d]+", &["1-", "٣\u{301}"], &["a", "é"]);
        check(r"[^\W\d]+", &["aé_"], &["1", "-"]);
        check(".", &["a", "é", "\r", "\u{2028}", "\0"], &["\n", ""]);
        check("(?s).", &["\n"], &["\n\n"]);
    }

    #[test]
    fn brackets_match_python() {
        check("[[]", &["["], &["]"]);
        check("[]a]", &["]", "a"], &["[", "b"]);
        check("[^]a]", &["b", "["], &["]", "a"]);
        check("[a&&b]", &["a", "b", "&"], &["c"]);
        check("[+--]", &["+", ",", "-"], &["."]);
        check("[a~~b]", &["a", "~", "b"], &["c"]);
        check("[a||b]", &["|"], &["c"]);
        check("[:alpha:]+", &["ahl:p"], &["b", "[", "é"]);
        check("[[:alpha:]]", &["[]", ":]", "a]"], &["a", "b"]);
        check("[[a]&&[b]]", &[], &["a", "b"]);
        check(r"[\]\-\^]+", &["]-^"], &["\\"]);
        check("[a-]", &["a", "-"], &["b"]);
        check("[-a]", &["a", "-"], &["b"]);
        check(r"[\w-]", &["a", "-"], &["."]);
        check(r"[\b]", &["\u{8}"], &["b"]);
        check(r"[\x41-\u0043\103\0]", &["A", "B", "C", "\0"], &["D"]);
        check(r"[\ud800-\U0001F600]+", &["\u{E000}😀"], &["a"]);
        check(r"[\ud800]", &[], &["a", "é", ""]);
        check(r"[^\ud800]", &["a", "é"], &[""]);
        check("[$.^|()?*+{}]+", &["$.^|()?*+{}"], &["a"]);
    }

    #[test]
    fn quantifiers() {
        check("a{2}", &["aa"], &["a", "aaa", "a{2}"]);
        check("a{,2}", &["", "a", "aa"], &["aaa", "a{,2}"]);
        check("a{2,}", &["aa", "aaaa"], &["a"]);
        check("a{,}", &["", "aaa"], &["b"]);
        check("a{0}b{0,0}", &[""], &["a", "b"]);
        check("a{", &["a{"], &["a"]);
        check("a{}", &["a{}"], &["a"]);
        check("a{x}", &["a{x}"], &["ax"]);
        check("a{1,x", &["a{1,x"], &["a"]);
        check("a{ 1}", &["a{ 1}"], &["a"]);
        check("{a}", &["{a}"], &["a"]);
        check("{", &["{"], &[""]);
        check("a}]", &["a}]"], &[]);
        check("a++a", &[], &["aa", "aaa"]);
        check("a?+a|b{1,2}+b|c*+d", &["aa", "bbb", "cccd", "d"], &["a", "bb", "c"]);
        check("(?>a*)ab|c(?>d|de)f", &["cdf"], &["aab", "cdef"]);
        check("(?:a?){3}", &["", "a", "aaa"], &["aaaa"]);
        check("(?=a)*b(?=c)?c(?!d)+", &["bc"], &["b", "ac"]);
        check("(?:)*a()?+", &["a"], &[""]);
    }

    #[test]
    fn groups_and_references() {
        check(r"(?P<q>['\x22]).*(?P=q)", &["'a'", "\"a\""], &["'a\""]);
        check(r"(a|b)\1", &["aa", "bb"], &["ab"]);
        check(r"(a)?\1b", &["aab"], &["b", "ab"]);
        check(r"(?i)(a)\1", &["aA", "Aa"], &["ab"]);
        check(r"(a)\1\061", &["aa1"], &["aaa"]);
        check(r"(a)(b)?(?(2)c|d)", &["abc", "ad"], &["abd", "ac"]);
        check(r"(?P<x>a)?(?(x)b)c", &["abc", "c"], &["ac", "bc"]);
        check(r"(a)?(?(1))b", &["ab", "b"], &["a"]);
        check(r"(?P<größe>a)(?P=größe)", &["aa"], &["a"]);
        check(r"(a)(?:b(?#comment ( \) )c)", &["abc"], &["ab"]);
    }

    #[test]
    fn look_around() {
        check("(?!-).*", &["a", "", "a-"], &["-", "--force"]);
        check(r"(?:(?!\.\.).)*", &["a.b", ""], &["a..b"]);
        check("(?=.*[0-9]).{3,}", &["ab1"], &["abc", "1"]);
        check(r".*(?<!\.exe)", &["a.txt", ""], &["a.exe"]);
        check("(?<=^)a(?<=a)", &["a"], &["ba"]);
        check("a(?<=(?:a|b))(?<!é)é?", &["a", "aé"], &["b"]);
    }

    #[test]
    fn inline_flags() {
        check("(?i)abc", &["ABC", "aBc"], &["abd"]);
        check("(?i)straße", &["STRAẞE", "Straße"], &["strasse"]);
        check("(?i)k", &["k", "K", "\u{212A}"], &["x"]);
        check("(?i)i", &["I", "i", "İ", "ı"], &["j"]);
        check("(?i)[^i]", &["j"], &["I", "İ", "ı"]);
        check("(?i)[a-z]", &["ſ", "\u{212A}", "Q"], &["é"]);
        check("(?ai)[h-k]s", &["KS", "ks"], &["\u{212A}s", "kſ", "ıs"]);
        check("(?i)σ", &["Σ", "ς"], &["s"]);
        check("(?s)a.b", &["a\nb"], &["a\n"]);
        check("(?i:a)b", &["Ab", "ab"], &["aB"]);
        check("(?i)a(?-i:b)(?s-i:.c)", &["Abxc", "ab\nc"], &["aBxc", "abxC"]);
        check("(?i)(?s)A.", &["a\n"], &["a"]);
        check("(?#first)(?i)a", &["A"], &["b"]);
        check("(?x) a b # comment\n c [ ] \\ d", &["abc  d"], &["abcd", " abc  d"]);
        check("(?x)a +|b", &["aa", "b"], &[""]);
        check("(?x: a ) b", &["a b"], &["ab"]);
        check("(?x)(?-x: a)", &[" a"], &["a"]);
        check("(?u)é(?a:\\w)", &["éa"], &["éé"]);
    }

    #[test]
    fn patterns_that_python_rejects_are_invalid() {
        for (pattern, reason) in [
            ("[", "unterminated character set"),
            ("[]", "unterminated character set"),
            ("[a-", "unterminated character set"),
            ("[z-a]", "bad character range"),
            (r"[\w-a]", "bad character range"),
            (r"[a-\d]", "bad character range"),
            ("(", "missing `)`"),
            (")", "unbalanced parenthesis"),
            ("*a", "nothing to repeat"),
            ("a|*", "nothing to repeat"),
            ("^*", "nothing to repeat"),
            (r"\b+", "nothing to repeat"),
            ("a**", "multiple repeat"),
            ("a{2}{3}", "multiple repeat"),
            ("(?x)a* ?", "multiple repeat"),
            ("a{2,1}", "min repeat greater than max repeat"),
            ("a{4294967295}", "the repetition number is too large"),
            (r"\h", r"bad escape `\h`"),
            (r"\K", r"bad escape `\K`"),
            (r"\G", r"bad escape `\G`"),
            (r"\z", r"bad escape `\z`"),
            (r"\p{L}", r"bad escape `\p`"),
            (r"[\A]", r"bad escape `\A`"),
            (r"[\8]", r"bad escape `\8`"),
            (r"\x4", r"incomplete escape `\x4`"),
            (r"\U00110000", r"incomplete escape `\U00110000`"),
            (r"\400", r"octal escape `\400` is above `\377`"),
            (r"\N{DASH}", r"characters by name (`\N`) are not supported"),
            ("\\", "bad escape at the end"),
            (r"\1", "invalid group reference 1"),
            (r"(\1)", "cannot refer to an open group"),
            ("(?P=x)", "unknown group name `x`"),
            ("(?P<x>a)(?P<x>b)", "redefinition of group name `x`"),
            ("(?P<1>a)", "bad character in group name `1`"),
            ("(?P<>a)", "missing group name"),
            ("(?P<a", "missing `>` after a group name"),
            ("(?P>a)", "unknown extension `?P`"),
            ("(?<a>b)", "unknown extension `?<`"),
            ("(?~a)", "unknown extension `?~`"),
            ("(?R)", "unknown extension `?R`"),
            ("(?", "unexpected end of pattern"),
            ("(?#a", "unterminated comment"),
            ("(?(1)a)", "invalid group reference 1"),
            ("(a)(?(1)b|c|d)", "conditional with more than two branches"),
            ("(?(0)a)", "bad group name `0`"),
            ("(?(x)a)", "unknown group name `x`"),
            ("((?(1)a))", "a condition on the group it is in is not supported"),
            ("(?<=a+)b", "look-behind requires fixed-width pattern"),
            ("(?<!a|bc)d", "look-behind requires fixed-width pattern"),
            (r"(?<=(a)\1)", "cannot refer to a group in the same look-behind"),
            ("a(?i)b", "global flags not at the start of the expression"),
            ("(?x) (?i)b|(?s)c", "global flags not at the start of the expression"),
            ("(?au)a", "flags `a` and `u` are incompatible"),
            ("(?-a:b)", "flags `a` and `u` cannot be turned off"),
            ("(?i-i:b)", "flag turned on and off"),
            ("(?-:b)", "missing flag"),
            ("(?L)a", "unknown extension `?L`"),
            ("(?iz)a", "unknown flag `z`"),
            ("(?i", "unterminated flags"),
        ] {
            let broken = Pattern::new(pattern).matches("a").unwrap_err();
            assert_eq!(broken.to_string(), format!("pattern `{pattern}` is broken: {reason}"));
        }
    }

    #[test]
    fn large_repetitions_of_unicode_classes_compile() {
        let host = r"(?:[\w-]{1,63}\.){1,10}\w{2,63}";
        check(host, &["www.example.org", "bücher.example"], &["example", "bücher", "a..b.c"]);
        check(r".{1,65535}", &["a", "é", &"a".repeat(65_535)], &["", &"a".repeat(65_536)]);
    }

    #[test]
    fn backtracking_is_limited() {
        let long = "a".repeat(40);
        for pattern in [r"(a|a)*\1b", r"(.*)*\1x", r"(?=a)(?:a|aa)+(?!z)b", r"\b(\w+\s*)+!"] {
            let refused = Pattern::new(pattern).matches(&long).unwrap_err().to_string();
            assert_eq!(refused, format!("pattern `{pattern}` is too expensive for this value"));
        }
        let huge = "a".repeat(1_000_000);
        check("(a+)+$", &[&huge], &[&format!("{huge}!")]);
        assert!(Pattern::new("(?:(?=.*a).)*b").matches(&huge).is_err());
    }

    #[test]
    fn clones_share_the_compiled_pattern() {
        let pattern = Pattern::new("a+");
        let copy = pattern.clone();
        assert_eq!(copy.matches("aa"), Ok(true));
        assert!(pattern.compiled.for_ascii.get().is_some());
        assert_eq!(pattern.as_str(), "a+");
    }

    proptest! {
        #[test]
        fn matching_never_panics(pattern in any::<String>(), text in any::<String>()) {
            drop(Pattern::new(&pattern).matches(&text));
        }

        #[test]
        fn patterns_almost_right_never_panic(
            pattern in r"(\(\?|\)|\[|\]|\{|\}|[a-d0-3]|[-*+?|^$.,:=!<>#iPx&~]|\\[a-zA-Z0-9]){0,16}",
            text in "[a-d0-3 \n]{0,8}",
        ) {
            drop(Pattern::new(&pattern).matches(&text));
        }

        #[test]
        fn escaped_text_matches_itself_only(text in any::<String>(), other in any::<String>()) {
            let escaped: String = text.chars().flat_map(|character| {
                let plain = character.is_ascii_alphanumeric();
                (!plain).then_some('\\').into_iter().chain([character])
            }).collect();
            let pattern = Pattern::new(&escaped);
            prop_assert_eq!(pattern.matches(&text), Ok(true));
            prop_assert_eq!(pattern.matches(&other), Ok(text == other));
        }
    }
}
