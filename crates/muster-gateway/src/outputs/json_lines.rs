//! JSON of any length as lines: an array by its items, anything else indented.
//!
//! **Invariant:** bytes inside of texts and numbers stay as written; memory use does not depend on the length.

use std::{
    collections::VecDeque,
    io::{self, BufRead, Read},
};

use memchr::memchr2;

/// How JSON is broken into lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineBreaks {
    /// Each item of the outer array is one line. Its brackets and commas are left out.
    Items,
    /// Each member and item, however deep, is one line.
    Indented,
}

/// The lexical state before the next byte.
#[derive(Debug, Clone, Copy)]
enum LexicalState {
    Outside,
    /// In a text.
    Text,
    /// Behind a backslash in a text.
    Escape,
}

/// Reads JSON with other line breaks.
#[derive(Debug)]
pub(super) struct JsonLines<R> {
    input: R,
    breaks: LineBreaks,
    depth: usize,
    state: LexicalState,
    /// Whether nothing followed the last opening bracket yet.
    opened: bool,
    pending: VecDeque<u8>,
}

impl<R: BufRead> JsonLines<R> {
    pub(super) const fn new(input: R, breaks: LineBreaks) -> Self {
        Self {
            input,
            breaks,
            depth: 0,
            state: LexicalState::Outside,
            opened: false,
            pending: VecDeque::new(),
        }
    }

    /// Reads one chunk of the input; false at the end.
    fn refill(&mut self) -> io::Result<bool> {
        while self.pending.is_empty() {
            // Copied, because `take` needs the state while the chunk would borrow it.
            let chunk = self.input.fill_buf()?.to_vec();
            if chunk.is_empty() {
                return Ok(false);
            }
            self.input.consume(chunk.len());
            self.take(&chunk);
        }
        Ok(true)
    }

    fn take(&mut self, chunk: &[u8]) {
        let mut rest = chunk;
        while let Some((byte, behind)) = rest.split_first() {
            match self.state {
                LexicalState::Outside => {
                    self.structure(*byte);
                    rest = behind;
                }
                LexicalState::Escape => {
                    self.pending.push_back(*byte);
                    self.state = LexicalState::Text;
                    rest = behind;
                }
                LexicalState::Text => {
                    let size = memchr2(b'"', b'\\', rest).map_or(rest.len(), |at| at + 1);
                    let (text, behind) = rest.split_at(size);
                    self.pending.extend(text);
                    match text.last() {
                        Some(b'"') => self.state = LexicalState::Outside,
                        Some(b'\\') => self.state = LexicalState::Escape,
                        _ => (),
                    }
                    rest = behind;
                }
            }
        }
    }

    /// Handles a byte outside of texts.
    fn structure(&mut self, byte: u8) {
        if byte.is_ascii_whitespace() {
            return;
        }
        let closes = matches!(byte, b'}' | b']');
        let opened = std::mem::take(&mut self.opened);
        if closes {
            self.depth = self.depth.saturating_sub(1);
        }
        if self.breaks == LineBreaks::Items {
            match (byte, self.depth) {
                (b'[' | b']', 0) => (),
                (b',', 1) => self.pending.push_back(b'\n'),
                _ => self.pending.push_back(byte),
            }
        } else {
            if opened != closes {
                self.new_line();
            }
            self.pending.push_back(byte);
            match byte {
                b',' => self.new_line(),
                b':' => self.pending.push_back(b' '),
                b'{' | b'[' => self.opened = true,
                _ => (),
            }
        }
        match byte {
            b'{' | b'[' => self.depth += 1,
            b'"' => self.state = LexicalState::Text,
            _ => (),
        }
    }

    fn new_line(&mut self) {
        self.pending.push_back(b'\n');
        self.pending.extend(std::iter::repeat_n(b' ', 2 * self.depth));
    }
}

impl<R: BufRead> Read for JsonLines<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.pending.is_empty() && !self.refill()? {
            return Ok(0);
        }
        self.pending.read(out)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Read as _};

    use super::{JsonLines, LineBreaks};

    #[track_caller]
    fn check(breaks: LineBreaks, json: &str, expect: &str) {
        for buffer in [1, 2, 7, 4096] {
            let input = BufReader::with_capacity(buffer, json.as_bytes());
            let mut lines = String::new();
            JsonLines::new(input, breaks).read_to_string(&mut lines).unwrap();
            assert_eq!(lines, expect, "{buffer}");
        }
    }

    #[test]
    fn an_array_has_an_item_on_each_line() {
        let items = LineBreaks::Items;
        check(
            items,
            r#" [ {"a": [1, 2]} , "x, \"y\" ]", [ ], 1e400 ] "#,
            "{\"a\":[1,2]}\n\"x, \\\"y\\\" ]\"\n[]\n1e400",
        );
        check(items, "[]", "");
    }

    #[test]
    fn anything_else_is_indented() {
        let indented = LineBreaks::Indented;
        check(
            indented,
            r#"{"a":[1,{"b":"x:{,\\"}],"c":{},"d":[]}"#,
            "{\n  \"a\": [\n    1,\n    {\n      \"b\": \"x:{,\\\\\"\n    }\n  ],\n  \"c\": {},\n  \"d\": []\n}",
        );
        check(indented, " 17 ", "17");
    }
}
