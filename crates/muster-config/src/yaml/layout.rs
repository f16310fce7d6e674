//! Indentation inside brackets and quotes, and a few blanks.
//!
//! YAML 1.1 as PyYAML reads it does not look at it: a `]` or the rest of a quoted text may stand
//! further left than the block around it. The parser below does look. So the lines of a bracket or
//! a quote it stumbled over are moved to the right, where they mean the same, and it tries again.

use std::collections::{BTreeMap, BTreeSet};

/// A place in the text as the parser saw it: the line from 1, the column from 0.
pub(super) type Place = (usize, usize);

/// How many blanks one mending may add.
const MAX_ADDED: usize = 4 << 20;

/// Where the parser stopped.
pub(super) struct Stop {
    /// What it complained about.
    pub(super) failed: Place,
    /// Where the collections begin that were not complete.
    pub(super) open: Vec<Place>,
    /// Up to where it had told what there is.
    pub(super) told: Place,
}

/// The text, some of its lines moved to the right.
pub(super) struct Layout {
    pub(super) text: String,
    /// How far each line was moved.
    moved: BTreeMap<usize, usize>,
    /// Where the brackets and quotes are, in the file, whose lines were.
    mended: BTreeSet<Place>,
}

impl Layout {
    /// Every line end becomes `\n`, and a last line of blanks is nothing.
    pub(super) fn new(text: &str) -> Self {
        let mut text = text.replace("\r\n", "\n").replace('\r', "\n");
        let without_blanks = text.trim_end_matches(' ').len();
        if without_blanks == 0 || text.as_bytes().get(without_blanks - 1) == Some(&b'\n') {
            text.truncate(without_blanks);
        }
        Self { text, moved: BTreeMap::new(), mended: BTreeSet::new() }
    }

    /// The column from 1 that a place has in the file.
    pub(super) fn column(&self, (line, column): Place) -> usize {
        (column + 1).saturating_sub(self.moved.get(&line).copied().unwrap_or_default()).max(1)
    }

    /// Moves the lines of what was open when the parser failed. Whether it is worth another try.
    pub(super) fn mend(&mut self, stop: &Stop) -> bool {
        if let Some(at) = self.missing_blank(stop) {
            self.text.insert(at, ' ');
            return true;
        }
        let quote = self.rest(stop.failed).filter(|rest| rest.starts_with(['"', '\'']));
        let candidate = quote
            .map(|rest| self.text.len() - rest.len())
            .into_iter()
            .chain(self.brackets(stop))
            .filter_map(|start| Some((start, enclosed(self.text.get(start..)?)?)))
            .filter(|(_, inside)| inside.contains('\n'))
            .map(|(start, inside)| (start, start + inside.len(), self.place(start)))
            .find(|(_, _, place)| !self.mended.contains(place));
        let Some((start, end, place)) = candidate else { return false };
        self.mended.insert(place);
        self.indent(start, end)
    }

    /// Where a blank is missing that YAML 1.1 does not ask for: `{a:[b]}`, `"a"#b`. Columns to the
    /// right of it are told one too high.
    fn missing_blank(&self, stop: &Stop) -> Option<usize> {
        let at = self.offset(stop.failed)?;
        match self.text.as_bytes().get(at..)? {
            [b'#', ..] if !self.text.get(..at)?.ends_with(' ') => Some(at),
            [b':', b'[' | b'{', ..] => self.brackets(stop).next().map(|_| at + 1),
            _ => None,
        }
    }

    /// The first bracket that was open when the parser failed and is never closed, with its line.
    pub(super) fn unclosed(&self, stop: &Stop) -> Option<(char, usize)> {
        self.brackets(stop).find_map(|start| {
            let (before, rest) = self.text.split_at_checked(start)?;
            match enclosed(rest) {
                Some(_) => None,
                None => Some((rest.chars().next()?, before.matches('\n').count() + 1)),
            }
        })
    }

