//! Reads a YAML tree by a format: keeps the path, and collects every problem rather than the first.

pub(super) mod values;

use std::fmt::Display;

use muster_core::{fields::FieldTable, suggest, value::Value};

use super::{LoadError, Loaded, Problem, ProblemKind, UNKNOWN_FIELD, Warning};
use crate::yaml::{self, Node, NodeValue};

/// Reads the mapping in `text` with `read`, which returns `None` only after it reported a problem.
pub(super) fn load<T>(
    text: &str,
    read: impl FnOnce(&mut Reader, &Node) -> Option<T>,
) -> Result<Loaded<T>, LoadError> {
    let root = yaml::parse(text)?;
    let NodeValue::Map(pairs) = &root.value else {
        return Err(LoadError::NotAMapping { found: root.python_type() });
    };
    if let Some((key, _)) = pairs.iter().find(|(key, _)| key.as_text().is_none()) {
        return Err(LoadError::KeyNotText {
            written: key.written().unwrap_or_default().to_owned(),
            found: key.python_type(),
            line: key.line,
            column: key.column,
        });
    }
    let mut reader = Reader::default();
    let value = read(&mut reader, &root);
    match value {
        Some(value) if reader.problems.is_empty() => {
            let mut warnings = reader.warnings;
            warnings.sort_by_key(|warning| (warning.line, warning.column));
            // A node that aliases share is read once for each of them.
            warnings.dedup_by_key(|warning| (warning.line, warning.column));
            Ok(Loaded { value, warnings })
        }
        Some(_) | None => Err(LoadError::Fields(reader.problems)),
    }
}

/// Reads a mapping like [`load`]. A key that is written twice is a problem, as in the original. CLI configs and
/// policies are read by [`load`]: CLImax takes the last value.
pub(super) fn load_unique<T>(
    text: &str,
    read: impl FnOnce(&mut Reader, &Node) -> Option<T>,
) -> Result<Loaded<T>, LoadError> {
    let loaded = load(text, read);
    let repeated = repeated_keys(text);
    match loaded {
        Ok(loaded) if repeated.is_empty() => Ok(loaded),
        Ok(_) => Err(LoadError::Fields(repeated)),
        Err(LoadError::Fields(problems)) => {
            Err(LoadError::Fields(repeated.into_iter().chain(problems).collect()))
        }
        Err(error) => Err(error),
    }
}

/// The keys that are written twice, as problems.
pub(super) fn repeated_keys(text: &str) -> Vec<Problem> {
    let repeated = yaml::repeated_keys(text).into_iter().map(|repeated| Problem {
        path: vec![repeated.key.clone()],
        message: format!(
            "`{}` is written twice: line {} has no effect",
            repeated.key, repeated.first
        ),
        fix: Some("remove one of them".to_owned()),
        line: repeated.line,
        column: repeated.column,
        kind: ProblemKind::Invalid,
    });
    repeated.collect()
}

/// The fields of one mapping.
pub(super) struct Fields<'n> {
    node: &'n Node,
    pairs: &'n [(Node, Node)],
    table: &'static FieldTable,
}

/// The number of unknown fields of a mapping that are reported.
const MAX_UNKNOWN: usize = 100;

impl<'n> Fields<'n> {
    pub(super) fn get(&self, name: &str) -> Option<&'n Node> {
        debug_assert!(self.knows(name), "`{name}` is not in the table of fields");
        let (_, value) = self.pairs.iter().find(|(key, _)| key.as_text() == Some(name))?;
        Some(value)
    }

    /// The fix for a missing field whose name is misspelled.
    pub(super) fn misspelled(&self, name: &str) -> Option<String> {
        let (key, unknown) = self
            .unknown()
            .take(MAX_UNKNOWN)
            .find(|(_, unknown)| suggest::similar(unknown, [name]).contains(&name))?;
        Some(format!("line {} has `{unknown}`: write `{name}`", key.line))
    }

    fn unknown(&self) -> impl Iterator<Item = (&'n Node, &'n str)> {
        self.pairs
            .iter()
            .filter_map(|(key, _)| Some((key, key.written()?)))
            .filter(|(_, name)| !self.knows(name))
    }

    fn knows(&self, name: &str) -> bool {
        self.table.names().any(|known| known == name)
    }
}

