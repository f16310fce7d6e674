//! The preview of a stored output: enough to see what it is and where to look.

use std::io::{self, BufRead, BufReader};

use muster_core::token_estimate;

use super::{
    CHUNK, OutputKind, StoredOutput,
    excerpt::ExcerptRequest,
    shape::{DEEPEST, Shape},
};

/// The number of last lines in a preview of text.
const TAIL: usize = 5;

/// The beginning and the end of text, the shape of JSON, nothing of anything else; within `budget` tokens.
pub fn of(kind: &OutputKind, text: &str, budget: usize) -> String {
    match kind {
        OutputKind::Binary { .. } => String::new(),
        OutputKind::Json => shaped(text.as_bytes(), budget).unwrap_or_else(|_| ends(text, budget)),
        OutputKind::Text => ends(text, budget),
    }
}

/// The preview of an output that is not in memory. `beginning` is the known start of a text.
pub fn of_kept(kept: &StoredOutput, beginning: &str, budget: usize) -> String {
    let shape = match kept.kind {
        OutputKind::Binary { .. } => return String::new(),
        OutputKind::Json => {
            kept.open().and_then(|file| shaped(BufReader::with_capacity(CHUNK, file), budget)).ok()
        }
        OutputKind::Text => None,
    };
    shape.unwrap_or_else(|| ends_of_kept(kept, beginning, budget))
}

/// As much of a shape as fits.
fn shaped(json: impl BufRead, budget: usize) -> io::Result<String> {
    let shape = Shape::read(json)?;
    let mut shown = (0..=DEEPEST).rev().map(|depth| shape.to_value(depth).to_string());
    Ok(shown.find(|shown| !token_estimate::exceeds(shown, budget)).unwrap_or_default())
}

fn ends_of_kept(kept: &StoredOutput, beginning: &str, budget: usize) -> String {
    let piece = |look: &ExcerptRequest, budget| kept.look(look, budget).map(|piece| piece.text);
    let room = budget * 7 / 10;
    let head = match beginning.is_empty() {
        true => piece(&ExcerptRequest::default(), room).unwrap_or_default(),
        false => token_estimate::prefix(beginning, room).to_owned(),
    };
    let head = head.rfind('\n').and_then(|end| head.get(..end)).unwrap_or(&head);
    let tail = ExcerptRequest { tail: Some(TAIL), ..ExcerptRequest::default() };
    let tail = piece(&tail, budget / 5).unwrap_or_default();
    format!("{head}\n…\n{tail}")
}

/// How to read the rest.
pub fn note(kept: &StoredOutput) -> String {
    let StoredOutput { handle, bytes, lines, kind, .. } = kept;
    let (what, how) = match kind {
        OutputKind::Text => (
            format!("text, {lines} lines, {bytes} bytes"),
            "page with offset or line, or use grep, tail, count",
        ),
        OutputKind::Json => (
            format!("JSON, {bytes} bytes; its shape is above"),
            "select with path such as $.items[0], or use grep, count, offset",
        ),
        OutputKind::Binary { mime_type } => {
            (format!("{mime_type}, {bytes} bytes of Base64"), "page with offset")
        }
    };
    format!("[kept as {handle}: {what}; get_output {{\"handle\":\"{handle}\"}}: {how}]")
}

/// The first and the last lines.
fn ends(text: &str, budget: usize) -> String {
    let head = token_estimate::prefix(text, budget * 7 / 10);
    let head = head.rfind('\n').and_then(|end| head.get(..end)).unwrap_or(head);
    let rest = text.get(head.len()..).unwrap_or_default();
    let tail = token_estimate::suffix(rest, budget / 5);
    let tail = tail.find('\n').and_then(|end| tail.get(end + 1..)).unwrap_or_default();
    if tail.trim().is_empty() { format!("{head}\n…") } else { format!("{head}\n…\n{tail}") }
}
