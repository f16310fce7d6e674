//! Reads lines of limited length.

use std::io;

use tokio::io::{AsyncBufReadExt as _, BufReader};

use super::standard_streams::Input;

/// The longest message: an argument may contain a large file, but must not exhaust memory.
pub const LIMIT: usize = 64 * 1024 * 1024;

/// The next line.
#[derive(Debug)]
pub enum Line {
    /// A line without its end.
    Text(String),
    /// A line beyond the limit, which was dropped.
    TooLong,
    /// The end of the input.
    End,
}

/// Reads lines. Cancel-safe: a partial line stays buffered.
#[derive(Debug)]
pub struct LineReader {
    input: BufReader<Input>,
    line: Vec<u8>,
    too_long: bool,
}

impl LineReader {
    /// Reads lines from `input`.
    pub fn new(input: Input) -> Self {
        Self {
            input: BufReader::with_capacity(16 * 1024, input),
            line: Vec::new(),
            too_long: false,
        }
    }

    /// The next line.
    pub async fn next(&mut self) -> io::Result<Line> {
        loop {
            let chunk = self.input.fill_buf().await?;
            if chunk.is_empty() {
                let rest = std::mem::take(&mut self.line);
                return Ok(if rest.is_empty() { Line::End } else { text(rest) });
            }
            let end = chunk.iter().position(|byte| *byte == b'\n');
            let (part, used) = match end {
                Some(end) => (chunk.get(..end).unwrap_or_default(), end + 1),
                None => (chunk, chunk.len()),
            };
            if self.line.len() + part.len() > LIMIT {
                self.too_long = true;
                self.line = Vec::new();
            }
            if !self.too_long {
                self.line.extend_from_slice(part);
            }
            self.input.consume(used);
            if end.is_some() {
                let line = std::mem::take(&mut self.line);
                if std::mem::take(&mut self.too_long) {
                    return Ok(Line::TooLong);
                }
                return Ok(text(line));
            }
        }
    }
}

/// Bytes that are not UTF-8 become replacement characters, which JSON strings may contain.
fn text(line: Vec<u8>) -> Line {
    Line::Text(
        String::from_utf8(line)
            .unwrap_or_else(|err| String::from_utf8_lossy(err.as_bytes()).into_owned()),
    )
}
