//! Splits a byte stream into lines. Long lines are spooled.

use std::{borrow::Cow, sync::Arc};

use bytes::BytesMut;
use memchr::memchr;

use crate::{
    error::MAX_IN_MEMORY,
    message::response_id,
    spool::{SPOOL_THRESHOLD, Spool, SpoolError, SpoolFile},
};

/// How much of the beginning and the end of an oversized line is searched for its id.
const ENDS: usize = 256;
/// A larger buffer is freed after its line.
const MAX_IDLE_BUFFER: usize = 256 * 1024;
/// The buffer space for one read.
const READ: usize = 16 * 1024;
/// The buffer space for one read while a line is spooled.
const READ_SPOOLED: usize = 64 * 1024;

/// Splits bytes into lines.
#[derive(Debug)]
pub(crate) struct LineSplitter {
    buffer: BytesMut,
    /// Up to here the buffer contains no line end.
    scanned: usize,
    /// The longest line that is held in memory.
    limit: usize,
    spool: Option<Arc<Spool>>,
    /// The part of the current line that has left the buffer.
    partial: Option<PartialLine>,
}

/// An incomplete line that is too long for the buffer.
#[derive(Debug)]
struct PartialLine {
    beginning: Vec<u8>,
    /// The line so far, or why it is dropped.
    file: Result<SpoolFile, SpoolError>,
    /// Whether the request has already failed, because its response is too long.
    reported: bool,
}

/// A complete line, or the report of an oversized one.
#[derive(Debug)]
pub(crate) enum SplitLine {
    /// In memory, without the line end.
    Memory(BytesMut),
    /// On disk.
    Spooled(SpoolFile),
    /// Dropped. If it was a response, the id of its request.
    Dropped(Option<u64>, SpoolError),
}

impl LineSplitter {
    /// Drops lines that are longer than `limit`.
    pub(crate) fn new(limit: usize) -> Self {
        Self { buffer: BytesMut::new(), scanned: 0, limit, spool: None, partial: None }
    }

    /// Spools long lines.
    pub(crate) fn with_spool(spool: Arc<Spool>) -> Self {
        Self { spool: Some(spool), ..Self::new(MAX_IN_MEMORY) }
    }

    /// The buffer to read the next bytes into.
    pub(crate) fn buffer(&mut self) -> &mut BytesMut {
        if self.buffer.is_empty() && self.buffer.capacity() > MAX_IDLE_BUFFER {
            self.buffer = BytesMut::new();
        }
        self.buffer.reserve(if self.partial.is_some() { READ_SPOOLED } else { READ });
        &mut self.buffer
    }

    /// The next line.
    pub(crate) fn next(&mut self) -> Option<SplitLine> {
        loop {
            let unseen = self.buffer.get(self.scanned..).unwrap_or_default();
            let Some(end) = memchr(b'\n', unseen) else {
                self.scanned = self.buffer.len();
                self.spool_partial();
                return self.partial.as_mut().and_then(PartialLine::report);
            };
            let mut line = self.buffer.split_to(self.scanned + end + 1);
            self.scanned = 0;
            line.truncate(line.len() - 1);
            let Some(partial) = self.partial.take() else { return Some(SplitLine::Memory(line)) };
            if !partial.reported {
                return Some(partial.end(&line));
            }
        }
    }

    /// Moves an incomplete line out of memory once it is long.
    fn spool_partial(&mut self) {
        if self.partial.is_none() {
            let file = match &self.spool {
                Some(spool) if self.scanned > SPOOL_THRESHOLD => spool.create(),
                _ => None,
            };
            if file.is_none() && self.scanned <= self.limit {
                return;
            }
            let beginning = ends(&self.buffer).0.to_vec();
            let file = file.ok_or(SpoolError::TooLarge(self.limit as u64));
            self.partial = Some(PartialLine { beginning, file, reported: false });
        }
        let Some(partial) = &mut self.partial else { return };
        match &mut partial.file {
            Ok(file) => match file.write(&self.buffer) {
                Ok(()) => self.buffer.clear(),
                Err(error) => partial.file = Err(error),
            },
            Err(_) => self.buffer = BytesMut::from(ends(&self.buffer).1),
        }
        self.scanned = self.buffer.len();
    }

