//! Excerpts of a stored output: a page, the end, the lines that match, a part of a JSON value.
//!
//! **Invariant:** however long an output is, only the excerpt is in memory, except where a part of a JSON
//! value has to be parsed as a whole; that has a limit.

use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};

use muster_core::token_estimate;
use regex::bytes::{Regex, RegexBuilder};

use super::{CHUNK, StoredOutput};

/// The length that a matching line is cut to.
const MOST_OF_LINE: usize = 400;
/// The longest line that is held in memory.
const MOST_LINE: u64 = 1 << 20;
/// The size limit, in bytes, of a compiled pattern: the time to match a line is at most the product of
/// both.
const MOST_PATTERN: usize = 256 * 1024;
/// An upper bound of the bytes of a token, so that one read holds any page.
pub(super) const BYTES_PER_TOKEN: usize = 8;

/// The excerpt to read.
#[derive(Debug, Default)]
pub struct ExcerptRequest {
    /// The byte that a page begins with; within the selection if `path` is given.
    pub offset: Option<u64>,
    /// The line that a page begins with, from 1.
    pub line: Option<u64>,
    /// The number of lines.
    pub limit: Option<usize>,
    /// A regular expression: only lines that match.
    pub grep: Option<String>,
    /// A JSON path: only what it selects.
    pub path: Option<String>,
    /// The number of last lines.
    pub tail: Option<usize>,
    /// Only the number of matches.
    pub count: bool,
}

/// An excerpt.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Excerpt {
    /// Its text.
    pub text: String,
    /// A remark about it.
    pub note: String,
    /// The offset of the next page, if there is one.
    pub next: Option<u64>,
}

impl StoredOutput {
    /// Reads an excerpt of at most `budget` tokens. The error is a message for the caller.
    pub fn look(&self, look: &ExcerptRequest, budget: usize) -> Result<Excerpt, String> {
        let unreadable = |error: io::Error| format!("cannot read `{}`: {error}", self.handle);
        if let Some(path) = &look.path {
            return self.select(path, look, budget);
        }
        if let Some(pattern) = &look.grep {
            let pattern = RegexBuilder::new(pattern)
                .size_limit(MOST_PATTERN)
                .build()
                .map_err(|error| format!("grep must be a regular expression: {error}"))?;
            return self.grep(&pattern, look, budget).map_err(unreadable);
        }
        if look.count {
            let note = format!("{} lines, {} bytes", self.lines, self.bytes);
            return Ok(Excerpt { text: self.lines.to_string(), note, next: None });
        }
        if let Some(lines) = look.tail {
            return self.tail(lines, budget).map_err(unreadable);
        }
        self.page(look, budget).map_err(unreadable)
    }

    fn page(&self, look: &ExcerptRequest, budget: usize) -> io::Result<Excerpt> {
        let mut file = self.open()?;
        let start = match look.line {
            Some(line) => start_of_line(&mut BufReader::with_capacity(CHUNK, &mut file), line)?,
            None => look.offset.unwrap_or(0),
        };
        file.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        file.take((budget * BYTES_PER_TOKEN) as u64).read_to_end(&mut bytes)?;
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
        // Invalid UTF-8 is longer here than in the file.
        let taken = if piece.len() == text.len() { bytes.len() } else { piece.len() } as u64;
        let end = (start + taken).min(self.bytes);
        let next = (end < self.bytes && end > start).then_some(end);
        let note = format!("bytes {start} to {end} of {}", self.bytes);
        Ok(Excerpt { text: piece.to_owned(), note, next })
    }

    fn tail(&self, lines: usize, budget: usize) -> io::Result<Excerpt> {
        let mut file = self.open()?;
        let start = self.bytes.saturating_sub((budget * BYTES_PER_TOKEN) as u64);
        file.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        // The file may have grown since it was measured.
        file.take(self.bytes.saturating_sub(start)).read_to_end(&mut bytes)?;
        let text = String::from_utf8_lossy(&bytes);
        let whole = text.trim_end_matches('\n');
        let begins = whole.rmatch_indices('\n').nth(lines.saturating_sub(1));
        let last = begins.and_then(|(at, _)| whole.get(at + 1..)).unwrap_or(whole);
        let text = token_estimate::suffix(last, budget).to_owned();
        let note = format!("the end of {} lines, {} bytes", self.lines, self.bytes);
        Ok(Excerpt { text, note, next: None })
    }

    fn grep(&self, pattern: &Regex, look: &ExcerptRequest, budget: usize) -> io::Result<Excerpt> {
        let mut file = BufReader::with_capacity(CHUNK, self.open()?);
        let skipped = look.offset.unwrap_or(0);
        let limit = look.limit.unwrap_or(usize::MAX);
        let (mut piece, mut found, mut cost, mut shown) = (Excerpt::default(), 0_u64, 0, 0);
        let mut number = 0_u64;
        let mut line = Vec::new();
        while next_line(&mut file, &mut line)? {
            number += 1;
            self.stop.check()?;
            let Some(hit) = pattern.find(&line) else { continue };
            found += 1;
            if look.count || found <= skipped || piece.next.is_some() {
                continue;
            }
            let text = format!("{number}: {}\n", around(&line, hit.start()));
            cost += token_estimate::estimate(&text);
            if shown == limit || cost > budget {
                piece.next = Some(found - 1);
                continue;
            }
            shown += 1;
            piece.text.push_str(&text);
        }
        piece.note = format!("{found} of {} lines match", self.lines);
        if look.count {
            piece.text = found.to_string();
        }
        Ok(piece)
    }
}

/// The next line without its end; the part beyond the limit is skipped.
fn next_line(file: &mut impl io::BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    if file.by_ref().take(MOST_LINE).read_until(b'\n', line)? == 0 {
        return Ok(false);
    }
    if line.pop_if(|last| *last == b'\n').is_none() && line.len() as u64 >= MOST_LINE {
        file.skip_until(b'\n')?;
    }
    Ok(true)
}

fn start_of_line(file: &mut impl io::BufRead, line: u64) -> io::Result<u64> {
    let mut start = 0;
    for _ in 1..line {
        match file.skip_until(b'\n')? {
            0 => break,
            size => start += size as u64,
        }
    }
    Ok(start)
}

/// A long line is cut around the match.
fn around(line: &[u8], hit: usize) -> String {
    let text = String::from_utf8_lossy(line);
    if text.len() <= MOST_OF_LINE {
        return text.into_owned();
    }
    let from = (hit.saturating_sub(MOST_OF_LINE / 4)..=text.len())
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or(0);
    let shown: String = text.get(from..).unwrap_or_default().chars().take(MOST_OF_LINE).collect();
    let before = if from > 0 { "…" } else { "" };
    format!("{before}{shown}…")
}

/// The text of some bytes; a character that is cut in two is left for the next page.
pub(super) fn valid(bytes: &[u8], at_end: bool) -> std::borrow::Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Err(error) if !at_end && error.error_len().is_none() => {
            String::from_utf8_lossy(bytes.get(..error.valid_up_to()).unwrap_or_default())
        }
        _ => String::from_utf8_lossy(bytes),
    }
}
