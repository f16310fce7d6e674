//! Mutation of texts.

use std::ops::Range;

/// The longest input, in bytes.
const MAX_INPUT: usize = 4_096;
/// The number of accepted inputs that are mutated further.
const MAX_KEPT: usize = 512;
/// Characters that grammars, terminals and normalizations treat in a way of their own.
const STRANGE: [char; 24] = [
    '\0',
    '\t',
    '\n',
    '\r',
    '\u{1b}',
    '\u{7f}',
    '\u{85}',
    '\u{a0}',
    '\u{ad}',
    'ß',
    'İ',
    'ſ',
    '\u{301}',
    '\u{200b}',
    '\u{202e}',
    '\u{2028}',
    '\u{feff}',
    '\u{fffd}',
    '٣',
    '日',
    '😀',
    '\u{e0001}',
    '\u{10ffff}',
    'K',
];

/// A source of mutated inputs.
#[derive(Debug)]
pub struct Mutator {
    kept: Vec<String>,
    seeds: usize,
    tokens: Vec<&'static str>,
    state: u64,
}

impl Mutator {
    /// Mutates `seeds` with `tokens`; equal seeds of randomness give equal inputs.
    pub fn new(seeds: &[&str], tokens: &[&'static str], randomness: u64) -> Self {
        let mut kept: Vec<String> = seeds.iter().map(|seed| (*seed).to_owned()).collect();
        if kept.is_empty() {
            kept.push(String::new());
        }
        // The generator needs a state that is not zero.
        let state = randomness.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        Self { seeds: kept.len(), kept, tokens: tokens.to_vec(), state }
    }

    /// Keeps an input for further mutation.
    pub fn keep(&mut self, input: &str) {
        if input.len() > MAX_INPUT / 2 {
            return;
        }
        if self.kept.len() < MAX_KEPT {
            self.kept.push(input.to_owned());
        } else if self.below(8) == 0 {
            // The seeds stay.
            let at = self.seeds + self.below(MAX_KEPT - self.seeds.min(MAX_KEPT - 1));
            if let Some(place) = self.kept.get_mut(at) {
                input.clone_into(place);
            }
        }
    }

    /// The next input.
    pub fn next_input(&mut self) -> String {
        let mut text = self.pick_kept();
        for _ in 0..=self.below(6) {
            text = self.mutated(text);
        }
        let end = (0..=MAX_INPUT.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
        text.truncate(end.unwrap_or(0));
        text
    }

    fn mutated(&mut self, mut text: String) -> String {
        let range = self.range(&text);
        match self.below(10) {
            0 => text.replace_range(range, ""),
            1 => {
                let part = text.get(range.clone()).unwrap_or_default().to_owned();
                text.insert_str(range.start, &part);
            }
            2 | 3 => {
                let token = self.token();
                text.insert_str(range.start, token);
            }
            4 => {
                let token = self.token();
                text.replace_range(range, token);
            }
            5 => {
                let letter = self.letter();
                text.insert(range.start, letter);
            }
            6 => {
                let other = self.pick_kept();
                let part = self.range(&other);
                text.replace_range(range, other.get(part).unwrap_or_default());
            }
            7 => text.truncate(range.start),
            8 => {
                let times = 1 << self.below(10);
                let part = text.get(range.clone()).unwrap_or_default();
                let times = times.min(MAX_INPUT / part.len().max(1));
                let repeated = part.repeat(times);
                text.insert_str(range.start, &repeated);
            }
            _ => {
                let other = self.pick_kept();
                text.push_str(&other);
            }
        }
        text
    }

    fn token(&mut self) -> &'static str {
        let at = self.below(self.tokens.len().max(1));
        self.tokens.get(at).copied().unwrap_or("0")
    }

    fn letter(&mut self) -> char {
        if self.below(3) == 0 {
            let at = self.below(STRANGE.len());
            return STRANGE.get(at).copied().unwrap_or(' ');
        }
        u8::try_from(32 + self.below(95)).map_or(' ', char::from)
    }

    fn pick_kept(&mut self) -> String {
        let at = self.below(self.kept.len());
        self.kept.get(at).cloned().unwrap_or_default()
    }

    /// A part of a text, short ones more often.
    fn range(&mut self, text: &str) -> Range<usize> {
        let boundary =
            |at: usize| (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        let start = boundary(self.below(text.len() + 1));
        let longest = 1 << self.below(8);
        let end = (start + self.below(longest + 1)).min(text.len());
        start..boundary(end).max(start)
    }

    /// A number below `limit`, by xorshift.
    fn below(&mut self, limit: usize) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        usize::try_from(self.state >> 16).unwrap_or(0) % limit.max(1)
    }
}