/// The current path, and the problems and warnings so far. Its methods return `None` after reporting a
/// problem.
#[derive(Default)]
pub(super) struct Reader {
    path: Vec<String>,
    problems: Vec<Problem>,
    warnings: Vec<Warning>,
}

impl Reader {
    /// The fields of a mapping. Unknown ones are not reported.
    pub(super) fn known_fields<'n>(
        &mut self,
        node: &'n Node,
        table: &'static FieldTable,
    ) -> Option<Fields<'n>> {
        let NodeValue::Map(pairs) = &node.value else {
            let message =
                format!("Input should be a valid dictionary or instance of {}", table.model);
            return self.refuse(node, message, "write `field: value` lines, or `{}` for none");
        };
        Some(Fields { node, pairs, table })
    }

    /// The fields of a mapping. Unknown ones are reported as warnings.
    pub(super) fn fields<'n>(
        &mut self,
        node: &'n Node,
        table: &'static FieldTable,
    ) -> Option<Fields<'n>> {
        let fields = self.known_fields(node, table)?;
        for (key, name) in fields.unknown().take(MAX_UNKNOWN) {
            // By convention, `x-` fields hold YAML anchors.
            if name.starts_with("x-") {
                continue;
            }
            let similar = suggest::similar(name, table.names()).first().copied();
            self.warn_unknown(key, vec![name.to_owned()], similar);
        }
        Some(fields)
    }

    /// Reports an unknown field below the current path.
    pub(super) fn warn_unknown(
        &mut self,
        key: &Node,
        below: Vec<String>,
        similar: Option<&'static str>,
    ) {
        let path = self.path.iter().cloned().chain(below).collect();
        let Node { line, column, .. } = *key;
        let message = UNKNOWN_FIELD.to_owned();
        self.warnings.push(Warning { path, line, column, message, similar });
    }

    /// Reports a value that will not have the intended effect.
    pub(super) fn warn(&mut self, node: &Node, message: impl Into<String>) {
        let (path, message) = (self.path.clone(), message.into());
        let Node { line, column, .. } = *node;
        self.warnings.push(Warning { path, line, column, message, similar: None });
    }

    /// Reads a required field.
    pub(super) fn required<T>(
        &mut self,
        fields: &Fields<'_>,
        name: &str,
        read: impl FnOnce(&mut Self, &Node) -> Option<T>,
    ) -> Option<T> {
        let Some(node) = fields.get(name) else {
            let (kind, fix) = match fields.misspelled(name) {
                Some(fix) => (ProblemKind::Misspelled, fix),
                None => (ProblemKind::Missing, format!("add `{name}: …`")),
            };
            let Node { line, column, .. } = *fields.node;
            let path = self.within(name, |reader| reader.path.clone());
            let message = "Field required".to_owned();
            self.problems.push(Problem { path, message, fix: Some(fix), line, column, kind });
            return None;
        };
        self.within(name, |reader| read(reader, node))
    }

    /// Reads a field that may be left out.
    pub(super) fn optional<T>(
        &mut self,
        fields: &Fields<'_>,
        name: &str,
        default: T,
        read: impl FnOnce(&mut Self, &Node) -> Option<T>,
    ) -> Option<T> {
        match fields.get(name) {
            Some(node) => self.within(name, |reader| read(reader, node)),
            None => Some(default),
        }
    }

    /// Reads a field that may be left out or null.
    pub(super) fn nullable<T>(
        &mut self,
        fields: &Fields<'_>,
        name: &str,
        read: impl FnOnce(&mut Self, &Node) -> Option<T>,
    ) -> Option<Nullable<T>> {
        self.optional(fields, name, Nullable(None), |reader, node| match scalar(node) {
            Some(Value::Null) => Some(Nullable(None)),
            Some(_) | None => read(reader, node).map(|value| Nullable(Some(value))),
        })
    }

    /// Reads text.
    pub(super) fn text(&mut self, node: &Node) -> Option<String> {
        let fix = match scalar(node) {
            Some(Value::Text(text)) => return Some(text.clone()),
            Some(Value::Null) => "write text, or `\"\"` for none".to_owned(),
            Some(_) => {
                let written = node.written().unwrap_or_default();
                format!("quote it: `\"{written}\"` (without quotes it is {})", node.python_type())
            }
            None => "write text; in quotes if it begins with `[` or `{`".to_owned(),
        };
        self.refuse(node, "Input should be a valid string", fix)
    }

    /// Reads a boolean, also from words such as `yes` and from 0 and 1.
    pub(super) fn boolean(&mut self, node: &Node) -> Option<bool> {
        const UNCLEAR: &str = "Input should be a valid boolean, unable to interpret input";
        let fix = "write `true` or `false`";
        match scalar(node) {
            Some(Value::Bool(truth)) => Some(*truth),
            Some(Value::Float(float)) if *float == 0.0 || *float == 1.0 => Some(*float == 1.0),
            Some(Value::Int(digits)) if digits.parse::<i64>().is_ok() => {
                boolean_word(digits).or_else(|| self.refuse(node, UNCLEAR, fix))
            }
            Some(Value::Text(word)) => {
                boolean_word(word).or_else(|| self.refuse(node, UNCLEAR, fix))
            }
            Some(_) | None => self.refuse(node, "Input should be a valid boolean", fix),
        }
    }

    /// Reads a number, also from text and booleans.
    pub(super) fn number(&mut self, node: &Node) -> Option<f64> {
        const UNCLEAR: &str = "Input should be a valid number, unable to parse string as a number";
        let fix = "write a number";
        let number = match scalar(node) {
            Some(Value::Bool(truth)) => Some(f64::from(u8::from(*truth))),
            Some(Value::Float(float)) => Some(*float),
            Some(Value::Int(digits)) => digits.parse().ok().filter(|float: &f64| float.is_finite()),
            Some(Value::Text(text)) => {
                return number_text(text).or_else(|| self.refuse(node, UNCLEAR, fix));
            }
            Some(_) | None => None,
        };
        number.or_else(|| self.refuse(node, "Input should be a valid number", fix))
    }

    /// Reads one of a few words.
    pub(super) fn choice<T: Copy>(&mut self, node: &Node, choices: &[(&str, T)]) -> Option<T> {
        let found = node
            .as_text()
            .and_then(|text| choices.iter().find(|(word, _)| *word == text))
            .map(|(_, value)| *value);
        if found.is_some() {
            return found;
        }
        let words = choices.iter().map(|(word, _)| *word);
        let fix = node
            .written()
            .and_then(|written| suggest::similar(written, words.clone()).first().copied())
            .map(|word| format!("did you mean `{word}`?"));
        let quoted: Vec<String> = words.map(|word| format!("'{word}'")).collect();
        let words = match quoted.split_last() {
            Some((last, [])) => last.clone(),
            Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
            None => String::new(),
        };
        self.refuse(node, format!("Input should be {words}"), fix)
    }

    /// Reads a list, each item with `read`.
    pub(super) fn list<T>(
        &mut self,
        node: &Node,
        read: impl Fn(&mut Self, &Node) -> Option<T>,
    ) -> Option<Vec<T>> {
        let NodeValue::List(items) = &node.value else {
            let fix = match node.as_text() {
                Some(text) => format!("write a list: `[{text}]`"),
                None => "write a list, or `[]` for none".to_owned(),
            };
            return self.refuse(node, "Input should be a valid list", fix);
        };
        // Read all items, so that every problem is reported.
        let items: Vec<Option<T>> = items
            .iter()
            .enumerate()
            .map(|(index, item)| self.within(index, |reader| read(reader, item)))
            .collect();
        items.into_iter().collect()
    }

    /// Reads a mapping with text keys, each value with `read`.
    pub(super) fn map<T>(
        &mut self,
        node: &Node,
        read: impl Fn(&mut Self, &Node) -> Option<T>,
    ) -> Option<Vec<(String, T)>> {
        let NodeValue::Map(pairs) = &node.value else {
            let fix = "write `name: value` lines, or `{}` for none";
            return self.refuse(node, "Input should be a valid dictionary", fix);
        };
        let pairs: Vec<Option<(String, T)>> = pairs
            .iter()
            .map(|(key, value)| {
                self.within(key_name(key), |reader| {
                    let key = match key.as_text() {
                        Some(text) => Some(text.to_owned()),
                        None => reader.within("[key]", |reader| reader.text(key)),
                    };
                    let value = read(reader, value);
                    key.zip(value)
                })
            })
            .collect();
        pairs.into_iter().collect()
    }

    /// Reports a problem with `node`.
    pub(super) fn refuse<T>(
        &mut self,
        node: &Node,
        message: impl Into<String>,
        fix: impl Into<Fix>,
    ) -> Option<T> {
        self.problems.push(Problem {
            path: self.path.clone(),
            message: message.into(),
            fix: fix.into().0,
            line: node.line,
            column: node.column,
            kind: ProblemKind::Invalid,
        });
        None
    }

    /// Reports a problem at a path below the current one.
    pub(super) fn refuse_below(
        &mut self,
        node: &Node,
        below: Vec<String>,
        message: String,
        fix: String,
    ) {
        let path = self.path.iter().cloned().chain(below).collect();
        let Node { line, column, .. } = *node;
        let kind = ProblemKind::Invalid;
        self.problems.push(Problem { path, message, fix: Some(fix), line, column, kind });
    }

    /// Reads with `part` added to the path.
    pub(super) fn within<T>(&mut self, part: impl Display, read: impl FnOnce(&mut Self) -> T) -> T {
        self.path.push(part.to_string());
        let value = read(self);
        self.path.pop();
        value
    }
}

