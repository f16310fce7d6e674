//! A YAML writer whose output every reader agrees on: quoted strings, everything else as in JSON.

use std::fmt::Write;

use serde_json::Value;

/// A value as a YAML document.
pub(super) fn document(value: &Value) -> String {
    let mut text = String::new();
    block(value, 0, &mut text);
    text
}

fn block(value: &Value, depth: usize, text: &mut String) {
    let indent = "  ".repeat(depth);
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (key, value) in map {
                let _written = write!(text, "{indent}{}:", name(key));
                member(value, depth, text);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                let _written = write!(text, "{indent}-");
                member(item, depth, text);
            }
        }
        other => {
            let _written = writeln!(text, "{indent}{}", scalar(other));
        }
    }
}

fn member(value: &Value, depth: usize, text: &mut String) {
    let is_block = match value {
        Value::Object(map) => !map.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => false,
    };
    if is_block {
        text.push('\n');
        block(value, depth + 1, text);
    } else {
        let _written = writeln!(text, " {}", scalar(value));
    }
}

/// Only unambiguous keys are left unquoted.
fn name(key: &str) -> String {
    const WORDS: [&str; 9] = ["y", "n", "yes", "no", "on", "off", "true", "false", "null"];
    let plain = key.starts_with(|first: char| first.is_ascii_alphabetic())
        && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !WORDS.contains(&key.to_lowercase().as_str());
    if plain { key.to_owned() } else { quoted(key) }
}

fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        // YAML 1.1 reads an exponent without a decimal point as text.
        Value::Number(number) => {
            let written = number.to_string();
            match written.split_once(['e', 'E']) {
                None => written,
                Some((digits, exponent)) => {
                    let point = if digits.contains('.') { "" } else { ".0" };
                    let sign = if exponent.starts_with(['-', '+']) { "" } else { "+" };
                    format!("{digits}{point}e{sign}{exponent}")
                }
            }
        }
        Value::Array(_) => "[]".to_owned(),
        Value::Object(_) => "{}".to_owned(),
        Value::Null | Value::Bool(_) => value.to_string(),
    }
}

fn quoted(text: &str) -> String {
    let json = Value::from(text).to_string();
    let mut quoted = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' => {
                let _written = write!(quoted, "\\u{:04x}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted
}

#[cfg(test)]
mod tests {
    use muster_config::yaml;
    use serde_json::json;

    use super::document;
    use crate::load::node;

    #[test]
    fn documents_round_trip() {
        let value = json!({
            "aggregator": {"port": 18000, "enabled": true, "host": "localhost"},
            "no": "yes", "on": null, "1": [1, 2.5, 1e300, -1e-9, "x: y\n# z", [], {}, [[1], {"a": {}}]],
            "text": "\u{7f}\u{85}\u{2028}\"\\\t\u{feff}ü", "long text": "a", "true": false,
        });
        let text = document(&value);
        let read = node::json(&yaml::parse(&text).unwrap_or_else(|err| panic!("{err}\n{text}")));
        assert_eq!(read, value, "{text}");
    }
}
