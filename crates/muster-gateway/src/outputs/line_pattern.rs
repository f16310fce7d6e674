//! The pattern of `grep`, which can be stopped inside a long line.

use std::io;

use regex::bytes::{Regex, RegexBuilder};
use regex_automata::{
    Anchored, Input, MatchError,
    hybrid::{
        BuildError,
        dfa::{Cache, DFA},
        regex::Regex as LazyRegex,
    },
    nfa::thompson,
    util::syntax,
};

use crate::background_job::StopSignal;

/// The longest pattern, in bytes. Parsing takes time and memory in proportion, on the thread that reads the request.
const MAX_PATTERN: usize = 4_096;
/// The size limit, in bytes, of a compiled pattern: the time to match a line is at most the product of its length
/// and this.
const MAX_COMPILED: usize = 256 * 1024;
/// The longest line that is matched in one go.
const SHORT_LINE: usize = 16 * 1024;
/// The number of bytes between two checks of the stop signal.
const BYTES_PER_CHECK: usize = 1024;

/// A compiled pattern.
#[derive(Debug)]
pub(super) struct LinePattern {
    regex: Regex,
    pattern: String,
}

impl LinePattern {
    /// Compiles a pattern. The error is a message for the caller.
    pub(super) fn new(pattern: &str) -> Result<Self, String> {
        if pattern.len() > MAX_PATTERN {
            let length = pattern.len();
            return Err(format!("grep must have at most {MAX_PATTERN} bytes, not {length}"));
        }
        let regex = RegexBuilder::new(pattern).size_limit(MAX_COMPILED).build();
        let regex = regex.map_err(|error| format!("grep must be a regular expression: {error}"))?;
        Ok(Self { regex, pattern: pattern.to_owned() })
    }

    /// Returns a matcher of lines, which fails once `stop` is set.
    pub(super) fn matcher<'a>(&'a self, stop: &'a StopSignal) -> LineMatcher<'a> {
        LineMatcher { pattern: self, stop, long: None }
    }
}

/// Finds a pattern in one line after another.
#[derive(Debug)]
pub(super) struct LineMatcher<'a> {
    pattern: &'a LinePattern,
    stop: &'a StopSignal,
    /// The matcher of long lines, made for the first of them.
    long: Option<SteppedRegex>,
}

impl LineMatcher<'_> {
    /// Where the first match in a line begins.
    pub(super) fn find(&mut self, line: &[u8]) -> io::Result<Option<usize>> {
        if line.len() <= SHORT_LINE {
            return Ok(self.pattern.regex.find(line).map(|found| found.start()));
        }
        let long = match &mut self.long {
            Some(long) => long,
            none @ None => {
                let built = SteppedRegex::new(&self.pattern.pattern).map_err(io::Error::other)?;
                none.insert(built)
            }
        };
        long.find(line, self.stop)
    }
}

/// A pattern that is matched byte by byte. The `regex` crate cannot be interrupted.
#[derive(Debug)]
struct SteppedRegex {
    regex: LazyRegex,
    forward: Cache,
    reverse: Cache,
}

/// The direction in which a line is read.
#[derive(Debug, Clone, Copy)]
enum Direction {
    /// From its beginning, to find where a match ends.
    Forward,
    /// From the end of a match, to find where it begins.
    Reverse(usize),
}

impl SteppedRegex {
    fn new(pattern: &str) -> Result<Self, Box<BuildError>> {
        let states = thompson::Config::new().utf8(false).nfa_size_limit(Some(MAX_COMPILED * 2));
        let options = DFA::config().unicode_word_boundary(true).skip_cache_capacity_check(true);
        let regex = LazyRegex::builder()
            .syntax(syntax::Config::new().utf8(false))
            .thompson(states)
            .dfa(options)
            .build(pattern)?;
        let (forward, reverse) = (regex.forward().create_cache(), regex.reverse().create_cache());
        Ok(Self { regex, forward, reverse })
    }

    fn find(&mut self, line: &[u8], stop: &StopSignal) -> io::Result<Option<usize>> {
        let (forward, reverse) = (self.regex.forward(), self.regex.reverse());
        match scan(forward, &mut self.forward, line, Direction::Forward, stop)? {
            Some(end) => scan(reverse, &mut self.reverse, line, Direction::Reverse(end), stop),
            None => Ok(None),
        }
    }
}

