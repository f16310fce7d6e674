//! A value from a CLI definition or a call, before it becomes text.
//!
//! Both JSON and YAML are read into it. Numbers keep their spelling: an integer of any size stays
//! exact, and `5` and `5.0` stay different, because they print differently on a command line.

use serde_json::value::RawValue;

use crate::json::RawObject;

/// The maximum nesting of a JSON value: every traversal is recursive.
const MAX_DEPTH: usize = 128;

/// A JSON or YAML value.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// JSON `null`, YAML `~`.
    Null,
    /// A boolean.
    Bool(bool),
    /// An integer of any size, in canonical decimal: no leading zeros, no `+`, no `-0`.
    Int(String),
    /// A floating point number; may be infinite or NaN when converted from text.
    Float(f64),
    /// Text.
    Text(String),
    /// A YAML timestamp.
    Timestamp(YamlTimestamp),
    /// A list.
    List(Vec<Self>),
    /// A mapping in source order. YAML allows keys that are not text.
    Map(Vec<(Self, Self)>),
}

/// A date or a timestamp as YAML 1.1 reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct YamlTimestamp {
    /// As printed on a command line: `2024-01-02` or `2024-01-02 03:04:05+00:00`.
    pub text: String,
    /// As printed in JSON: ISO 8601.
    pub iso: String,
    /// Whether it has no time of day.
    pub date_only: bool,
}

impl Value {
    /// Reads one JSON value. Values nested too deep become null.
    pub fn from_json(raw: &RawValue) -> Self {
        Self::nested(raw, MAX_DEPTH)
    }

    fn nested(raw: &RawValue, levels: usize) -> Self {
        let Some(levels) = levels.checked_sub(1) else { return Self::Null };
        let text = raw.get().trim();
        match text.as_bytes().first() {
            Some(b'{') => Self::Map(
                RawObject::parse(raw)
                    .map(|object| object.deduplicated())
                    .unwrap_or_default()
                    .into_iter()
                    .map(|(key, value)| (Self::Text(key), Self::nested(&value, levels)))
                    .collect(),
            ),
            Some(b'[') => Self::List(
                serde_json::from_str::<Vec<&RawValue>>(text)
                    .unwrap_or_default()
                    .into_iter()
                    .map(|item| Self::nested(item, levels))
                    .collect(),
            ),
            Some(b'"') => serde_json::from_str(text).map_or(Self::Null, Self::Text),
            Some(b't') => Self::Bool(true),
            Some(b'f') => Self::Bool(false),
            Some(b'n') | None => Self::Null,
            Some(_) => Self::number(text),
        }
    }

    /// Parses a JSON number. A number that overflows a float becomes null, as in CLImax.
    fn number(text: &str) -> Self {
        if text.contains(['.', 'e', 'E']) {
            return match text.parse::<f64>() {
                Ok(float) if float.is_finite() => Self::Float(float),
                Ok(_) | Err(_) => Self::Null,
            };
        }
        Self::integer(text)
    }

    /// An integer from decimal digits with an optional sign.
    pub fn integer(text: &str) -> Self {
        let (sign, digits) = match text.strip_prefix('-') {
            Some(digits) => ("-", digits),
            None => ("", text.strip_prefix('+').unwrap_or(text)),
        };
        match digits.trim_start_matches('0') {
            "" => Self::Int("0".to_owned()),
            digits => Self::Int(format!("{sign}{digits}")),
        }
    }

    /// The text, if the value is text.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::Value;

    #[track_caller]
    fn check(json: &str, expect: &Value) {
        let raw: Box<RawValue> = serde_json::from_str(json).unwrap();
        assert_eq!(Value::from_json(&raw), *expect);
    }

    fn int(text: &str) -> Value {
        Value::Int(text.to_owned())
    }

    fn text(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    #[test]
    fn json_numbers_keep_what_was_written() {
        check("5", &int("5"));
        check("-0", &int("0"));
        check("123456789012345678901234567890", &int("123456789012345678901234567890"));
        check("5.0", &Value::Float(5.0));
        check("5e0", &Value::Float(5.0));
        check("1e400", &Value::Null);
    }

    #[test]
    fn deep_nesting_ends_in_null() {
        let raw: Box<RawValue> =
            serde_json::from_str(&format!("{}{}", "[".repeat(100_000), "]".repeat(100_000)))
                .unwrap();
        let shown = format!("{:?}", Value::from_json(&raw));
        assert!(shown.contains("Null"));
    }

    #[test]
    fn the_last_of_equal_keys_wins() {
        check(
            r#"{"a": 1, "b": [true, null], "a": "x"}"#,
            &Value::Map(vec![
                (text("a"), text("x")),
                (text("b"), Value::List(vec![Value::Bool(true), Value::Null])),
            ]),
        );
    }
}
