//! The reply that a result becomes: text within the budget, and content blocks beside it.

use std::{borrow::Cow, io, ops::Range};

use muster_core::{
    call::Outcome,
    json::{Raw, RawObject, raw},
    spooled::SpooledResult,
    token_estimate,
};
use serde::Serialize;
use serde_json::value::RawValue;

use super::{
    MAX_META,
    outline::{Item, ItemKind, Outline, raw_of},
};
use crate::{
    outputs::{OutputKind, StoredOutput, block::BlockAbout},
    surface::meta::envelope::{self, Text},
};

/// The key of a stored output in `_meta`.
const OUTPUT: &str = "muster/output";
/// The longest structured content that repeats blocks and is passed on outside of an envelope, in bytes.
const MAX_REPEATED_BLOCKS: u64 = 256 * 1024;

/// The reply to a call.
#[derive(Debug, Clone, Default)]
pub(in crate::surface::meta) struct FittedReply {
    /// A piece for each content item.
    pub(super) content: Vec<Piece>,
    /// The preview of the stored output, before the content.
    pub(super) preview: Option<String>,
    /// The note about an excerpt in place of a preview. It names the handle, so the text need not repeat it in `_meta`.
    pub(super) note: Option<String>,
    pub(super) is_error: Option<Raw>,
    pub(super) structured: Option<Raw>,
    /// Whether structured content is part of the text. It need not be if the text says the same.
    pub(super) structured_inside: bool,
    /// Whether structured content only repeats the content, with its blocks. It is left out of the envelope.
    pub(super) repeats_blocks: bool,
    others: Vec<(String, Raw)>,
    meta: Option<Raw>,
    pub(super) stored: Option<StoredOutput>,
}

/// A content item of the reply, or what replaces it.
#[derive(Debug, Clone)]
pub(super) enum Piece {
    /// It is not loaded yet.
    Later(Range<u64>),
    /// It is part of the text.
    Own(Raw),
    /// It is a separate block.
    Lifted { about: BlockAbout, block: Raw, is_text: bool },
    /// It is stored, as the block with this number.
    Kept { about: BlockAbout, number: usize },
    /// Its text is stored, and named in the text.
    Stored(BlockAbout),
    /// Its text is stored.
    Gone,
}

/// The text in place of a block.
#[derive(Serialize)]
struct Placeholder<'a> {
    #[serde(flatten)]
    about: &'a BlockAbout,
    /// The index of the block in the content of the reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    block: Option<usize>,
    /// The arguments that fetch it.
    #[serde(skip_serializing_if = "Option::is_none")]
    get_output: Option<Fetch<'a>>,
}

#[derive(Serialize)]
struct Fetch<'a> {
    handle: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    block: Option<usize>,
}

/// The description of a stored output in `_meta`.
#[derive(Serialize)]
struct About<'a> {
    handle: &'a str,
    #[serde(flatten)]
    kind: &'a OutputKind,
    bytes: u64,
    lines: u64,
    expires: i64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    blocks: Vec<&'a BlockAbout>,
}

impl FittedReply {
    /// A reply without contents.
    pub(super) fn new(source: &dyn SpooledResult, outline: &Outline) -> io::Result<Self> {
        let flag = outline.others.iter().rev().find(|(key, _)| key == "isError");
        // Only a value as short as `false` can be the flag.
        let flag = flag.filter(|(_, place)| place.end - place.start <= 5);
        let is_error = flag.map(|(_, place)| raw_of(source, place)).transpose()?;
        Ok(Self { is_error, ..Self::default() })
    }

    /// An empty reply for output that is not part of a result.
    pub(super) fn failed(failed: bool) -> Self {
        Self { is_error: Some(raw(&failed)), ..Self::default() }
    }

    /// Loads everything that is not loaded yet.
    pub(super) fn load(
        &mut self,
        source: &dyn SpooledResult,
        outline: &Outline,
        items: &[Item],
    ) -> io::Result<()> {
        for (piece, item) in self.content.iter_mut().zip(items) {
            let Piece::Later(place) = &*piece else { continue };
            let block = raw_of(source, place)?;
            *piece = match &item.kind {
                ItemKind::TextResource(about, _) => {
                    Piece::Lifted { about: about.clone(), block, is_text: true }
                }
                ItemKind::Text(_) | ItemKind::Media(_) | ItemKind::Other => Piece::Own(block),
            };
        }
        self.meta = source.meta();
        let structured = outline
            .structured
            .as_ref()
            .filter(|place| !self.repeats_blocks || place.end - place.start <= MAX_REPEATED_BLOCKS);
        self.structured = structured.map(|place| raw_of(source, place)).transpose()?;
        self.load_others(source, outline, u64::MAX)
    }

    /// Loads everything that a preview does not replace.
    pub(super) fn load_around_preview(
        &mut self,
        source: &dyn SpooledResult,
        outline: &Outline,
        items: &[Item],
        structured: Option<&Range<u64>>,
    ) -> io::Result<()> {
        for (piece, item) in self.content.iter_mut().zip(items) {
            let Piece::Later(place) = &*piece else { continue };
            *piece = match &item.kind {
                ItemKind::Text(_) => Piece::Gone,
                ItemKind::TextResource(about, _) => Piece::Stored(about.clone()),
                ItemKind::Media(_) | ItemKind::Other => Piece::Own(raw_of(source, place)?),
            };
        }
        self.meta = source.meta().filter(|meta| meta.get().len() <= MAX_META);
        self.structured = structured.map(|place| raw_of(source, place)).transpose()?;
        self.structured_inside = structured.is_some();
        self.load_others(source, outline, MAX_META as u64)
    }