/// Where the automaton last matched, in the direction in which it reads.
fn scan(
    dfa: &DFA,
    cache: &mut Cache,
    line: &[u8],
    direction: Direction,
    stop: &StopSignal,
) -> io::Result<Option<usize>> {
    let input = Input::new(line);
    let (mut state, count) = match direction {
        Direction::Forward => (dfa.start_state_forward(cache, &input), line.len()),
        Direction::Reverse(end) => {
            let input = input.range(..end).anchored(Anchored::Yes);
            (dfa.start_state_reverse(cache, &input), end)
        }
    };
    let mut found = None;
    for step in 0..count {
        if step.is_multiple_of(BYTES_PER_CHECK) {
            stop.check()?;
        }
        // A match is known one byte after its end.
        let (at, end) = match direction {
            Direction::Forward => (step, step),
            Direction::Reverse(_) => (count - step - 1, count - step),
        };
        let Some(byte) = line.get(at) else { break };
        let id = state.map_err(|error| unusable(&error))?;
        let next = dfa.next_state(cache, id, *byte).map_err(io::Error::other)?;
        if next.is_match() {
            found = Some(end);
        } else if next.is_dead() {
            return Ok(found);
        } else if next.is_quit() {
            return Err(unusable(&MatchError::quit(*byte, at)));
        }
        state = Ok(next);
    }
    let id = state.map_err(|error| unusable(&error))?;
    if dfa.next_eoi_state(cache, id).map_err(io::Error::other)?.is_match() {
        found = Some(match direction {
            Direction::Forward => count,
            Direction::Reverse(_) => 0,
        });
    }
    Ok(found)
}

/// The error for a pattern that an automaton cannot match, such as a Unicode word boundary.
fn unusable(error: &MatchError) -> io::Error {
    io::Error::other(format!(
        "this pattern cannot be used on a line of more than {SHORT_LINE} bytes ({error}); write `(?-u:\\b)` for `\\b`, or \
         select less with `path`"
    ))
}

#[cfg(test)]
mod tests {
    use super::{LinePattern, MAX_PATTERN, SHORT_LINE};
    use crate::background_job::StopSignal;

    #[test]
    fn a_match_in_a_long_line_is_the_same_as_in_a_short_one() {
        let long = format!("{}abc needle xyz{}", "x".repeat(SHORT_LINE), "y ".repeat(100));
        let patterns = [
            "needle",
            "^x",
            "y $",
            "^x+a",
            "a.c",
            "(?i)NEEDLE|xyz",
            r"\bneedle\b",
            "z*y",
            "none",
            "x*?a",
            "",
            "$",
            r"\w+ \w+ xyz",
            "[^x]",
        ];
        for pattern in patterns {
            let compiled = LinePattern::new(pattern).unwrap();
            let stop = StopSignal::default();
            let found = compiled.matcher(&stop).find(long.as_bytes()).unwrap();
            let expected = compiled.regex.find(long.as_bytes()).map(|found| found.start());
            assert_eq!(found, expected, "{pattern}");
        }
    }

    #[test]
    fn a_pattern_has_a_limit() {
        assert!(LinePattern::new(&"a".repeat(MAX_PATTERN)).is_ok());
        // It is refused before it is parsed, which would fail too.
        let error = LinePattern::new(&"(".repeat(MAX_PATTERN + 1)).unwrap_err();
        assert_eq!(error, "grep must have at most 4096 bytes, not 4097");
    }

    #[test]
    fn a_long_line_can_be_stopped() {
        let line = "a".repeat(1 << 20);
        let pattern = LinePattern::new("(a|a|aa){50}{2}b$").unwrap();
        let stop = StopSignal::default();
        stop.set();
        let error = pattern.matcher(&stop).find(line.as_bytes()).unwrap_err();
        assert!(error.to_string().contains("took too long"), "{error}");
    }

    #[test]
    fn what_an_automaton_cannot_do_is_refused() {
        let line = format!("é {}", "x".repeat(SHORT_LINE));
        let stop = StopSignal::default();
        let find =
            |pattern| LinePattern::new(pattern).unwrap().matcher(&stop).find(line.as_bytes());
        let error = find(r"\bx+\b").unwrap_err().to_string();
        assert!(error.contains(r"write `(?-u:\b)`"), "{error}");
        assert_eq!(find(r"(?-u:\b)x+(?-u:\b)").unwrap(), Some(3));
    }
}
