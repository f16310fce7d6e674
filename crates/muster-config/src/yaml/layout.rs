//! Layout repairs: indentation inside brackets and quotes, and missing blanks.
//!
//! PyYAML ignores indentation there: a `]` or the rest of a quoted text may be further left than the block
//! around it. The YAML 1.2 parser rejects that. So the lines of the bracket or quote where it failed are
//! moved to the right, which does not change their value, and parsing is retried.

use std::collections::{BTreeMap, BTreeSet};

/// A position in the parsed text: the line from 1, the column from 0.
pub(super) type Place = (usize, usize);

/// The maximum of blanks that one repair may add.
const MAX_ADDED: usize = 4 << 20;

/// The state of the parser when it failed.
pub(super) struct Stop {
    /// The position of the error.
    pub(super) failed: Place,
    /// The starts of open collections.
    pub(super) open: Vec<Place>,
    /// The end of the last event.
    pub(super) last_event_end: Place,
}

/// The text, with some lines moved to the right.
pub(super) struct Layout {
    pub(super) text: String,
    /// The shift of each line.
    moved: BTreeMap<usize, usize>,
    /// The offsets in the file of brackets and quotes whose lines were moved.
    mended: BTreeSet<Place>,
}

impl Layout {
    /// Normalises line ends to `\n`, and drops a last line of blanks.
    pub(super) fn new(text: &str) -> Self {
        let mut text = text.replace("\r\n", "\n").replace('\r', "\n");
        let without_blanks = text.trim_end_matches(' ').len();
        if without_blanks == 0 || text.as_bytes().get(without_blanks - 1) == Some(&b'\n') {
            text.truncate(without_blanks);
        }
        Self { text, moved: BTreeMap::new(), mended: BTreeSet::new() }
    }

    /// The column in the file of a position, from 1.
    pub(super) fn column(&self, (line, column): Place) -> usize {
        (column + 1).saturating_sub(self.moved.get(&line).copied().unwrap_or_default()).max(1)
    }

    /// Whether the line where the parser failed has a tab before its first comment.
    pub(super) fn has_tab(&self, stop: &Stop) -> bool {
        let line = self.text.lines().nth(stop.failed.0.saturating_sub(1)).unwrap_or_default();
        line.split('#').next().unwrap_or_default().contains('\t')
    }

    /// Moves the lines of the bracket or quote that was open when the parser failed. Returns whether to
    /// retry.
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

    /// Inserts a blank that YAML 1.1 does not require: `{a:[b]}`, `"a"#b`. Columns to the right of it are
    /// reported one too high.
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
            // Moving a document marker would turn it into text.
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
        // The parser reads ahead of its events.
        let ahead = self.rest(stop.last_event_end).map(after_indicators);
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

    /// The position in the file of an offset.
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

/// The text after the anchor and the tag of a value.
fn after_properties(text: &str) -> &str {
    let mut rest = text;
    while rest.starts_with(['&', '!']) {
        rest = rest.trim_start_matches(|character: char| !character.is_whitespace()).trim_start();
    }
    rest
}

/// The text after blanks, comments, and the indicators and properties of a value.
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

/// The quoted or bracketed text at the start of `text`, up to its end.
fn enclosed(text: &str) -> Option<&str> {
    let mut rest = text;
    let mut depth = 0_usize;
    // Whether a value may begin here; inside a value, quotes are ordinary characters.
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
