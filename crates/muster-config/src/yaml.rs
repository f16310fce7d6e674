//! A YAML **1.1** parser: text to a tree of values with positions.
//!
//! CLI configs and policies were written for PyYAML: `no` is a boolean, `010` is eight and `2024-01-02`
//! is a date. The events come from a YAML 1.2 parser; scalars are resolved here.
//!
//! **Invariant:** no input panics, overflows the stack or grows beyond a fixed multiple of its size.

mod compose;
mod layout;
mod number;
mod pairs;
mod scalar;
mod shield;
mod stamp;

use muster_core::value::Value;
use thiserror::Error;

/// A value and its position. The target of an alias keeps its own position.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The value.
    pub value: NodeValue,
}

/// The value of a [`Node`].
#[derive(Debug, Clone, PartialEq)]
pub enum NodeValue {
    /// A scalar.
    Scalar(Scalar),
    /// A list.
    List(Vec<Node>),
    /// A mapping in the order written, with merges applied. Keys are scalars, and unique.
    Map(Vec<(Node, Node)>),
}

/// A scalar.
#[derive(Debug, Clone, PartialEq)]
pub struct Scalar {
    /// Its resolved value.
    pub value: Value,
    /// Its source text, where that differs from the value: `no`, `010`.
    pub written: Option<Box<str>>,
}

/// Text that is not YAML, or uses YAML that is not supported.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("line {line}, column {column}: {message}")]
pub struct SyntaxError {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The message.
    pub message: String,
}

/// Parses the only document of `text`; an empty text is null.
pub fn parse(text: &str) -> Result<Node, SyntaxError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    refuse_unprintable(text)?;
    compose::document(text)
}

/// A key that a mapping holds twice. The last value counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepeatedKey {
    /// The key as written.
    pub key: String,
    /// The line of the later one, from 1.
    pub line: usize,
    /// Its column in characters, from 1.
    pub column: usize,
    /// The line of the earlier one.
    pub first: usize,
}

/// The keys that are repeated within a mapping of the document, in the order of the text. Empty if the text is not
/// valid.
pub fn repeated_keys(text: &str) -> Vec<RepeatedKey> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut repeated = compose::repeated_keys(text);
    repeated.sort_by_key(|key| (key.line, key.column));
    repeated
}

impl Node {
    /// The value without positions.
    pub fn to_value(&self) -> Value {
        match &self.value {
            NodeValue::Scalar(scalar) => scalar.value.clone(),
            NodeValue::List(items) => Value::List(items.iter().map(Self::to_value).collect()),
            NodeValue::Map(pairs) => Value::Map(
                pairs.iter().map(|(key, value)| (key.to_value(), value.to_value())).collect(),
            ),
        }
    }

    /// The text of a text scalar.
    pub fn as_text(&self) -> Option<&str> {
        match &self.value {
            NodeValue::Scalar(scalar) => scalar.value.as_text(),
            NodeValue::List(_) | NodeValue::Map(_) => None,
        }
    }

    /// The source text of a scalar, without quotes and folds.
    pub fn written(&self) -> Option<&str> {
        match &self.value {
            NodeValue::Scalar(scalar) => scalar.written.as_deref().or(scalar.value.as_text()),
            NodeValue::List(_) | NodeValue::Map(_) => None,
        }
    }

    /// The Python name of its type, which messages of the original use.
    pub fn python_type(&self) -> &'static str {
        let scalar = match &self.value {
            NodeValue::Scalar(scalar) => scalar,
            NodeValue::List(_) => return "list",
            NodeValue::Map(_) => return "dict",
        };
        match &scalar.value {
            Value::Null => "NoneType",
            Value::Bool(_) => "bool",
            Value::Int(_) => "int",
            Value::Float(_) => "float",
            Value::Text(_) => "str",
            Value::Timestamp(stamp) if stamp.date_only => "datetime.date",
            Value::Timestamp(_) => "datetime.datetime",
            Value::List(_) => "list",
            Value::Map(_) => "dict",
        }
    }
}

/// Rejects control characters at their position. The parser would treat some of them as the end of the text.
fn refuse_unprintable(text: &str) -> Result<(), SyntaxError> {
    let (mut line, mut column) = (1, 1);
    let mut previous = '\0';
    for character in text.chars() {
        match character {
            '\n' if previous == '\r' => {}
            '\n' | '\r' => (line, column) = (line + 1, 1),
            _ if is_printable(character) => column += 1,
            _ => {
                let message =
                    format!("the character U+{:04X} is not allowed", u32::from(character));
                return Err(SyntaxError { line, column, message });
            }
        }
        previous = character;
    }
    Ok(())
}

const fn is_printable(character: char) -> bool {
    matches!(character,
        '\t' | ' '..='~' | '\u{85}' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}'
        | '\u{10000}'..='\u{10ffff}')
}

#[cfg(test)]
mod tests;
