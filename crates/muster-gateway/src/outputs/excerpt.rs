//! Excerpts of a stored output: a page, the end, the lines that match, a part of a JSON value.
//!
//! **Invariant:** however long an output is, only the excerpt is in memory, except where a part of a JSON
//! value has to be parsed as a whole; that has a limit.

use std::io::{self, BufRead, BufReader, Read as _, Seek as _, SeekFrom};

use muster_core::token_estimate;

use super::{
    CHUNK, OutputKind, StoredOutput,
    json_lines::{JsonLines, LineBreaks},
    line_pattern::LinePattern,
    lines, select,
    selected_lines::{ItemSelector, SelectedLines},
};

/// An upper bound of the bytes of a token, so that one read holds any page.
pub(super) const BYTES_PER_TOKEN: usize = 8;

/// The excerpt to read.
#[derive(Debug, Default)]
pub struct ExcerptRequest {
    /// The byte that a page begins with, within the selection if `path` is given. With `grep`, the number of
    /// matches to skip.
    pub offset: Option<u64>,
    /// The line that a page or a search begins with, from 1.
    pub line: Option<u64>,
    /// The number of lines.
    pub limit: Option<usize>,
    /// A regular expression: only lines that match.
    pub grep: Option<String>,
    /// A JSON path: only the values that it selects.
    pub path: Option<String>,
    /// The number of last lines.
    pub tail: Option<usize>,
    /// Only the number of matches.
    pub count: bool,
}

impl ExcerptRequest {
    /// Checks what can be checked without an output. The error is a message for the caller.
    pub fn validate(&self) -> Result<(), String> {
        self.check()?;
        self.grep.as_deref().map(LinePattern::new).transpose()?;
        self.path.as_deref().map(select::parse).transpose()?;
        Ok(())
    }

    /// Refuses arguments that contradict each other, with the fix.
    fn check(&self) -> Result<(), String> {
        let ways = [
            ("offset", self.offset.is_some()),
            ("line", self.line.is_some()),
            ("limit", self.limit.is_some()),
            ("tail", self.tail.is_some()),
        ];
        let given = |key: &str| ways.iter().any(|(way, given)| *way == key && *given);
        if self.count {
            return match ways.iter().find(|(_, given)| *given) {
                Some((way, _)) => Err(format!(
                    "`count` counts everything; leave out `{way}`, or leave out `count`"
                )),
                None => Ok(()),
            };
        }
        let both = |one: &str, other: &str| given(one) && given(other);
        if both("tail", "limit") {
            return Err("`tail` says how many lines; leave out `limit`".to_owned());
        }
        for other in ["offset", "line"] {
            if both("tail", other) {
                return Err(format!(
                    "`tail` shows the end and `{other}` begins elsewhere; leave out one of them"
                ));
            }
        }
        if both("offset", "line") && self.grep.is_none() {
            return Err("`offset` and `line` both say where to begin; leave out one".to_owned());
        }
        if both("offset", "limit") && self.path.is_some() && self.grep.is_none() {
            return Err(
                "`limit` counts lines, which `offset` does not; pass `line` in place of `offset`"
                    .to_owned(),
            );
        }
        Ok(())
    }

    /// Whether lines are asked for.
    pub(super) const fn is_by_line(&self) -> bool {
        self.grep.is_some() || self.tail.is_some() || self.line.is_some() || self.limit.is_some()
    }
}

/// The start of the next page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextPage {
    /// The value of `offset`.
    Offset(u64),
    /// The value of `line`.
    Line(u64),
}

/// An excerpt.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Excerpt {
    /// Its text.
    pub text: String,
    /// A remark about it.
    pub note: String,
    /// The next page, if there is one.
    pub next: Option<NextPage>,
    /// Whether a path was given and selects nothing.
    pub selects_nothing: bool,
}

