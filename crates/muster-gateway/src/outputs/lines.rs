//! Selects lines of a stored output: a range, the last lines, matching lines, or a count.
//!
//! **Invariant:** only the selected lines are in memory, and of each at most [`MAX_LINE_BYTES`].

use std::{
    collections::VecDeque,
    io::{self, BufRead},
};

use muster_core::token_estimate;

use super::{
    excerpt::{BYTES_PER_TOKEN, Excerpt, ExcerptRequest, NextPage},
    line_pattern::{LineMatcher, LinePattern},
};
use crate::background_job::StopSignal;

/// Length of a match when not all matches fit.
const SHORT_MATCH_CHARS: usize = 400;
/// Length of a match when all matches fit.
const LONG_MATCH_CHARS: usize = 2_000;
/// The longest line that is held in memory; the rest of a longer one is skipped.
const MAX_LINE_BYTES: u64 = 1 << 20;

/// Reads the lines that a request selects.
pub(super) fn excerpt(
    mut input: impl BufRead,
    request: &ExcerptRequest,
    grep: Option<&LinePattern>,
    budget: usize,
    stop: &StopSignal,
) -> io::Result<Excerpt> {
    let mut window = Window::new(request, grep.map(|grep| grep.matcher(stop)), budget);
    let (mut line, mut number) = (Vec::new(), 0_u64);
    while next_line(&mut input, &mut line)? {
        number += 1;
        stop.check()?;
        if !window.add_line(number, &line)? {
            break;
        }
    }
    Ok(window.finish(number))
}

/// A line to show.
struct ShownLine {
    number: u64,
    /// The text if all lines fit.
    long: String,
    /// The text of a match if not all matches fit.
    short: Option<String>,
}

impl ShownLine {
    /// A line, or the part of it around the match at `hit`.
    fn new(number: u64, line: &[u8], hit: Option<usize>) -> Self {
        let Some(hit) = hit else {
            let long = String::from_utf8_lossy(line).into_owned();
            return Self { number, long, short: None };
        };
        let short = Some(around(line, hit, SHORT_MATCH_CHARS));
        Self { number, long: around(line, hit, LONG_MATCH_CHARS), short }
    }

    fn bytes(&self) -> usize {
        self.short.as_ref().unwrap_or(&self.long).len()
    }
}

/// Collects the lines to show while the input is read.
struct Window<'a> {
    request: &'a ExcerptRequest,
    grep: Option<LineMatcher<'a>>,
    budget: usize,
    /// The number of lines that matched or, without a pattern, of all lines from the first one on.
    found: u64,
    shown: VecDeque<ShownLine>,
    bytes: usize,
    next: Option<NextPage>,
}

impl<'a> Window<'a> {
    fn new(request: &'a ExcerptRequest, grep: Option<LineMatcher<'a>>, budget: usize) -> Self {
        Self { request, grep, budget, found: 0, shown: VecDeque::new(), bytes: 0, next: None }
    }

    /// Adds a line; false if no more lines are needed.
    fn add_line(&mut self, number: u64, line: &[u8]) -> io::Result<bool> {
        let request = self.request;
        let hit = match &mut self.grep {
            Some(grep) => match grep.find(line)? {
                Some(hit) => Some(hit),
                None => return Ok(true),
            },
            None => None,
        };
        if request.line.is_some_and(|first| number < first) {
            return Ok(true);
        }
        self.found += 1;
        if request.count || self.found <= self.skipped() || self.next.is_some() {
            return Ok(true);
        }
        let line = ShownLine::new(number, line, hit);
        let is_full = self.bytes + line.bytes() > self.budget * BYTES_PER_TOKEN;
        let at_limit = request.limit.is_some_and(|limit| self.shown.len() >= limit);
        if request.tail.is_none() && (at_limit || is_full && !self.shown.is_empty()) {
            self.next = Some(self.page_at(self.found - 1, number));
            // Read on with a pattern, because all matches are counted.
            return Ok(self.grep.is_some());
        }
        self.bytes += line.bytes();
        self.shown.push_back(line);
        if let Some(last) = request.tail {
            let room = self.budget * BYTES_PER_TOKEN;
            while self.shown.len() > last || self.bytes > room && self.shown.len() > 1 {
                let gone = self.shown.pop_front();
                self.bytes -= gone.as_ref().map_or(0, ShownLine::bytes);
            }
        }
        Ok(true)
    }

