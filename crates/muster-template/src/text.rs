//! Go's strings: bytes that are usually, but not always, UTF-8.
//!
//! `b64dec` yields arbitrary bytes and `trunc` may split a character; the final output is converted to
//! valid UTF-8.

use std::{borrow::Cow, fmt, ops::Deref, rc::Rc};

/// An immutable, cheaply cloned byte string.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Text(Rc<[u8]>);

impl Text {
    /// The text, with U+FFFD for every invalid byte, as Go decodes it.
    pub(crate) fn to_str(&self) -> Cow<'_, str> {
        lossy(&self.0)
    }
}

impl Deref for Text {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.to_str(), f)
    }
}

impl From<&[u8]> for Text {
    fn from(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }
}

impl From<Vec<u8>> for Text {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes.into())
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().into())
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self(text.into_bytes().into())
    }
}

/// Decodes `bytes`, with one U+FFFD for every invalid byte.
pub(crate) fn lossy(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    Cow::Owned(text)
}

/// The characters of `bytes` with their widths; an invalid byte is U+FFFD of width 1.
pub(crate) fn runes(bytes: &[u8]) -> impl Iterator<Item = (char, usize)> {
    bytes.utf8_chunks().flat_map(|chunk| {
        let valid = chunk.valid().chars().map(|c| (c, c.len_utf8()));
        valid.chain(chunk.invalid().iter().map(|_| (char::REPLACEMENT_CHARACTER, 1)))
    })
}

/// Appends `c` as UTF-8.
pub(crate) fn push(bytes: &mut Vec<u8>, c: char) {
    bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
}

/// The position of the first `needle` in `hay`.
pub(crate) fn find(hay: &[u8], needle: &[u8]) -> Option<usize> {
    match needle {
        [] => Some(0),
        [one] => hay.iter().position(|byte| byte == one),
        _ => hay.windows(needle.len()).position(|window| window == needle),
    }
}

/// Splits `hay` at `separator` into at most `limit` pieces; an empty separator splits into characters.
pub(crate) fn split<'a>(hay: &'a [u8], separator: &[u8], limit: Option<usize>) -> Vec<&'a [u8]> {
    let limit = limit.unwrap_or(usize::MAX);
    let (mut pieces, mut rest) = (Vec::new(), hay);
    while pieces.len().saturating_add(1) < limit {
        let (piece, skip) = if separator.is_empty() {
            let Some((_, width)) = runes(rest).next() else { return pieces };
            if width == rest.len() {
                break;
            }
            (width, 0)
        } else {
            let Some(at) = find(rest, separator) else { break };
            (at, separator.len())
        };
        let Some((piece, tail)) = rest.split_at_checked(piece) else { break };
        pieces.push(piece);
        rest = tail.get(skip..).unwrap_or_default();
    }
    if limit > 0 && !(separator.is_empty() && rest.is_empty()) {
        pieces.push(rest);
    }
    pieces
}
