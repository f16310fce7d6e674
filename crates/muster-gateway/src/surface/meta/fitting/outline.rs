//! The outline of a tool's result: the byte ranges of its content items and structured content, without loading
//! them.

use std::{
    io::{self, BufRead, BufReader, Read},
    ops::Range,
    sync::Arc,
};

use muster_core::{
    json::{Raw, RawObject, scan::JsonScanner, unescape::UnescapeReader},
    spooled::SpooledResult,
};
use serde_json::value::RawValue;

use crate::outputs::{CHUNK, block::BlockAbout};

/// The longest media type, URI or name that is read.
const MOST_WORD: usize = 2_000;
/// A result with more items is not taken apart.
const MOST_ITEMS: usize = 20_000;

/// A result in memory.
#[derive(Debug)]
pub(super) struct InlineResult {
    bytes: Arc<[u8]>,
    failed: bool,
    meta: Option<Raw>,
}

impl InlineResult {
    pub(super) fn new(result: &RawValue) -> Self {
        let members = RawObject::parse(result).unwrap_or_default();
        Self {
            bytes: Arc::from(result.get().as_bytes()),
            failed: members.get("isError").is_some_and(|flag| flag.get() == "true"),
            meta: members.get("_meta").map(ToOwned::to_owned),
        }
    }
}

impl SpooledResult for InlineResult {
    fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn failed(&self) -> bool {
        self.failed
    }

    fn meta(&self) -> Option<Raw> {
        self.meta.clone()
    }

    fn read(&self, from: u64) -> io::Result<Box<dyn Read + Send>> {
        let mut reader = io::Cursor::new(Arc::clone(&self.bytes));
        reader.set_position(from);
        Ok(Box::new(reader))
    }
}

/// The parts of a result.
#[derive(Debug, Default)]
pub(super) struct Outline {
    /// Its content items; `None` if the content is not a list, or has too many items.
    pub(super) items: Option<Vec<Item>>,
    pub(super) structured: Option<Range<u64>>,
    /// Other members than `content`, `structuredContent` and `_meta`, in their order.
    pub(super) others: Vec<(String, Range<u64>)>,
}

/// A content item.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) place: Range<u64>,
    pub(super) kind: ItemKind,
}

/// The kind of a content item.
#[derive(Debug)]
pub(super) enum ItemKind {
    /// Text, and its range.
    Text(Range<u64>),
    /// A resource with text, and the range of the text.
    TextResource(BlockAbout, Range<u64>),
    /// An image, audio, binary resource or link.
    Media(BlockAbout),
    /// Anything else.
    Other,
}

impl Outline {
    /// Reads the outline.
    pub(super) fn of(result: &dyn SpooledResult) -> io::Result<Self> {
        let mut outline = Self::default();
        let mut scan = JsonScanner::new(BufReader::with_capacity(CHUNK, result.read(0)?), 0);
        if scan.peek()? != b'{' {
            return Ok(outline);
        }
        scan.members(|scan, key| {
            match key {
                "content" if scan.peek()? == b'[' => {
                    let (mut items, mut count) = (Vec::new(), 0_usize);
                    scan.items(|scan| {
                        count += 1;
                        if count > MOST_ITEMS {
                            return scan.skip().map(drop);
                        }
                        items.push(Item::read(scan)?);
                        Ok(())
                    })?;
                    outline.items = Some(items).filter(|_| count <= MOST_ITEMS);
                }
                "structuredContent" => outline.structured = Some(scan.skip()?),
                "_meta" => scan.skip().map(drop)?,
                _ => outline.others.push((key.to_owned(), scan.skip()?)),
            }
            Ok(())
        })?;
        if let Some(structured) = &outline.structured
            && structured.end - structured.start == 4
            && text_of(result, structured)? == "null"
        {
            outline.structured = None;
        }
        Ok(outline)
    }
}

/// The members of an item or a resource that decide what it is.
#[derive(Default)]
struct Parts {
    r#type: Option<String>,
    mime_type: Option<String>,
    uri: Option<String>,
    text: Option<Range<u64>>,
    data: Option<Range<u64>>,
    resource: Option<Box<Self>>,
}

