//! The pairs of a mapping: merges and equal keys.

use indexmap::{IndexMap, map::Entry};
use muster_core::value::Value;

use super::{Node, NodeValue, RepeatedKey, SyntaxError};

/// The pairs that `<<` merges; of several mappings, earlier ones take precedence.
pub(super) fn mergeable(node: Node) -> Result<Vec<(Node, Node)>, SyntaxError> {
    let (line, column) = (node.line, node.column);
    let wrong = |line, column| SyntaxError {
        line,
        column,
        message: "`<<` takes a mapping or a list of mappings".to_owned(),
    };
    match node.value {
        NodeValue::Map(pairs) => Ok(pairs),
        NodeValue::Scalar(_) => Err(wrong(line, column)),
        NodeValue::List(items) => {
            let mut merged = Vec::new();
            for item in items.into_iter().rev() {
                match item.value {
                    NodeValue::Map(pairs) => merged.extend(pairs),
                    NodeValue::Scalar(_) | NodeValue::List(_) => {
                        return Err(wrong(item.line, item.column));
                    }
                }
            }
            Ok(merged)
        }
    }
}

/// The keys that occur more than once.
pub(super) fn repeated(pairs: &[(Node, Node)]) -> Vec<RepeatedKey> {
    let mut first = IndexMap::with_capacity(pairs.len());
    let mut repeated = Vec::new();
    for (key, _) in pairs {
        let Some(identity) = identity(key) else { continue };
        match first.entry(identity) {
            Entry::Vacant(place) => {
                place.insert(key.line);
            }
            Entry::Occupied(place) => repeated.push(RepeatedKey {
                key: key.written().unwrap_or_default().to_owned(),
                line: key.line,
                column: key.column,
                first: *place.get(),
            }),
        }
    }
    repeated
}

/// Merges equal keys: the position of the first, the value of the last.
pub(super) fn unique(pairs: Vec<(Node, Node)>) -> Result<Vec<(Node, Node)>, SyntaxError> {
    let mut unique = IndexMap::with_capacity(pairs.len());
    for (key, value) in pairs {
        let Some(identity) = identity(&key) else {
            let message =
                "a list or a mapping cannot be a key; quote text that begins with `[` or `{`"
                    .to_owned();
            return Err(SyntaxError { line: key.line, column: key.column, message });
        };
        match unique.entry(identity) {
            Entry::Vacant(place) => {
                place.insert((key, value));
            }
            Entry::Occupied(mut place) => place.get_mut().1 = value,
        }
    }
    Ok(unique.into_values().collect())
}

/// The identity of a key: as in Python, `1`, `1.0` and `true` are equal.
#[derive(PartialEq, Eq, Hash)]
enum Identity {
    Null,
    Number(String),
    Text(String),
    Stamp(String),
}

fn identity(key: &Node) -> Option<Identity> {
    let NodeValue::Scalar(scalar) = &key.value else { return None };
    Some(match &scalar.value {
        Value::Null => Identity::Null,
        Value::Bool(truth) => Identity::Number(u8::from(*truth).to_string()),
        Value::Int(digits) => Identity::Number(digits.clone()),
        // Adding zero turns negative zero into zero.
        Value::Float(float) => Identity::Number((float + 0.0).to_string()),
        Value::Text(text) => Identity::Text(text.clone()),
        Value::Timestamp(stamp) => Identity::Stamp(stamp.iso.clone()),
        Value::List(_) | Value::Map(_) => return None,
    })
}
