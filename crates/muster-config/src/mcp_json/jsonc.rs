//! JSON with comments and trailing commas, as editors write it.

use serde_json::Value;

/// A parsed document and its dialect.
#[derive(Debug, PartialEq)]
pub struct JsoncDocument {
    /// Its value.
    pub value: Value,
    /// Its dialect.
    pub dialect: JsonDialect,
}

/// Whether a document is plain JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonDialect {
    /// Plain JSON.
    Json,
    /// With comments or trailing commas.
    WithComments,
}

/// Parses a document. An empty one is an empty object.
pub fn parse(text: &str) -> Result<JsoncDocument, serde_json::Error> {
    let text = text.trim_start_matches('\u{feff}');
    if text.trim().is_empty() {
        return Ok(JsoncDocument {
            value: Value::Object(serde_json::Map::new()),
            dialect: JsonDialect::Json,
        });
    }
    match serde_json::from_str(text) {
        Ok(value) => Ok(JsoncDocument { value, dialect: JsonDialect::Json }),
        Err(error) => match serde_json::from_str(&strip(text)) {
            Ok(value) => Ok(JsoncDocument { value, dialect: JsonDialect::WithComments }),
            Err(_) => Err(error),
        },
    }
}

/// The document without comments and without commas before a closing bracket.
fn strip(text: &str) -> String {
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
                let written = out.trim_end();
                if let Some(written) = written.strip_suffix(',') {
                    out.truncate(written.len());
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

    use super::{JsonDialect, parse};

    #[test]
    fn comments_and_trailing_commas_are_accepted() {
        let text = "{ // a \"quote\n \"u\": \"http://x/*y*/\", /* b\n */ \"l\": [1, 2, ],\n}";
        let document = parse(text).unwrap();
        assert_eq!(document.value, json!({"u": "http://x/*y*/", "l": [1, 2]}));
        assert_eq!(document.dialect, JsonDialect::WithComments);
        assert_eq!(parse(r#"{"a": "\"//"}"#).unwrap().dialect, JsonDialect::Json);
        assert_eq!(parse(" ").unwrap().value, json!({}));
        assert!(parse("{").is_err());
    }
}