impl Parts {
    fn read(scan: &mut JsonScanner<impl BufRead>, depth: usize) -> io::Result<Self> {
        let mut parts = Self::default();
        scan.members(|scan, key| {
            let first = scan.peek()?;
            let word = |scan: &mut JsonScanner<_>| -> io::Result<Option<String>> {
                let word = scan.read_short(MOST_WORD)?;
                Ok(word.and_then(|word| serde_json::from_slice(&word).ok()))
            };
            match key {
                "type" => parts.r#type = word(scan)?,
                "mimeType" => parts.mime_type = word(scan)?,
                "uri" => parts.uri = word(scan)?,
                "text" if first == b'"' => parts.text = Some(scan.skip()?),
                "data" | "blob" if first == b'"' => parts.data = Some(scan.skip()?),
                "resource" if first == b'{' && depth == 0 => {
                    parts.resource = Some(Box::new(Self::read(scan, 1)?));
                }
                _ => return scan.skip().map(drop),
            }
            Ok(())
        })?;
        Ok(parts)
    }
}

impl Item {
    fn read(scan: &mut JsonScanner<impl BufRead>) -> io::Result<Self> {
        if scan.peek()? != b'{' {
            return Ok(Self { place: scan.skip()?, kind: ItemKind::Other });
        }
        let start = scan.at();
        let parts = Parts::read(scan, 0)?;
        Ok(Self { place: start..scan.at(), kind: ItemKind::of(parts) })
    }
}

impl ItemKind {
    fn of(parts: Parts) -> Self {
        let size = |place: &Range<u64>| (place.end - place.start).saturating_sub(2);
        let Parts { r#type, mime_type, uri, text, data, resource } = parts;
        let r#type = r#type.unwrap_or_default();
        match (&*r#type, text, data, resource) {
            ("text", Some(text), ..) => Self::Text(text),
            ("image" | "audio", _, Some(data), _) => {
                let data_size = Some(size(&data));
                Self::Media(BlockAbout { r#type, uri: None, mime_type, data_size })
            }
            ("resource_link", ..) => {
                Self::Media(BlockAbout { r#type, uri, mime_type, data_size: None })
            }
            ("resource", _, _, Some(inside)) => {
                let Parts { text, data, uri, mime_type, .. } = *inside;
                let data_size = text.as_ref().or(data.as_ref()).map(size);
                let about = BlockAbout { r#type, uri, mime_type, data_size };
                match (text, data) {
                    (Some(text), _) => Self::TextResource(about, text),
                    (None, Some(_)) => Self::Media(about),
                    (None, None) => Self::Other,
                }
            }
            _ => Self::Other,
        }
    }
}

/// A part of a result.
pub(super) fn part(
    result: &dyn SpooledResult,
    place: &Range<u64>,
) -> io::Result<impl BufRead + Send + use<>> {
    let size = place.end.saturating_sub(place.start);
    Ok(BufReader::with_capacity(CHUNK, result.read(place.start)?.take(size)))
}

/// A part of a result, in memory.
pub(super) fn text_of(result: &dyn SpooledResult, place: &Range<u64>) -> io::Result<String> {
    let mut bytes = Vec::new();
    part(result, place)?.read_to_end(&mut bytes)?;
    Ok(String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

/// A JSON value of a result, in memory.
pub(super) fn raw_of(result: &dyn SpooledResult, place: &Range<u64>) -> io::Result<Raw> {
    Ok(RawValue::from_string(text_of(result, place)?)?)
}

/// The contents of a JSON text, unescaped.
pub(super) fn unescaped(
    result: &dyn SpooledResult,
    text: &Range<u64>,
) -> io::Result<impl BufRead + Send + use<>> {
    let inside = text.start + 1..text.end.saturating_sub(1);
    Ok(BufReader::with_capacity(CHUNK, UnescapeReader::new(part(result, &inside)?)))
}
