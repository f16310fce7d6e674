//! Text to a tree of values with positions, by the rules of YAML **1.1**.
//!
//! CLI definitions and policies were written for PyYAML: `no` is a truth value, `010` is eight and
//! `2024-01-02` is a date. The tokens come from a YAML 1.2 parser; what a scalar *means* is decided
//! here.
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

/// One value and where it was written. What an alias stands for keeps its own place.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// What was written there.
    pub value: NodeValue,
}

/// What a [`Node`] holds.
#[derive(Debug, Clone, PartialEq)]
pub enum NodeValue {
    /// Anything but a collection.
    Scalar(Scalar),
    /// A list.
    List(Vec<Node>),
    /// A mapping in the order written, merges done. Keys are scalars, and no two are equal.
    Map(Vec<(Node, Node)>),
}

/// A value that is no collection.
#[derive(Debug, Clone, PartialEq)]
pub struct Scalar {
    /// What it means.
    pub value: Value,
    /// How it was written, where that differs from what it means: `no`, `010`.
    pub written: Option<Box<str>>,
}

/// Text that is not YAML, or not YAML that a definition can be made of.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("line {line}, column {column}: {message}")]
pub struct SyntaxError {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// What is wrong there.
    pub message: String,
}

/// Reads the one document of `text`. No document at all is null.
pub fn parse(text: &str) -> Result<Node, SyntaxError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    refuse_unprintable(text)?;
    compose::document(text)
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

    /// The text inside, where it is text.
    pub fn as_text(&self) -> Option<&str> {
        match &self.value {
            NodeValue::Scalar(scalar) => scalar.value.as_text(),
            NodeValue::List(_) | NodeValue::Map(_) => None,
        }
    }

    /// How a scalar was written, quotes and folds undone.
    pub fn written(&self) -> Option<&str> {
        match &self.value {
            NodeValue::Scalar(scalar) => scalar.written.as_deref().or(scalar.value.as_text()),
            NodeValue::List(_) | NodeValue::Map(_) => None,
        }
    }

    /// What Python calls the type of this value; messages of the original name it.
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

/// Control characters are refused where they stand. The parser below would take some for the end.
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
