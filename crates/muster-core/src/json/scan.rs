//! A streaming JSON scanner for documents that are too large for memory.
//!
//! Only the structure is checked: readers of a part validate it themselves.
//!
//! **Invariant:** memory use is bounded by the input buffer, whatever the length of a value.

use std::{
    io::{self, BufRead},
    ops::Range,
};

use memchr::memchr2;

/// The longest prefix of a key that is read; no known key is longer.
const MAX_KEY: usize = 1024;

/// A JSON scanner that tracks its byte offset.
#[derive(Debug)]
pub struct JsonScanner<R> {
    input: R,
    at: u64,
}

impl<R: BufRead> JsonScanner<R> {
    /// Scans `input`, whose first byte has the offset `at`.
    pub const fn new(input: R, at: u64) -> Self {
        Self { input, at }
    }

    /// The offset of the next byte.
    pub const fn at(&self) -> u64 {
        self.at
    }

    /// The next byte that is not white space, without consuming it.
    pub fn peek(&mut self) -> io::Result<u8> {
        loop {
            let chunk = self.input.fill_buf()?;
            if chunk.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let size = chunk.len();
            let blanks = chunk.iter().position(|byte| !byte.is_ascii_whitespace());
            let found = blanks.and_then(|at| chunk.get(at).copied());
            self.consume(blanks.unwrap_or(size));
            if let Some(byte) = found {
                return Ok(byte);
            }
        }
    }

    /// Whether only white space is left.
    pub fn is_at_end(&mut self) -> io::Result<bool> {
        match self.peek() {
            Ok(_) => Ok(false),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Skips one value and returns its byte range.
    pub fn skip(&mut self) -> io::Result<Range<u64>> {
        self.skip_into(&mut |_| ())
    }

    /// Skips one value, passes its bytes to `sink` in chunks and returns its byte range.
    pub fn skip_into(&mut self, sink: &mut dyn FnMut(&[u8])) -> io::Result<Range<u64>> {
        let first = self.peek()?;
        let begin = self.at;
        match first {
            b'"' => self.text(sink)?,
            b'{' | b'[' => self.compound(sink)?,
            _ => self.scalar(sink)?,
        }
        Ok(begin..self.at)
    }

    /// Skips one value and returns it if it has at most `most` bytes.
    pub fn read_short(&mut self, most: usize) -> io::Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        let mut fits = true;
        self.skip_into(&mut |bytes| {
            fits &= value.len() + bytes.len() <= most;
            if fits {
                value.extend_from_slice(bytes);
            }
        })?;
        Ok(fits.then_some(value))
    }

    /// Visits the members of an object. `each` receives every key and must consume its value.
    pub fn members(
        &mut self,
        mut each: impl FnMut(&mut Self, &str) -> io::Result<()>,
    ) -> io::Result<()> {
        self.expect(b'{')?;
        if self.peek()? == b'}' {
            return self.expect(b'}');
        }
        loop {
            if self.peek()? != b'"' {
                return Err(malformed());
            }
            let key = self.key()?;
            self.expect(b':')?;
            each(self, &key)?;
            match self.peek()? {
                b',' => self.expect(b',')?,
                _ => return self.expect(b'}'),
            }
        }
    }

    /// Visits the items of an array. `each` must consume an item.
    pub fn items(&mut self, mut each: impl FnMut(&mut Self) -> io::Result<()>) -> io::Result<()> {
        self.expect(b'[')?;
        if self.peek()? == b']' {
            return self.expect(b']');
        }
        loop {
            each(self)?;
            match self.peek()? {
                b',' => self.expect(b',')?,
                _ => return self.expect(b']'),
            }
        }
    }

    /// Consumes one structural character.
    fn expect(&mut self, byte: u8) -> io::Result<()> {
        if self.peek()? != byte {
            return Err(malformed());
        }
        self.consume(1);
        Ok(())
    }

    fn key(&mut self) -> io::Result<String> {
        let mut key = Vec::new();
        self.text(&mut |bytes| {
            let room = MAX_KEY.saturating_sub(key.len());
            key.extend(bytes.iter().take(room));
        })?;
        let read = serde_json::from_slice(&key);
        Ok(read.unwrap_or_else(|_| String::from_utf8_lossy(&key).into_owned()))
    }

    fn consume(&mut self, size: usize) {
        self.input.consume(size);
        self.at += size as u64;
    }

    /// Consumes chunks until `end_of` returns the end within one.
    fn until(
        &mut self,
        sink: &mut dyn FnMut(&[u8]),
        mut end_of: impl FnMut(&[u8]) -> Option<usize>,
    ) -> io::Result<()> {
        loop {
            let chunk = self.input.fill_buf()?;
            if chunk.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let end = end_of(chunk);
            let size = end.unwrap_or(chunk.len());
            sink(chunk.get(..size).unwrap_or_default());
            self.consume(size);
            if end.is_some() {
                return Ok(());
            }
        }
    }

    fn text(&mut self, sink: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        let mut text = StringState::default();
        let mut opened = false;
        self.until(sink, |chunk| {
            let from = usize::from(!std::mem::replace(&mut opened, true));
            text.end(chunk, from)
        })
    }

    fn compound(&mut self, sink: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        let (mut depth, mut text) = (0_u64, None::<StringState>);
        self.until(sink, |chunk| {
            let mut at = 0;
            loop {
                if let Some(inside) = &mut text {
                    at = inside.end(chunk, at)?;
                    text = None;
                }
                let rest = chunk.get(at..).unwrap_or_default();
                at += rest.iter().position(|byte| is_structure(*byte))?;
                match chunk.get(at) {
                    Some(b'"') => text = Some(StringState::default()),
                    Some(b'{' | b'[') => depth += 1,
                    _ => depth = depth.saturating_sub(1),
                }
                at += 1;
                if depth == 0 {
                    return Some(at);
                }
            }
        })
    }

    /// A number or a literal. It ends at the first byte that cannot be part of it, or at the end of
    /// input.
    fn scalar(&mut self, sink: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        let belongs = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
        let begin = self.at;
        let ended = self.until(sink, |chunk| chunk.iter().position(|byte| !belongs(byte)));
        match ended {
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => Err(error),
            _ if self.at == begin => Err(malformed()),
            _ => Ok(()),
        }
    }
}

/// The state of a string that may span chunks.
#[derive(Default)]
struct StringState {
    escaped: bool,
}

impl StringState {
    /// The position after the closing quote, if it is in the chunk.
    fn end(&mut self, chunk: &[u8], mut at: usize) -> Option<usize> {
        loop {
            if std::mem::take(&mut self.escaped) {
                if at >= chunk.len() {
                    self.escaped = true;
                    return None;
                }
                at += 1;
            }
            at += memchr2(b'"', b'\\', chunk.get(at..)?)?;
            if chunk.get(at) == Some(&b'"') {
                return Some(at + 1);
            }
            self.escaped = true;
            at += 1;
        }
    }
}

const fn is_structure(byte: u8) -> bool {
    matches!(byte, b'"' | b'{' | b'}' | b'[' | b']')
}

fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "not JSON")
}