    /// Loads the other members of a result, if they are short in total.
    fn load_others(
        &mut self,
        source: &dyn SpooledResult,
        outline: &Outline,
        most: u64,
    ) -> io::Result<()> {
        let others = outline.others.iter().filter(|(key, _)| key != "isError");
        let size: u64 = others.clone().map(|(_, place)| place.end - place.start).sum();
        if size <= most {
            for (key, place) in others {
                self.others.push((key.clone(), raw_of(source, place)?));
            }
        }
        Ok(())
    }

    /// The blocks whose contents are text.
    pub(super) fn embedded_texts(&self) -> impl Iterator<Item = &str> {
        self.content.iter().filter_map(|piece| match piece {
            Piece::Lifted { block, is_text: true, .. } => Some(block.get()),
            _ => None,
        })
    }

    /// The tokens of its text in the envelope.
    pub(super) fn cost(&self) -> usize {
        token_estimate::estimate(self.inside(1).to_raw().get())
    }

    /// The texts before the content.
    fn remarks(&self) -> impl Iterator<Item = &str> {
        self.preview.as_deref().into_iter().chain(self.note.as_deref())
    }

    /// The result as JSON text, with placeholders for blocks, the first of which is `first` in the content of the reply.
    fn inside(&self, first: usize) -> RawObject<'_> {
        let mut content: Vec<Cow<'_, RawValue>> = Vec::new();
        content.extend(self.remarks().map(|text| Cow::Owned(raw(&Text::of(text)))));
        let mut blocks = first..;
        for piece in &self.content {
            content.push(match piece {
                Piece::Later(_) | Piece::Gone => continue,
                Piece::Own(item) => Cow::Borrowed(&**item),
                Piece::Lifted { about, .. } => {
                    let block = blocks.next();
                    Cow::Owned(raw(&Placeholder { about, block, get_output: None }))
                }
                Piece::Kept { about, number } => {
                    let get_output = Some(Fetch { handle: self.handle(), block: Some(*number) });
                    Cow::Owned(raw(&Placeholder { about, block: None, get_output }))
                }
                Piece::Stored(about) => {
                    let get_output = Some(Fetch { handle: self.handle(), block: None });
                    Cow::Owned(raw(&Placeholder { about, block: None, get_output }))
                }
            });
        }
        let mut inside = RawObject::new();
        inside.set("isError", Cow::Borrowed(self.is_error.as_deref().unwrap_or(RawValue::FALSE)));
        inside.set_value("content", &content);
        if let Some(structured) = self.structured.as_deref().filter(|_| self.structured_inside) {
            inside.set("structuredContent", Cow::Borrowed(structured));
        }
        let meta = if self.note.is_some() { self.meta.clone() } else { self.meta() };
        if let Some(meta) = meta {
            inside.set("_meta", Cow::Owned(meta));
        }
        for (key, value) in &self.others {
            inside.append(&**key, Cow::Borrowed(&**value));
        }
        inside
    }

    /// The handle of the stored output, or a placeholder of the same length.
    fn handle(&self) -> &str {
        self.stored.as_ref().map_or("out_000000000000000000000000", |stored| &stored.handle)
    }

    /// The `_meta` of the tool, with the description of the stored output.
    fn meta(&self) -> Option<Raw> {
        let Some(stored) = &self.stored else { return self.meta.clone() };
        let StoredOutput { handle, kind, bytes, lines, expires, .. } = stored;
        let blocks = stored.blocks.iter().map(|block| &block.about).collect();
        let about = About { handle, kind, bytes: *bytes, lines: *lines, expires: *expires, blocks };
        let mut meta = self.meta.as_deref().and_then(RawObject::parse).unwrap_or_default();
        meta.set(OUTPUT, Cow::Owned(raw(&about)));
        Some(meta.to_raw())
    }

    /// The reply of `call_tool`: the text, then the blocks.
    pub(in crate::surface::meta) fn enclosed(&self, repairs: &[String], first: usize) -> Outcome {
        let blocks = self.content.iter().filter_map(|piece| match piece {
            Piece::Lifted { block, .. } => Some(&**block),
            _ => None,
        });
        let (inside, meta) = (self.inside(first), self.meta());
        let structured = self.structured.as_deref().filter(|_| !self.repeats_blocks);
        envelope::enclose(&inside, blocks, structured, meta.as_deref(), repairs)
    }

    /// The reply without an envelope.
    pub(super) fn direct(&self) -> Outcome {
        let mut content: Vec<Cow<'_, RawValue>> = Vec::new();
        content.extend(self.remarks().map(|text| Cow::Owned(raw(&Text::of(text)))));
        for piece in &self.content {
            content.push(match piece {
                Piece::Later(_) | Piece::Gone | Piece::Stored(_) => continue,
                Piece::Own(item) | Piece::Lifted { block: item, .. } => Cow::Borrowed(&**item),
                Piece::Kept { about, number } => {
                    let media = about.mime_type.as_ref().unwrap_or(&about.r#type);
                    let size = about.data_size.unwrap_or_default();
                    let handle = self.handle();
                    Cow::Owned(raw(&Text::of(&format!(
                        "[{media}, {size} bytes of Base64, kept: get_output \
                         {{\"handle\":\"{handle}\",\"block\":{number}}}]"
                    ))))
                }
            });
        }
        let mut result = RawObject::new();
        result.set_value("content", &content);
        if let Some(structured) = &self.structured {
            result.set("structuredContent", Cow::Borrowed(&**structured));
        }
        result.set("isError", Cow::Borrowed(self.is_error.as_deref().unwrap_or(RawValue::FALSE)));
        if let Some(meta) = self.meta() {
            result.set("_meta", Cow::Owned(meta));
        }
        for (key, value) in &self.others {
            result.append(&**key, Cow::Borrowed(&**value));
        }
        Outcome::Raw(result.to_raw())
    }
}
