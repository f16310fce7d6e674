//! Resolution of scalars.

use muster_core::value::Value;
use saphyr_parser::{ScalarStyle, Tag};

use super::{Scalar, number, stamp};

const YAML: &str = "tag:yaml.org,2002:";

/// Resolves a scalar with its tag, if it has one.
pub(super) fn read(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Result<Scalar, String> {
    let value = match tag.map(full_name) {
        None if style == ScalarStyle::Plain => resolve(text)?,
        None => Value::Text(text.to_owned()),
        // The non-specific tag requests resolution, even of quoted text.
        Some(tag) if tag == "!" => resolve(text)?,
        Some(tag) => tagged(text, &tag)?,
    };
    let written = match &value {
        Value::Text(_) => None,
        _ => Some(text.into()),
    };
    Ok(Scalar { value, written })
}

/// An empty scalar, which is null.
pub(super) fn null() -> Scalar {
    Scalar { value: Value::Null, written: None }
}

/// The full name of a tag: `tag:yaml.org,2002:str`, `!mine`.
pub(super) fn full_name(tag: &Tag) -> String {
    format!("{}{}", tag.handle, tag.suffix)
}

/// The message for an unknown tag.
pub(super) fn no_constructor(tag: &str) -> String {
    format!("could not determine a constructor for the tag '{tag}'")
}

/// Resolves plain text.
fn resolve(text: &str) -> Result<Value, String> {
    if let Some(word) = word(text) {
        return Ok(word);
    }
    match text {
        "<<" => return Err(no_constructor("tag:yaml.org,2002:merge")),
        "=" => return Err(no_constructor("tag:yaml.org,2002:value")),
        _ => {}
    }
    if !text.starts_with(|first: char| first.is_ascii_digit() || "+-.".contains(first)) {
        return Ok(Value::Text(text.to_owned()));
    }
    number::float(text)
        .map(|float| Ok(Value::Float(float)))
        .or_else(|| number::integer(text))
        .or_else(|| stamp::read(text).map(|stamp| stamp.map(Value::Timestamp)))
        .unwrap_or_else(|| Ok(Value::Text(text.to_owned())))
}

fn word(text: &str) -> Option<Value> {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Some(Value::Null),
        "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            Some(Value::Bool(true))
        }
        "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Some(Value::Bool(false))
        }
        _ => None,
    }
}

fn tagged(text: &str, tag: &str) -> Result<Value, String> {
    let wrong = |what: &str| format!("`{text}` is not {what}");
    match tag.strip_prefix(YAML) {
        Some("str") => Ok(Value::Text(text.to_owned())),
        Some("null") => Ok(Value::Null),
        Some("bool") => match word(&text.to_lowercase()) {
            Some(Value::Bool(truth)) => Ok(Value::Bool(truth)),
            Some(_) | None => Err(wrong("a truth value")),
        },
        Some("int") => number::integer(text.trim()).unwrap_or_else(|| Err(wrong("a whole number"))),
        Some("float") => {
            number::any_float(text.trim()).map(Value::Float).ok_or_else(|| wrong("a number"))
        }
        Some("timestamp") => match stamp::read(text) {
            Some(stamp) => stamp.map(Value::Timestamp),
            None => Err(wrong("a date or a time")),
        },
        Some(_) | None => Err(no_constructor(tag)),
    }
}
