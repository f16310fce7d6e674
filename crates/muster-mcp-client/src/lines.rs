//! Lines out of a stream of bytes, bounded: a long one goes to disk, where there is one.

use std::{borrow::Cow, sync::Arc};

use bytes::BytesMut;
use memchr::memchr;

use super::{
    disk::{Disk, Full, HELD, Spill},
    failure::LARGEST,
    message,
};

/// How much of the beginning and of the end of a line that is too long is looked at for whose it is.
const ENDS: usize = 256;
/// Room that is kept between lines; what a longer line needed is given back.
const KEPT: usize = 256 * 1024;
/// Room asked for before each read.
const READ: usize = 16 * 1024;
/// The same while a line goes to disk.
const READ_LONG: usize = 64 * 1024;

/// Cuts bytes into lines.
#[derive(Debug)]
pub(super) struct Lines {
    buffer: BytesMut,
    /// How far the buffer is known to hold no line end.
    scanned: usize,
    /// The longest line that is held in memory, where it cannot be elsewhere.
    limit: usize,
    disk: Option<Arc<Disk>>,
    /// What has left the buffer of the line that is coming.
    long: Option<Long>,
}

/// A line of which not all is in the buffer.
#[derive(Debug)]
struct Long {
    beginning: Vec<u8>,
    /// All that came before the buffer; none if that was too much, and the line is passed over.
    spill: Option<Spill>,
    /// Whoever waits for it knows that it is too long.
    told: bool,
}

/// A line, as far as it is taken.
#[derive(Debug)]
pub(super) enum Line {
    /// All of it, without its end.
    Whole(BytesMut),
    /// All of it, on disk.
    Long(Spill),
    /// It was too long. If it was an answer, this is the id of its request.
    TooLong(Option<u64>),
}

impl Lines {
    /// Lines that are in memory; a longer one than `limit` is passed over.
    pub(super) fn new(limit: usize) -> Self {
        Self { buffer: BytesMut::new(), scanned: 0, limit, disk: None, long: None }
    }

    /// Lines of which the long ones go to disk.
    pub(super) fn with_disk(disk: Arc<Disk>) -> Self {
        Self { buffer: BytesMut::new(), scanned: 0, limit: LARGEST, disk: Some(disk), long: None }
    }

    /// Where to put the bytes that come next.
    pub(super) fn room(&mut self) -> &mut BytesMut {
        if self.buffer.is_empty() && self.buffer.capacity() > KEPT {
            self.buffer = BytesMut::new();
        }
        self.buffer.reserve(if self.long.is_some() { READ_LONG } else { READ });
        &mut self.buffer
    }

    /// The next line.
    pub(super) fn next(&mut self) -> Option<Line> {
        loop {
            let unseen = self.buffer.get(self.scanned..).unwrap_or_default();
            let Some(end) = memchr(b'\n', unseen) else {
                self.scanned = self.buffer.len();
                self.relieve();
                return self.long.as_mut().and_then(Long::tell);
            };
            let mut line = self.buffer.split_to(self.scanned + end + 1);
            self.scanned = 0;
            line.truncate(line.len() - 1);
            let Some(long) = self.long.take() else { return Some(Line::Whole(line)) };
            if !long.told {
                return Some(long.end(&line));
            }
        }
    }

    /// Takes a line that has no end yet out of memory, once it is long.
    fn relieve(&mut self) {
        if self.long.is_none() {
            let spill = match &self.disk {
                Some(disk) if self.scanned > HELD => disk.begin(),
                _ => None,
            };
            if spill.is_none() && self.scanned <= self.limit {
                return;
            }
            let beginning = ends(&self.buffer).0.to_vec();
            self.long = Some(Long { beginning, spill, told: false });
        }
        let Some(long) = &mut self.long else { return };
        match &mut long.spill {
            Some(spill) => match spill.write(&self.buffer) {
                Ok(()) => self.buffer.clear(),
                Err(Full) => long.spill = None,
            },
            None => self.buffer = BytesMut::from(ends(&self.buffer).1),
        }
        self.scanned = self.buffer.len();
    }

    /// What is left when there will be no more: a line without an end, if it is one.
    pub(super) fn rest(&mut self) -> Line {
        let rest = std::mem::take(&mut self.buffer);
        match self.long.take() {
            Some(long) if long.told => Line::Whole(BytesMut::new()),
            Some(long) => long.end(&rest),
            None => Line::Whole(rest),
        }
    }
}