impl StoredOutput {
    /// Reads an excerpt of at most `budget` tokens. The error is a message for the caller.
    pub fn look(&self, look: &ExcerptRequest, budget: usize) -> Result<Excerpt, String> {
        look.check()?;
        let grep = look.grep.as_deref().map(LinePattern::new).transpose()?;
        if let Some(path) = &look.path {
            return self.select(path, look, grep.as_ref(), budget);
        }
        if let OutputKind::Binary { mime_type } = &self.kind {
            return Err(format!("`{}` is {mime_type} and has no text; pass block: 1", self.handle));
        }
        let read = match look {
            look if look.grep.is_some() || self.is_one_line_json() && look.is_by_line() => {
                let input = self.by_line().map_err(|error| self.unreadable(&error))?;
                lines::excerpt(input, look, grep.as_ref(), budget, &self.stop)
            }
            ExcerptRequest { count: true, .. } if self.is_one_line_json() => {
                let input = self.by_line().map_err(|error| self.unreadable(&error))?;
                lines::excerpt(input, look, None, budget, &self.stop)
            }
            ExcerptRequest { count: true, .. } => {
                let note = format!("{} lines, {} bytes", self.lines, self.bytes);
                Ok(Excerpt { text: self.lines.to_string(), note, next: None, ..Excerpt::default() })
            }
            ExcerptRequest { tail: Some(lines), .. } => self.tail(*lines, budget),
            look => self.page(look, budget),
        };
        read.map_err(|error| self.unreadable(&error))
    }

    fn unreadable(&self, error: &io::Error) -> String {
        format!("cannot read `{}`: {error}", self.handle)
    }

    /// Whether its text is JSON without line breaks, as programs write it.
    fn is_one_line_json(&self) -> bool {
        self.kind == OutputKind::Json && self.lines <= 1
    }

    /// Its lines. JSON without line breaks is broken into lines.
    fn by_line(&self) -> io::Result<Box<dyn BufRead>> {
        let text = 0..self.bytes;
        if !self.is_one_line_json() {
            return Ok(Box::new(self.part(&text)?));
        }
        let is_list = self.first_byte(&text)? == Some(b'[');
        self.json_by_line(&text, is_list)
    }

    /// The lines of a JSON value: the items of a list, anything else indented.
    pub(super) fn json_by_line(
        &self,
        value: &std::ops::Range<u64>,
        is_list: bool,
    ) -> io::Result<Box<dyn BufRead>> {
        let part = self.part(value)?;
        if is_list {
            return Ok(Box::new(BufReader::new(SelectedLines::new(part, ItemSelector::Whole))));
        }
        let lines = JsonLines::new(part, LineBreaks::Indented);
        Ok(Box::new(BufReader::with_capacity(CHUNK, lines)))
    }

    fn page(&self, look: &ExcerptRequest, budget: usize) -> io::Result<Excerpt> {
        let start = match look.line {
            Some(line) => start_of_line(&mut self.part(&(0..self.bytes))?, line)?,
            None => look.offset.unwrap_or(0).min(self.bytes),
        };
        let mut file = self.open()?;
        file.seek(SeekFrom::Start(start))?;
        let room = ((budget * BYTES_PER_TOKEN) as u64).min(self.bytes - start);
        let mut bytes = Vec::new();
        file.take(room).read_to_end(&mut bytes)?;
        let at_end = start + bytes.len() as u64 >= self.bytes;
        let text = valid(&bytes, at_end);
        let mut piece = token_estimate::prefix(&text, budget);
        if let Some(lines) = look.limit {
            let ends = piece.match_indices('\n').nth(lines.saturating_sub(1));
            piece = ends.and_then(|(end, _)| piece.get(..=end)).unwrap_or(piece);
        }
        if !(at_end && piece.len() == text.len())
            && let Some(end) = piece.rfind('\n')
        {
            piece = piece.get(..=end).unwrap_or(piece);
        }
        let end = (start + source_length(&bytes, piece.len()) as u64).min(self.bytes);
        let next = (end < self.bytes && end > start).then_some(NextPage::Offset(end));
        let note = match look.line {
            Some(line) if piece.is_empty() => {
                format!("there is no line {line}: the output has {} lines", self.lines)
            }
            _ => format!("bytes {start} to {end} of {}", self.bytes),
        };
        Ok(Excerpt { text: piece.to_owned(), note, next, ..Excerpt::default() })
    }

