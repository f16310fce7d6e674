//! The preview of a stored output: enough to see what it is and where to look.

use std::io::{self, Read as _, Seek as _, SeekFrom};

use muster_core::token_estimate;

use super::{
    OutputKind, StoredOutput,
    excerpt::{BYTES_PER_TOKEN, valid},
    shape::Shape,
};

/// The parts of an output that a preview is made of, for any size up to a budget.
#[derive(Debug, Default)]
pub struct Preview {
    beginning: String,
    /// The end of a text, if the beginning is not all of it.
    end: Option<String>,
    shape: Option<Shape>,
}

impl Preview {
    /// Reads what a preview of at most `budget` tokens may show.
    pub fn read(kept: &StoredOutput, budget: usize) -> io::Result<Self> {
        let shape = |part| kept.part(&part).and_then(Shape::read).ok();
        let structure = kept.structure.clone().and_then(shape);
        match kept.kind {
            OutputKind::Binary { .. } => return Ok(Self::default()),
            OutputKind::Json => {
                if let Some(shape) = shape(0..kept.bytes) {
                    return Ok(Self { shape: Some(shape), ..Self::default() });
                }
            }
            OutputKind::Text => (),
        }
        let most = (budget * BYTES_PER_TOKEN) as u64;
        let piece = |start: u64| -> io::Result<String> {
            let mut file = kept.open()?;
            file.seek(SeekFrom::Start(start))?;
            let mut bytes = Vec::new();
            file.take(most.min(kept.bytes - start)).read_to_end(&mut bytes)?;
            Ok(valid(&bytes, start + bytes.len() as u64 >= kept.bytes).into_owned())
        };
        let end = match kept.bytes > most {
            true => Some(piece(kept.bytes - most)?),
            false => None,
        };
        Ok(Self { beginning: piece(0)?, end, shape: structure })
    }

    /// The shape of JSON within `room` tokens, if there is some.
    pub fn shape_within(&self, room: usize) -> Option<String> {
        Some(self.shape.as_ref()?.within(room))
    }

    /// The beginning and the end of text, then the shape of JSON, within `room` tokens.
    pub fn within(&self, room: usize) -> String {
        let Some(shape) = &self.shape else { return self.text(room) };
        if self.beginning.is_empty() {
            return shape.within(room);
        }
        let text = self.text(room / 2);
        let left = room.saturating_sub(token_estimate::estimate(&text) + 2);
        format!("{text}\n\n{}", shape.within(left))
    }

    /// The first and the last lines, or all of them.
    fn text(&self, room: usize) -> String {
        if self.end.is_none() && !token_estimate::exceeds(&self.beginning, room) {
            return self.beginning.clone();
        }
        let head = token_estimate::prefix(&self.beginning, room * 3 / 4);
        let head = head.rfind('\n').and_then(|end| head.get(..end)).unwrap_or(head);
        let rest = match &self.end {
            Some(end) => end,
            None => self.beginning.get(head.len()..).unwrap_or_default(),
        };
        let left = room.saturating_sub(token_estimate::estimate(head) + 4);
        let tail = token_estimate::suffix(rest, left.min(room / 4));
        let tail = tail.find('\n').and_then(|end| tail.get(end + 1..)).unwrap_or_default();
        if tail.trim().is_empty() { format!("{head}\n…") } else { format!("{head}\n…\n{tail}") }
    }
}

/// How to read the rest.
pub fn note(kept: &StoredOutput) -> String {
    let StoredOutput { handle, bytes, lines, kind, blocks, structure, .. } = kept;
    let (what, how) = match kind {
        OutputKind::Text if structure.is_some() => (
            format!("text, {lines} lines, {bytes} bytes, and JSON; the shape of the JSON is above"),
            "page the text with offset or line, or use grep, tail, count; select JSON with path",
        ),
        OutputKind::Text => (
            format!("text, {lines} lines, {bytes} bytes"),
            "page with offset or line, or use grep, tail, count",
        ),
        OutputKind::Json => (
            format!("JSON, {bytes} bytes; its shape is above"),
            "select with path such as $.items[0], alone or with grep, line, tail, count",
        ),
        OutputKind::Binary { .. } => {
            let blocks: Vec<String> = (1..)
                .zip(blocks)
                .map(|(number, block)| {
                    let about = &block.about;
                    let media = about.mime_type.as_ref().unwrap_or(&about.r#type);
                    let size = about.data_size.unwrap_or_default();
                    format!("block {number} is {media}, {size} bytes of Base64")
                })
                .collect();
            (blocks.join(", "), "fetch it with block")
        }
    };
    format!("[kept as {handle}: {what}; get_output {{\"handle\":\"{handle}\"}}: {how}]")
}