    /// The last line, if the stream does not end with a line end.
    pub(crate) fn rest(&mut self) -> SplitLine {
        let rest = std::mem::take(&mut self.buffer);
        match self.partial.take() {
            Some(partial) if partial.reported => SplitLine::Memory(BytesMut::new()),
            Some(partial) => partial.end(&rest),
            None => SplitLine::Memory(rest),
        }
    }
}

impl PartialLine {
    /// Reports an oversized response as soon as its id is known: the line may never end.
    fn report(&mut self) -> Option<SplitLine> {
        let error = self.file.as_ref().err().filter(|_| !self.reported).cloned()?;
        let id = response_id(&self.beginning, &[])?;
        self.reported = true;
        Some(SplitLine::Dropped(Some(id), error))
    }

    /// Completes the line with its last piece.
    fn end(self, last: &[u8]) -> SplitLine {
        let written = self.file.and_then(|mut file| file.write(last).map(|()| file));
        match written {
            Ok(file) => SplitLine::Spooled(file),
            Err(error) => SplitLine::Dropped(response_id(&self.beginning, ends(last).1), error),
        }
    }
}

/// The first and the last bytes of a line.
fn ends(line: &[u8]) -> (&[u8], &[u8]) {
    let beginning = line.get(..ENDS).unwrap_or(line);
    let end = line.get(line.len().saturating_sub(ENDS)..).unwrap_or_default();
    (beginning, end)
}

/// Decodes a line. Bytes that are not UTF-8 become replacement characters, which JSON strings may contain.
pub(crate) fn text(line: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(line)
}

#[cfg(test)]
mod tests {
    use std::{io::Read as _, sync::Arc};

    use super::{LineSplitter, SPOOL_THRESHOLD, SplitLine, Spool};

    fn lines(chunks: &[&str], limit: usize) -> Vec<String> {
        read(LineSplitter::new(limit), chunks)
    }

    fn read(mut lines: LineSplitter, chunks: &[&str]) -> Vec<String> {
        let mut found = Vec::new();
        for chunk in chunks {
            lines.buffer().extend_from_slice(chunk.as_bytes());
            while let Some(line) = lines.next() {
                found.push(match line {
                    SplitLine::Memory(line) => String::from_utf8(line.to_vec()).unwrap(),
                    SplitLine::Spooled(file) => {
                        let (mut text, size) = ("on disk: ".to_owned(), file.size());
                        Arc::new(file).read(0..size).read_to_string(&mut text).unwrap();
                        text
                    }
                    SplitLine::Dropped(id, _) => format!("too long: {id:?}"),
                });
            }
        }
        found
    }

    #[test]
    fn chunk_boundaries_do_not_matter() {
        assert_eq!(lines(&["a\nb", "c\n", "\nd"], 9), ["a", "bc", ""]);
        assert_eq!(lines(&["a", "b", "\n"], 9), ["ab"]);
    }

    #[test]
    fn an_oversized_line_is_dropped() {
        assert_eq!(lines(&["12345", "678", "9\nshort\n"], 6), ["too long: None", "short"]);
    }

    #[test]
    fn the_request_of_an_oversized_response_is_found() {
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
    fn an_endless_response_is_reported_early() {
        let begun = format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{"a":"{}"#, "x".repeat(300));
        assert_eq!(lines(&[&begun], 100), ["too long: Some(7)"]);
        assert_eq!(lines(&[&begun, &begun, "\nshort\n"], 100), ["too long: Some(7)", "short"]);
    }

    #[test]
    fn a_long_line_is_spooled_and_an_endless_one_is_dropped() {
        let long = "x".repeat(SPOOL_THRESHOLD + (1 << 17));
        let answer = format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{"a":"{long}"}}}}"#);
        let endless = format!(r#"{{"jsonrpc":"2.0","id":8,"result":{{"a":"{long}{long}"}}}}"#);
        let all = format!("{answer}\nshort\n{endless}\nshort\n");
        let chunks: Vec<&str> =
            all.as_bytes().chunks(1 << 16).map(|chunk| str::from_utf8(chunk).unwrap()).collect();
        let limit = answer.len() as u64;
        let found =
            read(LineSplitter::with_spool(Arc::new(Spool::with_limits(limit, 2 * limit))), &chunks);
        let expect = [&*format!("on disk: {answer}"), "short", "too long: Some(8)", "short"];
        assert!(found == expect, "{:?}", found.iter().map(String::len).collect::<Vec<_>>());
    }
}
