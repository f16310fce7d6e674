//! Lines out of a stream of bytes, bounded.

use std::borrow::Cow;

use bytes::BytesMut;

use super::{failure::LARGEST, message};

/// The largest line taken.
pub(super) const LIMIT: usize = LARGEST;
/// How much of the beginning and of the end of a longer line is looked at for whose it is.
const ENDS: usize = 256;
/// Room that is kept between lines; what a longer line needed is given back.
const KEPT: usize = 256 * 1024;
/// Room asked for before each read.
const READ: usize = 16 * 1024;

/// Cuts bytes into lines.
#[derive(Debug)]
pub(super) struct Lines {
    buffer: BytesMut,
    /// How far the buffer is known to hold no line end.
    scanned: usize,
    limit: usize,
    /// The line that is coming is too long and is passed over; this is how it began.
    skipping: Option<Vec<u8>>,
}

/// A line, as far as it is taken.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// All of it, without its end.
    Whole(BytesMut),
    /// It was too long. If it was an answer, this is the id of its request.
    TooLong(Option<u64>),
}

impl Lines {
    pub(super) fn new(limit: usize) -> Self {
        Self { buffer: BytesMut::new(), scanned: 0, limit, skipping: None }
    }

    /// Where to put the bytes that come next.
    pub(super) fn room(&mut self) -> &mut BytesMut {
        if self.buffer.is_empty() && self.buffer.capacity() > KEPT {
            self.buffer = BytesMut::new();
        }
        self.buffer.reserve(READ);
        &mut self.buffer
    }

    /// The next line.
    pub(super) fn next(&mut self) -> Option<Line> {
        let unseen = self.buffer.get(self.scanned..).unwrap_or_default();
        let Some(end) = unseen.iter().position(|byte| *byte == b'\n') else {
            self.scanned = self.buffer.len();
            if self.scanned > self.limit || self.skipping.is_some() {
                self.pass_over();
            }
            return None;
        };
        let mut line = self.buffer.split_to(self.scanned + end + 1);
        self.scanned = 0;
        line.truncate(line.len() - 1);
        Some(match self.skipping.take() {
            Some(beginning) => Line::TooLong(message::whose(&beginning, ends(&line).1)),
            None => Line::Whole(line),
        })
    }

    /// Lets go of what has come of a line, but for its ends.
    fn pass_over(&mut self) {
        let (beginning, end) = ends(&self.buffer);
        self.skipping.get_or_insert_with(|| beginning.to_vec());
        self.buffer = BytesMut::from(end);
        self.scanned = self.buffer.len();
    }

    /// What is left when there will be no more.
    pub(super) fn rest(&mut self) -> BytesMut {
        std::mem::take(&mut self.buffer)
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
    use super::{Line, Lines};

    fn lines(chunks: &[&str], limit: usize) -> Vec<String> {
        let mut lines = Lines::new(limit);
        let mut found = Vec::new();
        for chunk in chunks {
            lines.room().extend_from_slice(chunk.as_bytes());
            while let Some(line) = lines.next() {
                found.push(match line {
                    Line::Whole(line) => String::from_utf8(line.to_vec()).unwrap(),
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
}
