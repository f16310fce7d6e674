//! JSON as editors write it: with comments and commas too many.

use serde_json::Value;

/// A document, and whether it is more than JSON.
#[derive(Debug, PartialEq)]
pub(super) struct Document {
    pub(super) value: Value,
    pub(super) dialect: Dialect,
}

/// What a document is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    Json,
    WithComments,
}

/// Reads a document. An empty one is an empty object.
pub(super) fn parse(text: &str) -> Result<Document, serde_json::Error> {
    let text = text.trim_start_matches('\u{feff}');
    if text.trim().is_empty() {
        return Ok(Document {
            value: Value::Object(serde_json::Map::new()),
            dialect: Dialect::Json,
        });
    }
    match serde_json::from_str(text) {
        Ok(value) => Ok(Document { value, dialect: Dialect::Json }),
        Err(error) => match serde_json::from_str(&plain(text)) {
            Ok(value) => Ok(Document { value, dialect: Dialect::WithComments }),
            Err(_) => Err(error),
        },
    }
}

/// The document without comments and without commas before a closing bracket.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    let mut quoted = false;
    while let Some(letter) = letters.next() {
        if quoted {
            out.push(letter);
            match letter {
                '\\' => out.extend(letters.next()),
                '"' => quoted = false,
                _ => (),
            }
            continue;
        }
        match (letter, letters.peek()) {
            ('"', _) => {
                quoted = true;
                out.push(letter);
            }
            ('/', Some('/')) => while letters.next_if(|next| *next != '\n').is_some() {},
            ('/', Some('*')) => {
                letters.next();
                let mut last = ' ';
                for next in letters.by_ref() {
                    if last == '*' && next == '/' {
                        break;
                    }
                    last = next;
                }
                out.push(' ');
            }
            ('}' | ']', _) => {
                let kept = out.trim_end();
                if let Some(kept) = kept.strip_suffix(',') {
                    out.truncate(kept.len());
                }
                out.push(letter);
            }
            _ => out.push(letter),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Dialect, parse};

    #[test]
    fn comments_and_commas_are_passed_over() {
        let text = "{ // a \"quote\n \"u\": \"http://x/*y*/\", /* b\n */ \"l\": [1, 2, ],\n}";
        let document = parse(text).unwrap();
        assert_eq!(document.value, json!({"u": "http://x/*y*/", "l": [1, 2]}));
        assert_eq!(document.dialect, Dialect::WithComments);
        assert_eq!(parse(r#"{"a": "\"//"}"#).unwrap().dialect, Dialect::Json);
        assert_eq!(parse(" ").unwrap().value, json!({}));
        assert!(parse("{").is_err());
    }
}