    /// Moves the lines that begin between two offsets to the right of the first, unless that would
    /// take too many blanks.
    fn indent(&mut self, start: usize, end: usize) -> bool {
        let by = 1 + columns(self.text.get(..start).unwrap_or_default());
        let lines = self.text.get(start..end).unwrap_or_default().matches('\n').count();
        if by.saturating_mul(lines) > MAX_ADDED {
            return false;
        }
        let mut text = String::with_capacity(self.text.len() + by);
        let mut offset = 0;
        for (number, line) in (1..).zip(self.text.split_inclusive('\n')) {
            // A document marker stays one wherever it stands.
            let marker = line.starts_with("---") || line.starts_with("...");
            if (start + 1..end).contains(&offset) && !marker {
                text.extend(std::iter::repeat_n(' ', by));
                *self.moved.entry(number).or_default() += by;
            }
            text.push_str(line);
            offset += line.len();
        }
        self.text = text;
        true
    }

    /// The offsets of the brackets that were open, the outermost first.
    fn brackets(&self, stop: &Stop) -> impl Iterator<Item = usize> {
        let open = stop.open.iter().filter_map(|place| {
            let rest = self.rest(*place)?;
            Some(after_properties(rest))
        });
        // The parser looks ahead of what it tells.
        let ahead = self.rest(stop.told).map(after_indicators);
        open.chain(ahead)
            .filter(|rest| rest.starts_with(['[', '{']))
            .map(|rest| self.text.len() - rest.len())
    }

    fn rest(&self, place: Place) -> Option<&str> {
        self.text.get(self.offset(place)?..)
    }

    fn offset(&self, (line, column): Place) -> Option<usize> {
        let before = match line.checked_sub(2) {
            Some(breaks) => self.text.match_indices('\n').nth(breaks)?.0 + 1,
            None => 0,
        };
        let rest = self.text.get(before..)?;
        Some(before + rest.char_indices().nth(column)?.0)
    }

    /// The place in the file of what is at an offset.
    fn place(&self, offset: usize) -> Place {
        let before = self.text.get(..offset).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        (line, self.column((line, columns(before))))
    }
}

/// The number of characters after the last line end.
fn columns(text: &str) -> usize {
    text.chars().rev().take_while(|character| *character != '\n').count()
}

/// What follows the anchor and the tag of a value.
fn after_properties(text: &str) -> &str {
    let mut rest = text;
    while rest.starts_with(['&', '!']) {
        rest = rest.trim_start_matches(|character: char| !character.is_whitespace()).trim_start();
    }
    rest
}

/// What follows blanks, comments, and the marks and properties of a value.
fn after_indicators(text: &str) -> &str {
    let mut rest = text;
    loop {
        let next = match rest.as_bytes() {
            [b'#', ..] => rest.trim_start_matches(|character| character != '\n'),
            [b'-' | b'?' | b':' | b',', b' ' | b'\n', ..] => rest.get(1..).unwrap_or_default(),
            _ => after_properties(rest.trim_start()),
        };
        if next.len() == rest.len() {
            return rest;
        }
        rest = next;
    }
}

/// What a quote or a bracket at the beginning of `text` encloses, up to its end.
fn enclosed(text: &str) -> Option<&str> {
    let mut rest = text;
    let mut depth = 0_usize;
    // Whether a value may begin here; inside a value, quotes mean nothing.
    let mut fresh = true;
    let mut after_blank = false;
    while let Some(character) = rest.chars().next() {
        rest = match character {
            '"' | '\'' if fresh => {
                fresh = false;
                after_quote(rest, character)?
            }
            '#' if after_blank => rest.trim_start_matches(|character| character != '\n'),
            _ => rest.get(character.len_utf8()..)?,
        };
        after_blank = character.is_whitespace();
        match character {
            '[' | '{' => (depth, fresh) = (depth + 1, true),
            ']' | '}' => (depth, fresh) = (depth.saturating_sub(1), false),
            ',' | ':' => fresh = true,
            _ => fresh = fresh && (after_blank || character == '#'),
        }
        if depth == 0 {
            return text.strip_suffix(rest);
        }
    }
    None
}

fn after_quote(text: &str, quote: char) -> Option<&str> {
    let mut rest = text.strip_prefix(quote)?;
    loop {
        let (_, from) = rest.split_at_checked(rest.find([quote, '\\'])?)?;
        rest = match from.strip_prefix(quote) {
            Some(after) => match after.strip_prefix(quote) {
                Some(more) if quote == '\'' => more,
                Some(_) | None => return Some(after),
            },
            None if quote == '\'' => from.get(1..)?,
            None => {
                let mut characters = from.chars();
                characters.next();
                characters.next();
                characters.as_str()
            }
        };
    }
}
