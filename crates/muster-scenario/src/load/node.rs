//! Reads typed values from YAML nodes; problems are collected with their position.

use std::time::Duration;

use muster_config::{
    Severity,
    yaml::{Node, NodeValue},
};
use muster_core::{suggest::similar, value::Value as YamlValue};
use serde_json::{Map, Number, Value};

use super::ScenarioProblem;
use crate::duration;

/// Collects the problems of one file.
#[derive(Debug, Default)]
pub(crate) struct Diagnostics {
    problems: Vec<ScenarioProblem>,
}

impl Diagnostics {
    pub(crate) fn error(&mut self, line: usize, field: &str, message: impl Into<String>) {
        self.report(Severity::Error, line, field, message.into());
    }

    pub(crate) fn warning(&mut self, line: usize, field: &str, message: impl Into<String>) {
        self.report(Severity::Warning, line, field, message.into());
    }

    fn report(&mut self, severity: Severity, line: usize, field: &str, message: String) {
        self.problems.push(ScenarioProblem { severity, line, field: field.to_owned(), message });
    }

    /// The problems, from top to bottom.
    pub(crate) fn into_problems(self) -> Vec<ScenarioProblem> {
        let mut problems = self.problems;
        problems.sort_by_key(|problem| problem.line);
        problems
    }
}

/// Reads a mapping key by key, and reports unknown keys.
pub(crate) struct Fields<'a> {
    path: String,
    line: usize,
    members: Vec<(&'a str, &'a Node)>,
    requested: Vec<&'static str>,
}

impl<'a> Fields<'a> {
    /// Opens a mapping. Null counts as an empty mapping.
    pub(crate) fn open(node: &'a Node, path: &str, diagnostics: &mut Diagnostics) -> Option<Self> {
        let path = path.to_owned();
        match &node.value {
            NodeValue::Map(pairs) => {
                let members = pairs.iter().filter_map(|(key, value)| Some((key.written()?, value)));
                let members = members.collect();
                Some(Self { path, line: node.line, members, requested: Vec::new() })
            }
            _ if is_null(node) => {
                Some(Self { path, line: node.line, members: Vec::new(), requested: Vec::new() })
            }
            NodeValue::Scalar(_) | NodeValue::List(_) => {
                diagnostics.error(
                    node.line,
                    &path,
                    format!("expected a mapping, found {}", kind(node)),
                );
                None
            }
        }
    }

    pub(crate) const fn line(&self) -> usize {
        self.line
    }