impl Long {
    /// Says at once that a line is too long, if it is known whose it is: it may never end.
    fn tell(&mut self) -> Option<Line> {
        if self.told || self.spill.is_some() {
            return None;
        }
        let whose = message::whose(&self.beginning, &[])?;
        self.told = true;
        Some(Line::TooLong(Some(whose)))
    }

    /// The line, of which this was the last piece.
    fn end(mut self, last: &[u8]) -> Line {
        match self.spill.take() {
            Some(mut spill) => match spill.write(last) {
                Ok(()) => Line::Long(spill),
                Err(Full) => Line::TooLong(message::whose(&self.beginning, ends(last).1)),
            },
            None => Line::TooLong(message::whose(&self.beginning, ends(last).1)),
        }
    }
}

/// The first bytes of a line, and the last ones.
fn ends(line: &[u8]) -> (&[u8], &[u8]) {
    let beginning = line.get(..ENDS).unwrap_or(line);
    let end = line.get(line.len().saturating_sub(ENDS)..).unwrap_or_default();
    (beginning, end)
}

/// Bytes that are not UTF-8 become replacement characters; the JSON reader then has its say.
pub(super) fn text(line: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(line)
}

#[cfg(test)]
mod tests {
    use std::{io::Read as _, sync::Arc};

    use super::{Disk, HELD, Line, Lines};

    fn lines(chunks: &[&str], limit: usize) -> Vec<String> {
        read(Lines::new(limit), chunks)
    }

    fn read(mut lines: Lines, chunks: &[&str]) -> Vec<String> {
        let mut found = Vec::new();
        for chunk in chunks {
            lines.room().extend_from_slice(chunk.as_bytes());
            while let Some(line) = lines.next() {
                found.push(match line {
                    Line::Whole(line) => String::from_utf8(line.to_vec()).unwrap(),
                    Line::Long(spill) => {
                        let (mut text, size) = ("on disk: ".to_owned(), spill.size());
                        Arc::new(spill).read(0..size).read_to_string(&mut text).unwrap();
                        text
                    }
                    Line::TooLong(whose) => format!("too long: {whose:?}"),
                });
            }
        }
        found
    }

    #[test]
    fn chunks_do_not_matter() {
        assert_eq!(lines(&["a\nb", "c\n", "\nd"], 9), ["a", "bc", ""]);
        assert_eq!(lines(&["a", "b", "\n"], 9), ["ab"]);
    }

    #[test]
    fn a_line_that_is_too_long_is_passed_over() {
        assert_eq!(lines(&["12345", "678", "9\nshort\n"], 6), ["too long: None", "short"]);
    }

    #[test]
    fn it_is_known_whose_answer_was_too_long() {
        let long = "x".repeat(2_000);
        let first = format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{"a":"{long}"}}}}"#);
        let last = format!(r#"{{"result":{{"a":"{long}","id":5}},"jsonrpc":"2.0","id":8}}"#);
        let nobody = format!(r#"{{"result":{{"a":"{long}","x":{{"id":5}}}}}}"#);
        for size in [1, 100] {
            let all = format!("{first}\n{last}\n{nobody}\nshort\n");
            let chunks: Vec<&str> =
                all.as_bytes().chunks(size).map(|chunk| str::from_utf8(chunk).unwrap()).collect();
            assert_eq!(
                lines(&chunks, 1_000),
                ["too long: Some(7)", "too long: Some(8)", "too long: None", "short"],
                "{size}"
            );
        }
    }

    #[test]
    fn a_line_that_never_ends_is_told_of() {
        let begun = format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{"a":"{}"#, "x".repeat(300));
        assert_eq!(lines(&[&begun], 100), ["too long: Some(7)"]);
        assert_eq!(lines(&[&begun, &begun, "\nshort\n"], 100), ["too long: Some(7)", "short"]);
    }

    #[test]
    fn a_long_line_goes_to_disk_and_one_without_an_end_is_ended() {
        let long = "x".repeat(HELD + (1 << 17));
        let answer = format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{"a":"{long}"}}}}"#);
        let endless = format!(r#"{{"jsonrpc":"2.0","id":8,"result":{{"a":"{long}{long}"}}}}"#);
        let all = format!("{answer}\nshort\n{endless}\nshort\n");
        let chunks: Vec<&str> =
            all.as_bytes().chunks(1 << 16).map(|chunk| str::from_utf8(chunk).unwrap()).collect();
        let most = answer.len() as u64;
        let found = read(Lines::with_disk(Arc::new(Disk::within(most, 2 * most))), &chunks);
        let expect = [&*format!("on disk: {answer}"), "short", "too long: Some(8)", "short"];
        assert!(found == expect, "{:?}", found.iter().map(String::len).collect::<Vec<_>>());
    }
}
