//! Lines out of a stream of bytes, bounded.

use std::borrow::Cow;

use bytes::BytesMut;

/// The longest line taken: a result may hold a large file, but not all memory.
pub(super) const LIMIT: usize = 64 * 1024 * 1024;
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
    /// The line that is coming is too long and is passed over.
    skipping: bool,
}

impl Lines {
    pub(super) fn new(limit: usize) -> Self {
        Self { buffer: BytesMut::new(), scanned: 0, limit, skipping: false }
    }

    /// Where to put the bytes that come next.
    pub(super) fn room(&mut self) -> &mut BytesMut {
        if self.buffer.is_empty() && self.buffer.capacity() > KEPT {
            self.buffer = BytesMut::new();
        }
        self.buffer.reserve(READ);
        &mut self.buffer
    }

    /// The next whole line without its end.
    pub(super) fn next(&mut self) -> Option<BytesMut> {
        loop {
            let unseen = self.buffer.get(self.scanned..).unwrap_or_default();
            let Some(end) = unseen.iter().position(|byte| *byte == b'\n') else {
                self.scanned = self.buffer.len();
                if self.scanned > self.limit {
                    self.buffer = BytesMut::new();
                    (self.scanned, self.skipping) = (0, true);
                }
                return None;
            };
            let mut line = self.buffer.split_to(self.scanned + end + 1);
            self.scanned = 0;
            if std::mem::take(&mut self.skipping) {
                continue;
            }
            line.truncate(line.len() - 1);
            return Some(line);
        }
    }

    /// What is left when there will be no more.
    pub(super) fn rest(&mut self) -> BytesMut {
        std::mem::take(&mut self.buffer)
    }
}

/// Bytes that are not UTF-8 become replacement characters; the JSON reader then has its say.
pub(super) fn text(line: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(line)
}

#[cfg(test)]
mod tests {
    use super::Lines;

    fn lines(chunks: &[&str], limit: usize) -> Vec<String> {
        let mut lines = Lines::new(limit);
        let mut found = Vec::new();
        for chunk in chunks {
            lines.room().extend_from_slice(chunk.as_bytes());
            while let Some(line) = lines.next() {
                found.push(String::from_utf8(line.to_vec()).unwrap());
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
        assert_eq!(lines(&["12345", "678", "9\nshort\n"], 6), ["short"]);
    }
}
