//! What is shown of an answer that is kept: enough to know what it is and where to look.

use muster_core::tokens;
use serde_json::{Map, Value};

use super::{Kept, Kind};

/// So many members of an object are shown.
const MOST_MEMBERS: usize = 40;
/// A text in a shape is cut after so many letters.
const MOST_TEXT: usize = 60;
/// A JSON value that is longer is shown by its beginning.
const MOST_JSON: usize = 16 << 20;

/// The beginning and the end of text, the shape of JSON, nothing of anything else; in no more than
/// `budget` tokens.
pub fn of(kind: &Kind, text: &str, budget: usize) -> String {
    match kind {
        Kind::Binary { .. } => String::new(),
        Kind::Json if text.len() <= MOST_JSON => match serde_json::from_str::<Value>(text) {
            Ok(value) => (0..=4)
                .rev()
                .map(|depth| shape(&value, depth).to_string())
                .find(|shape| !tokens::exceeds(shape, budget))
                .unwrap_or_default(),
            Err(_) => ends(text, budget),
        },
        Kind::Json | Kind::Text => ends(text, budget),
    }
}

/// How to get at the rest.
pub fn note(kept: &Kept) -> String {
    let Kept { handle, bytes, lines, kind, .. } = kept;
    let (what, how) = match kind {
        Kind::Text => (
            format!("text, {lines} lines, {bytes} bytes"),
            "page with offset or line, or use grep, tail, count",
        ),
        Kind::Json => (
            format!("JSON, {bytes} bytes; its shape is above"),
            "select with path such as $.items[0], or use grep, count, offset",
        ),
        Kind::Binary { mime_type } => {
            (format!("{mime_type}, {bytes} bytes of Base64"), "page with offset")
        }
    };
    format!("[kept as {handle}: {what}; get_output {{\"handle\":\"{handle}\"}}: {how}]")
}

/// The first lines and the last ones.
fn ends(text: &str, budget: usize) -> String {
    let head = tokens::prefix(text, budget * 7 / 10);
    let head = head.rfind('\n').and_then(|end| head.get(..end)).unwrap_or(head);
    let rest = text.get(head.len()..).unwrap_or_default();
    let tail = tokens::suffix(rest, budget / 5);
    let tail = tail.find('\n').and_then(|end| tail.get(end + 1..)).unwrap_or_default();
    if tail.trim().is_empty() { format!("{head}\n…") } else { format!("{head}\n…\n{tail}") }
}

/// A value with its lists cut to the first item and their lengths, and its texts cut.
fn shape(value: &Value, depth: usize) -> Value {
    match value {
        Value::Array(items) => match items.first() {
            Some(first) if depth > 0 => {
                let length = format!("… {} items", items.len());
                Value::Array(vec![shape(first, depth - 1), Value::String(length)])
            }
            _ => Value::String(format!("[{} items]", items.len())),
        },
        Value::Object(members) if depth > 0 => {
            let shown = members.iter().take(MOST_MEMBERS);
            let mut shapes: Map<String, Value> =
                shown.map(|(key, value)| (key.clone(), shape(value, depth - 1))).collect();
            if members.len() > MOST_MEMBERS {
                let more = format!("{} more members", members.len() - MOST_MEMBERS);
                shapes.insert("…".to_owned(), Value::String(more));
            }
            Value::Object(shapes)
        }
        Value::Object(members) => Value::String(format!("{{{} members}}", members.len())),
        Value::String(text) => match text.char_indices().nth(MOST_TEXT) {
            Some((end, _)) => {
                let head = text.get(..end).unwrap_or_default();
                Value::String(format!("{head}… ({} bytes)", text.len()))
            }
            None => value.clone(),
        },
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}