    fn tail(&self, lines: usize, budget: usize) -> io::Result<Excerpt> {
        let mut file = self.open()?;
        let start = self.bytes.saturating_sub((budget * BYTES_PER_TOKEN) as u64);
        file.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        // The text ends here; other parts of the output follow in the file.
        file.take(self.bytes.saturating_sub(start)).read_to_end(&mut bytes)?;
        let text = String::from_utf8_lossy(&bytes);
        let whole = text.strip_suffix('\n').unwrap_or(&text);
        let begins = whole.rmatch_indices('\n').nth(lines.saturating_sub(1));
        let last = begins.and_then(|(at, _)| whole.get(at + 1..)).unwrap_or(whole);
        let text = token_estimate::suffix(last, budget).to_owned();
        let note = format!("the end of {} lines, {} bytes", self.lines, self.bytes);
        Ok(Excerpt { text, note, next: None, ..Excerpt::default() })
    }
}

fn start_of_line(file: &mut impl BufRead, line: u64) -> io::Result<u64> {
    let mut start = 0;
    for _ in 1..line {
        match file.skip_until(b'\n')? {
            0 => break,
            size => start += size as u64,
        }
    }
    Ok(start)
}

/// Decodes bytes as text. A character that is cut in two at the end is left for the next page.
pub(super) fn valid(bytes: &[u8], at_end: bool) -> std::borrow::Cow<'_, str> {
    let is_cut = |length: &usize| {
        let last = bytes.len().checked_sub(*length).and_then(|start| bytes.get(start..));
        let read = last.map(std::str::from_utf8);
        matches!(read, Some(Err(error)) if error.valid_up_to() == 0 && error.error_len().is_none())
    };
    let cut = if at_end { None } else { (1..=3).find(is_cut) };
    let whole = bytes.len() - cut.unwrap_or(0);
    String::from_utf8_lossy(bytes.get(..whole).unwrap_or_default())
}

/// The number of bytes that the first `shown` bytes of their text stand for. Invalid UTF-8 is longer in the text.
pub(super) fn source_length(bytes: &[u8], shown: usize) -> usize {
    let (mut source, mut text) = (0, 0);
    for chunk in bytes.utf8_chunks() {
        let valid = chunk.valid().len();
        if text + valid >= shown {
            return source + (shown - text);
        }
        source += valid + chunk.invalid().len();
        text += valid + char::REPLACEMENT_CHARACTER.len_utf8();
    }
    source
}

#[cfg(test)]
mod tests {
    use super::{source_length, valid};

    #[test]
    fn invalid_text_is_as_long_as_its_bytes() {
        let bytes = b"a\xff\xfeb\xe2\x82c\n\xff";
        let text = valid(bytes, true);
        assert_eq!(text, "a\u{fffd}\u{fffd}b\u{fffd}c\n\u{fffd}");
        for (shown, expect) in [("", 0), ("a", 1), ("a\u{fffd}", 2), ("a\u{fffd}\u{fffd}b", 4)] {
            assert_eq!(source_length(bytes, shown.len()), expect, "{shown}");
        }
        assert_eq!(source_length(bytes, text.find('\n').unwrap()), 7);
        assert_eq!(source_length(bytes, text.len()), bytes.len());
    }

    #[test]
    fn a_character_cut_in_two_is_left_for_the_next_page() {
        for (bytes, at_end, expect) in [
            (&b"\xffa\xe2\x82"[..], false, "\u{fffd}a"),
            (b"\xffa\xe2\x82", true, "\u{fffd}a\u{fffd}"),
            (b"a\xf0\x9f\x98", false, "a"),
            ("a\u{20ac}".as_bytes(), false, "a\u{20ac}"),
            (b"a\x82", false, "a\u{fffd}"),
            (b"", false, ""),
        ] {
            assert_eq!(valid(bytes, at_end), expect, "{bytes:?}");
        }
    }
}
