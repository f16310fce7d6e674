//! Whether structured content only repeats the text of a result, as most servers do for older clients.

use std::{
    io::{self, BufRead},
    ops::Range,
};

use muster_core::{
    json::{RawObject, scan::JsonScanner},
    spooled::SpooledResult,
};
use serde_json::{Value, value::RawValue};

use super::outline::{Item, ItemKind, Outline, part, unescaped};

/// Whether structured content only repeats content items, some of which are blocks.
pub(super) fn repeats_blocks(
    source: &dyn SpooledResult,
    items: &[Item],
    outline: &Outline,
) -> io::Result<bool> {
    let has_media = items.iter().any(|item| matches!(item.kind, ItemKind::Media(_)));
    match (items.first(), items.last(), &outline.structured) {
        (Some(first), Some(last), Some(structured)) if has_media => {
            repeats_items(source, first.place.start..last.place.end, structured)
        }
        _ => Ok(false),
    }
}

/// Whether structured content only repeats the text.
pub(super) fn repeats(
    source: &dyn SpooledResult,
    items: &[Item],
    outline: &Outline,
) -> io::Result<bool> {
    let mut texts = items.iter().filter_map(|item| match &item.kind {
        ItemKind::Text(text) => Some(text),
        ItemKind::TextResource(..) | ItemKind::Media(_) | ItemKind::Other => None,
    });
    match (texts.next(), texts.next(), &outline.structured) {
        (Some(text), None, Some(structured)) => repeats_one(source, text, structured),
        _ => Ok(false),
    }
}

/// Whether structured content is the text's JSON, or an object around it or around the text itself.
fn repeats_one(
    result: &dyn SpooledResult,
    text: &Range<u64>,
    structured: &Range<u64>,
) -> io::Result<bool> {
    if same(&mut unescaped(result, text)?, &mut part(result, structured)?)? {
        return Ok(true);
    }
    let Some((inside, is_text)) = only_member(result, structured)? else { return Ok(false) };
    if is_text {
        return equal(&mut unescaped(result, text)?, &mut unescaped(result, &inside)?);
    }
    same(&mut unescaped(result, text)?, &mut part(result, &inside)?)
}

/// Whether structured content is an object around the content items, which are at `items`.
fn repeats_items(
    result: &dyn SpooledResult,
    items: Range<u64>,
    structured: &Range<u64>,
) -> io::Result<bool> {
    let Some((list, _)) = only_member(result, structured)? else { return Ok(false) };
    // Without its brackets.
    let inside = list.start + 1..list.end.saturating_sub(1);
    if inside.is_empty() || JsonScanner::new(part(result, &list)?, list.start).peek()? != b'[' {
        return Ok(false);
    }
    same(&mut part(result, &items)?, &mut part(result, &inside)?)
}

/// Whether the structured content of a result in memory repeats its text.
pub(in crate::surface::meta) fn repeats_text(text: &str, structured: &RawValue) -> bool {
    let equal = |value: &RawValue| match value.get().starts_with('"') {
        true => serde_json::from_str(value.get()).is_ok_and(|inside: String| inside == text),
        false => {
            let read = |text| serde_json::from_str::<Value>(text).ok();
            read(text).is_some_and(|said| Some(said) == read(value.get()))
        }
    };
    if equal(structured) {
        return true;
    }
    let members = RawObject::parse(structured).unwrap_or_default();
    let mut members = members.iter();
    match (members.next(), members.next()) {
        (Some((_, only)), None) => equal(only),
        _ => false,
    }
}

/// The only member of an object, and whether it is text.
fn only_member(
    result: &dyn SpooledResult,
    object: &Range<u64>,
) -> io::Result<Option<(Range<u64>, bool)>> {
    let mut scan = JsonScanner::new(part(result, object)?, object.start);
    if scan.peek()? != b'{' {
        return Ok(None);
    }
    let (mut found, mut count) = (None, 0);
    scan.members(|scan, _| {
        count += 1;
        let is_text = scan.peek()? == b'"';
        found = Some((scan.skip()?, is_text));
        Ok(())
    })?;
    Ok(found.filter(|_| count == 1))
}

/// Whether two inputs have the same bytes.
fn equal(one: &mut impl BufRead, other: &mut impl BufRead) -> io::Result<bool> {
    loop {
        let (left, right) = (one.fill_buf()?, other.fill_buf()?);
        let size = left.len().min(right.len());
        if size == 0 {
            return Ok(left.is_empty() && right.is_empty());
        }
        if left.get(..size) != right.get(..size) {
            return Ok(false);
        }
        one.consume(size);
        other.consume(size);
    }
}

/// Whether two JSON values are equal but for whitespace.
fn same(one: &mut impl BufRead, other: &mut impl BufRead) -> io::Result<bool> {
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