/// The value of a field that may be left out or null.
pub(super) struct Nullable<T>(pub(super) Option<T>);

/// The fix of a problem, if one is known.
pub(super) struct Fix(Option<String>);

impl From<&str> for Fix {
    fn from(fix: &str) -> Self {
        Self(Some(fix.to_owned()))
    }
}

impl From<String> for Fix {
    fn from(fix: String) -> Self {
        Self(Some(fix))
    }
}

impl From<Option<String>> for Fix {
    fn from(fix: Option<String>) -> Self {
        Self(fix)
    }
}

fn scalar(node: &Node) -> Option<&Value> {
    match &node.value {
        NodeValue::Scalar(scalar) => Some(&scalar.value),
        NodeValue::List(_) | NodeValue::Map(_) => None,
    }
}

fn boolean_word(word: &str) -> Option<bool> {
    match word.to_ascii_lowercase().as_str() {
        "true" | "t" | "yes" | "y" | "on" | "1" => Some(true),
        "false" | "f" | "no" | "n" | "off" | "0" => Some(false),
        _ => None,
    }
}

/// Accepts blanks around a number, or `_` between digits, but not both.
fn number_text(text: &str) -> Option<f64> {
    let apart = text.contains('_')
        && !text.starts_with('_')
        && !text.ends_with('_')
        && !text.contains("__");
    match text.trim().parse() {
        Ok(number) => Some(number),
        Err(_) if apart => text.replace('_', "").parse().ok(),
        Err(_) => None,
    }
}

/// A key as a part of a path; booleans print as numbers, as in Python.
fn key_name(key: &Node) -> String {
    match scalar(key) {
        Some(Value::Null) => "None".to_owned(),
        Some(Value::Bool(truth)) => u8::from(*truth).to_string(),
        Some(Value::Int(digits)) => digits.clone(),
        Some(_) | None => key.written().unwrap_or_default().to_owned(),
    }
}