    /// The full path of a key.
    pub(crate) fn at(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// The node of a key, unless it is null.
    pub(crate) fn get(&mut self, key: &'static str) -> Option<&'a Node> {
        self.requested.push(key);
        let (_, node) = self.members.iter().find(|(name, _)| *name == key)?;
        (!is_null(node)).then_some(*node)
    }

    /// Reads an optional key.
    pub(crate) fn read<T>(
        &mut self,
        key: &'static str,
        diagnostics: &mut Diagnostics,
        read: impl FnOnce(&Node) -> Result<T, String>,
    ) -> Option<T> {
        let node = self.get(key)?;
        match read(node) {
            Ok(value) => Some(value),
            Err(message) => {
                diagnostics.error(node.line, &self.at(key), message);
                None
            }
        }
    }

    /// Reads a required text; `message` is reported if it is missing.
    pub(crate) fn required(
        &mut self,
        key: &'static str,
        diagnostics: &mut Diagnostics,
        message: &str,
    ) -> String {
        match self.get(key).map(text) {
            Some(Ok(text)) if !text.is_empty() => text,
            Some(Err(message)) => {
                diagnostics.error(self.line, &self.at(key), message);
                String::new()
            }
            Some(Ok(_)) | None => {
                diagnostics.error(self.line, &self.at(key), message);
                String::new()
            }
        }
    }

    /// The items of a list, each with its path. A single value is not a list.
    pub(crate) fn items(
        &mut self,
        key: &'static str,
        diagnostics: &mut Diagnostics,
    ) -> Vec<(String, &'a Node)> {
        let Some(node) = self.get(key) else { return Vec::new() };
        let path = self.at(key);
        let NodeValue::List(items) = &node.value else {
            diagnostics.error(node.line, &path, format!("expected a list, found {}", kind(node)));
            return Vec::new();
        };
        let items = items.iter().enumerate();
        items.map(|(index, item)| (format!("{path}[{index}]"), item)).collect()
    }

    /// Warns about keys that were not read. `inert` keys are known and have no effect.
    pub(crate) fn finish(self, inert: &[&str], diagnostics: &mut Diagnostics) {
        for (key, node) in &self.members {
            if self.requested.contains(key) {
                continue;
            }
            let message = if inert.contains(key) {
                "has no effect".to_owned()
            } else {
                let near = similar(key, self.requested.iter().copied());
                near.first().map_or_else(
                    || "unknown key".to_owned(),
                    |near| format!("unknown key, did you mean `{near}`?"),
                )
            };
            diagnostics.warning(node.line, &self.at(key), message);
        }
    }

    /// All members that were not read.
    pub(crate) fn rest(&self) -> Map<String, Value> {
        let members = self.members.iter().filter(|(key, _)| !self.requested.contains(key));
        members.map(|(key, node)| ((*key).to_owned(), json(node))).collect()
    }
}

fn is_null(node: &Node) -> bool {
    matches!(&node.value, NodeValue::Scalar(scalar) if scalar.value == YamlValue::Null)
}

/// The kind of a node, for messages.
pub(crate) fn kind(node: &Node) -> &'static str {
    match &node.value {
        NodeValue::List(_) => "a list",
        NodeValue::Map(_) => "a mapping",
        NodeValue::Scalar(scalar) => match &scalar.value {
            YamlValue::Null => "nothing",
            YamlValue::Bool(_) => "a boolean",
            YamlValue::Int(_) | YamlValue::Float(_) => "a number",
            YamlValue::Timestamp(_) => "a date",
            YamlValue::Text(_) | YamlValue::List(_) | YamlValue::Map(_) => "text",
        },
    }
}

/// Any scalar, as written.
pub(crate) fn text(node: &Node) -> Result<String, String> {
    node.written().map(str::to_owned).ok_or_else(|| format!("expected text, found {}", kind(node)))
}

/// A list of texts, or one text.
pub(crate) fn texts(node: &Node) -> Result<Vec<String>, String> {
    match &node.value {
        NodeValue::List(items) => items
            .iter()
            .map(|item| match text(item) {
                Ok(text) => Ok(text),
                Err(message) => Err(format!("line {}: {message}", item.line)),
            })
            .collect(),
        NodeValue::Scalar(_) => Ok(vec![text(node)?]),
        NodeValue::Map(_) => Err("expected a list of texts, found a mapping".to_owned()),
    }
}

/// A boolean; `yes` and `on` are accepted.
pub(crate) fn boolean(node: &Node) -> Result<bool, String> {
    match &node.value {
        NodeValue::Scalar(scalar) => match scalar.value {
            YamlValue::Bool(truth) => Ok(truth),
            _ => Err(format!("expected true or false, found {}", kind(node))),
        },
        NodeValue::List(_) | NodeValue::Map(_) => {
            Err(format!("expected true or false, found {}", kind(node)))
        }
    }
}

/// A duration; a bare number is nanoseconds, as in Go.
pub(crate) fn span(node: &Node) -> Result<Duration, String> {
    let written = text(node)?;
    if let Ok(nanos) = written.parse() {
        return Ok(Duration::from_nanos(nanos));
    }
    duration::parse(&written)
        .ok_or_else(|| format!("`{written}` is not a duration such as `30s` or `1m30s`"))
}

/// A non-negative whole number.
pub(crate) fn count(node: &Node) -> Result<usize, String> {
    text(node)?.parse().map_err(|_| "expected a whole number of at least 0".to_owned())
}

/// A mapping as JSON.
pub(crate) fn object(node: &Node) -> Result<Map<String, Value>, String> {
    match json(node) {
        Value::Object(map) => Ok(map),
        Value::Null => Ok(Map::new()),
        _ => Err(format!("expected a mapping, found {}", kind(node))),
    }
}

/// A node as JSON, by the rules of Go's YAML reader: `yes`, `1:30` and dates are text.
pub(crate) fn json(node: &Node) -> Value {
    match &node.value {
        NodeValue::List(items) => Value::Array(items.iter().map(json).collect()),
        NodeValue::Map(pairs) => Value::Object(
            pairs
                .iter()
                .map(|(key, value)| (key.written().unwrap_or("null").to_owned(), json(value)))
                .collect(),
        ),
        NodeValue::Scalar(scalar) => {
            let written = node.written().unwrap_or_default();
            let plain = |value: Option<Number>| {
                value.map_or_else(|| Value::String(written.to_owned()), Value::Number)
            };
            match &scalar.value {
                YamlValue::Null => Value::Null,
                YamlValue::Bool(truth) if is_true_or_false(written) => Value::Bool(*truth),
                YamlValue::Int(digits) if !written.contains(':') => plain(integer(digits)),
                YamlValue::Float(float) if !written.contains(':') => {
                    plain(Number::from_f64(*float))
                }
                YamlValue::Text(text) => Value::String(text.clone()),
                YamlValue::Bool(_)
                | YamlValue::Int(_)
                | YamlValue::Float(_)
                | YamlValue::Timestamp(_)
                | YamlValue::List(_)
                | YamlValue::Map(_) => Value::String(written.to_owned()),
            }
        }
    }
}

fn is_true_or_false(written: &str) -> bool {
    written.eq_ignore_ascii_case("true") || written.eq_ignore_ascii_case("false")
}

fn integer(digits: &str) -> Option<Number> {
    let signed = digits.parse::<i64>().ok().map(Number::from);
    let unsigned = || digits.parse::<u64>().ok().map(Number::from);
    signed.or_else(unsigned).or_else(|| digits.parse().ok().and_then(Number::from_f64))
}
