//! The shape of a JSON value of any length, in one pass: lists by their first item and length, texts by
//! their beginning.
//!
//! **Invariant:** however long a value is, its shape is small.

use std::io::{self, BufRead, Read as _};

use muster_core::json::{scan::JsonScanner, unescape::UnescapeReader};
use serde_json::{Map, Value};

/// The depth of a shape.
pub(super) const DEEPEST: usize = 4;
/// The number of members shown of an object.
const MOST_MEMBERS: usize = 40;
/// The number of characters shown of a text.
const MOST_TEXT: usize = 60;
/// The number of bytes read of a text or a number.
const MOST_READ: usize = 12 * MOST_TEXT + 2;
/// The number of values with a shape of their own; no reply has room for more.
const MOST_VALUES: usize = 20_000;

/// The shape of a value.
#[derive(Debug)]
pub(super) enum Shape {
    List { first: Option<Box<Self>>, length: u64 },
    Object { members: Vec<(String, Self)>, length: u64 },
    Text { beginning: String, bytes: u64, cut: bool },
    Other(Value),
}

impl Shape {
    /// Reads the shape of one value.
    pub(super) fn read(input: impl BufRead) -> io::Result<Self> {
        let mut scan = JsonScanner::new(input, 0);
        let shape = Self::at(&mut scan, DEEPEST, &mut 0)?;
        match scan.is_at_end()? {
            true => Ok(shape),
            false => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    fn at(
        scan: &mut JsonScanner<impl BufRead>,
        depth: usize,
        seen: &mut usize,
    ) -> io::Result<Self> {
        *seen += 1;
        let shown = depth > 0 && *seen < MOST_VALUES;
        let mut length = 0;
        match scan.peek()? {
            b'[' => {
                let mut first = None;
                scan.items(|scan| {
                    length += 1;
                    if shown && length == 1 {
                        first = Some(Box::new(Self::at(scan, depth - 1, seen)?));
                        return Ok(());
                    }
                    scan.skip().map(drop)
                })?;
                Ok(Self::List { first, length })
            }
            b'{' => {
                let mut members = Vec::new();
                scan.members(|scan, key| {
                    length += 1;
                    if shown && members.len() < MOST_MEMBERS {
                        members.push((key.to_owned(), Self::at(scan, depth - 1, seen)?));
                        return Ok(());
                    }
                    scan.skip().map(drop)
                })?;
                Ok(Self::Object { members, length })
            }
            b'"' => text(scan),
            _ => {
                let value = scan
                    .read_short(MOST_READ)?
                    .and_then(|value| serde_json::from_slice(&value).ok());
                value.map(Self::Other).ok_or_else(|| io::ErrorKind::InvalidData.into())
            }
        }
    }

    /// The number of items or members; 1 for anything else.
    pub(super) const fn length(&self) -> u64 {
        match self {
            Self::List { length, .. } | Self::Object { length, .. } => *length,
            Self::Text { .. } | Self::Other(_) => 1,
        }
    }

    /// The shape as JSON, down to a depth.
    pub(super) fn to_value(&self, depth: usize) -> Value {
        match self {
            Self::List { first: Some(first), length } if depth > 0 => {
                let length = format!("… {length} items");
                Value::Array(vec![first.to_value(depth - 1), Value::String(length)])
            }
            Self::List { length, .. } => Value::String(format!("[{length} items]")),
            Self::Object { members, length } if depth > 0 && members.len() as u64 <= *length => {
                let shown = members.iter();
                let mut shapes: Map<String, Value> =
                    shown.map(|(key, value)| (key.clone(), value.to_value(depth - 1))).collect();
                let more = length - members.len() as u64;
                if more > 0 {
                    shapes.insert("…".to_owned(), Value::String(format!("{more} more members")));
                }
                Value::Object(shapes)
            }
            Self::Object { length, .. } => Value::String(format!("{{{length} members}}")),
            Self::Text { beginning, bytes, cut: true } => {
                Value::String(format!("{beginning}… ({bytes} bytes)"))
            }
            Self::Text { beginning, .. } => Value::String(beginning.clone()),
            Self::Other(value) => value.clone(),
        }
    }
}

/// The beginning of a text, and its length as written.
fn text(scan: &mut JsonScanner<impl BufRead>) -> io::Result<Shape> {
    let mut written = Vec::new();
    let place = scan.skip_into(&mut |bytes| {
        written.extend(bytes.iter().take(MOST_READ.saturating_sub(written.len())));
    })?;
    let bytes = (place.end - place.start).saturating_sub(2);
    let inside = written.get(1..).unwrap_or_default();
    let whole = inside.len() as u64 == bytes + 1;
    let inside = if whole { inside.strip_suffix(b"\"").unwrap_or(inside) } else { inside };
    let mut text = Vec::new();
    UnescapeReader::new(inside).read_to_end(&mut text)?;
    let bytes = if whole { text.len() as u64 } else { bytes };
    let text = String::from_utf8_lossy(&text);
    match text.char_indices().nth(MOST_TEXT) {
        Some((end, _)) => {
            let beginning = text.get(..end).unwrap_or_default().to_owned();
            Ok(Shape::Text { beginning, bytes, cut: true })
        }
        None => Ok(Shape::Text { beginning: text.into_owned(), bytes, cut: false }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Shape;

    fn shape(text: &str, depth: usize) -> String {
        Shape::read(text.as_bytes())
            .map_or_else(|_| "none".to_owned(), |shape| shape.to_value(depth).to_string())
    }

    #[test]
    fn a_value_is_shown_as_deep_as_there_is_room() {
        let value = json!({"a": [{"b": [1, 2]}, 3], "n": -1.5, "t": "é".repeat(70), "e": []});
        let text = value.to_string();
        let cut = format!("{}… (140 bytes)", "é".repeat(60));
        let deep = json!({"a": [{"b": [1, "… 2 items"]}, "… 2 items"], "n": -1.5, "t": cut, "e": "[0 items]"});
        assert_eq!(shape(&text, 4), deep.to_string());
        let flat = json!({"a": "[2 items]", "n": -1.5, "t": cut, "e": "[0 items]"});
        assert_eq!(shape(&text, 1), flat.to_string());
        assert_eq!(shape(&text, 0), r#""{4 members}""#);
    }

    #[test]
    fn long_things_are_cut() {
        let members: Vec<String> = (0..100).map(|n| format!(r#""k{n}":{n}"#)).collect();
        let shown = shape(&format!("{{{}}}", members.join(",")), 4);
        assert!(shown.ends_with(r#""k39":39,"…":"60 more members"}"#), "{shown}");
        let text = format!(r#""{}""#, r"\u00e9".repeat(1000));
        assert_eq!(shape(&text, 4), format!(r#""{}… (6000 bytes)""#, "é".repeat(60)));
    }

    #[test]
    fn what_is_no_json_has_no_shape() {
        for text in ["", "[1,2", "[INFO] ready", "{a:1}", "nope", "[1] 2"] {
            assert_eq!(shape(text, 4), "none", "{text}");
        }
    }
}
