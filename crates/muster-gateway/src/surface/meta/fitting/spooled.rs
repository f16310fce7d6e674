//! What is stored of a spooled result.

use std::{
    io::{self, BufRead, BufReader, Read},
    ops::Range,
};

use muster_core::{
    json::{scan::JsonScanner, unescape::UnescapeReader},
    spooled::SpooledResult,
};

use super::{Long, MAX_META};
use crate::outputs::{CHUNK, OutputBody, OutputKind};

/// The longest media type.
const MOST_WORD: usize = 1000;

/// The kind and the contents of a single item.
type Single = (OutputKind, Box<dyn Read + Send>);

/// The parts of a result that decide how it is stored.
#[derive(Default)]
struct Parts {
    items: u64,
    /// The text of the first item.
    text: Option<Range<u64>>,
    /// The Base64 data of the first item.
    data: Option<Range<u64>>,
    mime_type: Option<String>,
    structured: Option<Range<u64>>,
}

/// A single text or binary item is stored by itself, anything else as the whole result, as for a result in
/// memory.
pub(super) fn long(bulk: &dyn SpooledResult) -> io::Result<Long> {
    let parts = Parts::of(bulk)?;
    let (kind, body) = match parts.single(bulk)? {
        Some(single) => single,
        None => (OutputKind::Json, bulk.read(0)?),
    };
    let meta = bulk.meta().filter(|meta| meta.get().len() <= MAX_META);
    let beginning = String::new();
    Ok(Long { kind, body: OutputBody::Stream(body), beginning, failed: bulk.failed(), meta })
}

impl Parts {
    fn of(bulk: &dyn SpooledResult) -> io::Result<Self> {
        let mut parts = Self::default();
        let mut scan = JsonScanner::new(BufReader::with_capacity(CHUNK, bulk.read(0)?), 0);
        if scan.peek()? != b'{' {
            return Ok(parts);
        }
        scan.members(|scan, key| match key {
            "content" if scan.peek()? == b'[' => scan.items(|scan| parts.item(scan)),
            "structuredContent" => {
                parts.structured = Some(scan.skip()?);
                Ok(())
            }
            _ => scan.skip().map(drop),
        })?;
        Ok(parts)
    }

    fn item(&mut self, scan: &mut JsonScanner<impl BufRead>) -> io::Result<()> {
        self.items += 1;
        if self.items > 1 || scan.peek()? != b'{' {
            return scan.skip().map(drop);
        }
        scan.members(|scan, key| {
            let is_text = scan.peek()? == b'"';
            match key {
                "text" if is_text => self.text = Some(scan.skip()?),
                "data" if is_text => self.data = Some(scan.skip()?),
                "mimeType" => {
                    let word = scan.read_short(MOST_WORD)?;
                    self.mime_type = word.and_then(|word| serde_json::from_slice(&word).ok());
                }
                _ => return scan.skip().map(drop),
            }
            Ok(())
        })
    }

    fn single(&self, bulk: &dyn SpooledResult) -> io::Result<Option<Single>> {
        if self.items != 1 {
            return Ok(None);
        }
        if let Some(text) = &self.text {
            if let Some(structured) = &self.structured
                && !same(unescaped(bulk, text)?, part(bulk, structured)?)?
            {
                return Ok(None);
            }
            let kind =
                if is_json(unescaped(bulk, text)?)? { OutputKind::Json } else { OutputKind::Text };
            return Ok(Some((kind, Box::new(unescaped(bulk, text)?))));
        }
        let Some(data) = self.data.as_ref().filter(|_| self.structured.is_none()) else {
            return Ok(None);
        };
        let mime_type = self.mime_type.clone().unwrap_or_else(|| "data".to_owned());
        Ok(Some((OutputKind::Binary { mime_type }, Box::new(unescaped(bulk, data)?))))
    }
}

fn part(bulk: &dyn SpooledResult, part: &Range<u64>) -> io::Result<impl BufRead + Send + use<>> {
    let size = part.end.saturating_sub(part.start);
    Ok(BufReader::with_capacity(CHUNK, bulk.read(part.start)?.take(size)))
}

/// The contents of a JSON string, unescaped.
fn unescaped(
    bulk: &dyn SpooledResult,
    text: &Range<u64>,
) -> io::Result<impl BufRead + Send + use<>> {
    let inside = text.start + 1..text.end.saturating_sub(1);
    Ok(BufReader::with_capacity(CHUNK, UnescapeReader::new(part(bulk, &inside)?)))
}

/// Whether a text is one JSON object or array.
fn is_json(text: impl BufRead) -> io::Result<bool> {
    let mut scan = JsonScanner::new(text, 0);
    match scan.peek() {
        Ok(b'{' | b'[') => (),
        Ok(_) => return Ok(false),
        Err(error) => return unless_broken(error),
    }
    match scan.skip() {
        Ok(_) => scan.is_at_end(),
        Err(error) => unless_broken(error),
    }
}

/// Whether two JSON values are equal but for whitespace. Most servers repeat structured content as text.
fn same(one: impl BufRead, other: impl BufRead) -> io::Result<bool> {
    let (mut one, mut other) = (Signs::new(one), Signs::new(other));
    loop {
        match (one.next().transpose()?, other.next().transpose()?) {
            (None, None) => return Ok(true),
            (one, other) if one != other => return Ok(false),
            _ => (),
        }
    }
}

/// The bytes of JSON without whitespace between tokens.
struct Signs<R> {
    bytes: io::Bytes<R>,
    in_text: bool,
    escaped: bool,
}

impl<R: BufRead> Signs<R> {
    fn new(input: R) -> Self {
        Self { bytes: input.bytes(), in_text: false, escaped: false }
    }
}

impl<R: BufRead> Iterator for Signs<R> {
    type Item = io::Result<u8>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let byte = match self.bytes.next()? {
                Ok(byte) => byte,
                error => return Some(error),
            };
            if !self.in_text && byte.is_ascii_whitespace() {
                continue;
            }
            let escaped = std::mem::take(&mut self.escaped);
            match byte {
                b'"' if !escaped => self.in_text = !self.in_text,
                b'\\' if !escaped => self.escaped = true,
                _ => (),
            }
            return Some(Ok(byte));
        }
    }
}

/// Truncated or malformed JSON is not an I/O error.
fn unless_broken(error: io::Error) -> io::Result<bool> {
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData => Ok(false),
        _ => Err(error),
    }
}