#[cfg(test)]
mod tests {
    use std::{io::BufReader, ops::Range};

    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::JsonScanner;

    /// Every member of an object with its text.
    fn members(text: &str, buffer: usize) -> Option<Vec<(String, String)>> {
        let mut scan = JsonScanner::new(BufReader::with_capacity(buffer, text.as_bytes()), 0);
        let mut found = Vec::new();
        let read = scan.members(|scan, key| {
            let range = scan.skip()?;
            let (begin, end) = (range.start.try_into().unwrap(), range.end.try_into().unwrap());
            found.push((key.to_owned(), text.get::<Range<usize>>(begin..end).unwrap().to_owned()));
            Ok(())
        });
        read.ok().map(|()| found)
    }

    #[test]
    fn members_are_found_verbatim() {
        let text = r#" { "a" : 1.50e+3 ,"b\n":"x\"y\\","c":[ {"}":"]"} , "\\" ],"d":null,"e":{}} "#;
        let expect = [
            ("a", "1.50e+3"),
            ("b\n", r#""x\"y\\""#),
            ("c", r#"[ {"}":"]"} , "\\" ]"#),
            ("d", "null"),
            ("e", "{}"),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()));
        for buffer in 1..20 {
            assert_eq!(members(text, buffer).unwrap(), expect, "{buffer}");
        }
        assert_eq!(members("{}", 8), Some(Vec::new()));
    }

    #[test]
    fn malformed_and_truncated_input_is_rejected() {
        for text in ["", "[]", "5", r#"{"a"}"#, r#"{"a":}"#, r#"{"a":"x"#, r#"{"a":[1}"#, "{1:2}"] {
            assert_eq!(members(text, 4), None, "{text}");
        }
    }

    #[test]
    fn short_values_are_read_and_long_ones_skipped() {
        let text = r#"[12,"long enough",true]"#;
        let mut scan = JsonScanner::new(BufReader::with_capacity(3, text.as_bytes()), 100);
        let mut found = Vec::new();
        scan.items(|scan| {
            found.push(scan.read_short(5)?.map(|value| String::from_utf8(value).unwrap()));
            Ok(())
        })
        .unwrap();
        assert_eq!(found, [Some("12".to_owned()), None, Some("true".to_owned())]);
        assert_eq!(scan.at(), 100 + text.len() as u64);
    }

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<i32>().prop_map(|number| json!(number)),
            "[\\PC\\\\\"{}\\[\\]]{0,9}".prop_map(Value::String),
        ];
        leaf.prop_recursive(3, 20, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
                prop::collection::btree_map("\\PC{0,5}", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn it_agrees_with_the_reader_of_all_others(value in json(), buffer in 1_usize..9) {
            let text = value.to_string();
            let found = members(&text, buffer);
            let expect = value.as_object().map(|members| {
                members.iter().map(|(key, value)| (key.clone(), value.to_string())).collect()
            });
            prop_assert_eq!(found, expect);
        }

        #[test]
        fn no_input_panics(text in ".*") {
            drop(members(&text, 4));
        }
    }
}