    /// The number of matches that earlier pages showed.
    fn skipped(&self) -> u64 {
        self.request.offset.filter(|_| self.grep.is_some()).unwrap_or(0)
    }

    /// The page that begins with a match, or with a line.
    fn page_at(&self, found: u64, number: u64) -> NextPage {
        if self.grep.is_some() { NextPage::Offset(found) } else { NextPage::Line(number) }
    }

    fn finish(self, lines: u64) -> Excerpt {
        if self.request.count {
            let note = match self.grep {
                Some(_) => format!("{} of {lines} lines match", self.found),
                None => format!("{lines} lines"),
            };
            return Excerpt {
                text: self.found.to_string(),
                note,
                next: None,
                ..Excerpt::default()
            };
        }
        // Matches are shown in full if all of them fit.
        let mut written = self.written(|line| &line.long);
        if written.len() < self.shown.len() {
            written = self.written(|line| line.short.as_ref().unwrap_or(&line.long));
        }
        let mut next = self.next;
        let cut = self.shown.get(written.len()).filter(|_| self.request.tail.is_none());
        if let Some(first) = cut {
            next = Some(self.page_at(self.skipped() + written.len() as u64, first.number));
        }
        let note = match self.grep {
            Some(_) => format!("{} of {lines} lines match", self.found),
            None => self.range(written.len(), next.is_some(), lines),
        };
        Excerpt { text: written.concat(), note, next, ..Excerpt::default() }
    }

    /// The lines that fit; at least the beginning of one.
    fn written(&self, text: impl Fn(&ShownLine) -> &String) -> Vec<String> {
        let from_end = self.request.tail.is_some();
        let order: Box<dyn Iterator<Item = &ShownLine>> =
            if from_end { Box::new(self.shown.iter().rev()) } else { Box::new(self.shown.iter()) };
        let (mut lines, mut cost) = (Vec::new(), 0);
        for line in order {
            let mut written = match self.grep {
                Some(_) => format!("{}: {}\n", line.number, text(line)),
                None => format!("{}\n", text(line)),
            };
            cost += token_estimate::estimate(&written);
            if cost > self.budget {
                if !lines.is_empty() {
                    break;
                }
                let cut = token_estimate::prefix(&written, self.budget.saturating_sub(4));
                written = format!("{cut}…\n");
            }
            lines.push(written);
        }
        if from_end {
            lines.reverse();
        }
        lines
    }

    fn range(&self, count: usize, more: bool, lines: u64) -> String {
        let skipped = if self.request.tail.is_some() { self.shown.len() - count } else { 0 };
        let number = |at: usize| self.shown.get(at).map_or(0, |line| line.number);
        let (first, last) = (number(skipped), number((skipped + count).saturating_sub(1)));
        match (count, more) {
            (0, _) => format!("there are {lines} lines"),
            (_, true) => format!("lines {first} to {last}"),
            (_, false) => format!("lines {first} to {last} of {lines}"),
        }
    }
}

/// The next line without its end; the part beyond the limit is skipped.
fn next_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    if io::Read::take(input.by_ref(), MAX_LINE_BYTES).read_until(b'\n', line)? == 0 {
        return Ok(false);
    }
    if line.pop_if(|last| *last == b'\n').is_none() && line.len() as u64 >= MAX_LINE_BYTES {
        input.skip_until(b'\n')?;
    }
    Ok(true)
}

/// Cuts a long line to the part around the match.
fn around(line: &[u8], hit: usize, most: usize) -> String {
    let text = String::from_utf8_lossy(line);
    if text.len() <= most {
        return text.into_owned();
    }
    let from = (hit.saturating_sub(most / 4)..=text.len())
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or(0);
    let shown: String = text.get(from..).unwrap_or_default().chars().take(most).collect();
    let before = if from > 0 { "…" } else { "" };
    format!("{before}{shown}…")
}
