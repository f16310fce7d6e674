//! Constraints on arguments that are passed to the server unchanged.
//!
//! A server parses them by its own rules, so anything that two parsers may read differently is refused: repeated names,
//! names that differ in case only, numbers out of range, texts that only some languages read as numbers.

use std::collections::BTreeSet;

use indexmap::IndexMap;
use serde_json::{Value as Json, value::RawValue};
use unicode_normalization::UnicodeNormalization as _;

use crate::{
    json::RawObject,
    policy::{constraint::Constraint, pattern::InvalidPattern},
    text::{neutralized, printable},
    value::Value,
};

/// One sentence for each violation of `constraints` by the arguments of a tool.
pub(super) fn check(
    constraints: &IndexMap<String, Constraint>,
    schema: &RawValue,
    arguments: &RawValue,
) -> Result<Vec<String>, InvalidPattern> {
    if arguments.get().trim() == "null" {
        return Ok(Vec::new());
    }
    let Some(members) = RawObject::parse(arguments) else {
        return Ok(vec!["The arguments must be an object".to_owned()]);
    };
    let mut violations = ambiguous_names(constraints, schema, &members);
    for (name, constraint) in constraints {
        let given = members.iter().filter(|(key, _)| key == name);
        for (_, value) in given {
            violations.extend(violations_of(constraint, name, value)?);
        }
    }
    Ok(violations)
}

/// Returns a violation for each name that is repeated, or that a server may take for a constrained one.
fn ambiguous_names(
    constraints: &IndexMap<String, Constraint>,
    schema: &RawValue,
    members: &RawObject<'_>,
) -> Vec<String> {
    let folded: Vec<(String, &str)> =
        constraints.keys().map(|name| (fold(name), name.as_str())).collect();
    let mut seen = BTreeSet::new();
    let mut violations = Vec::new();
    for (key, _) in members.iter() {
        if !seen.insert(key) {
            violations.push(format!("Argument '{}' is given more than once", printable(key)));
            continue;
        }
        if constraints.contains_key(key) {
            continue;
        }
        let fold = fold(key);
        let resembles = folded.iter().find(|(constrained, _)| *constrained == fold);
        if let Some((_, name)) = resembles
            && !declares(schema, key)
        {
            let key = printable(key);
            violations.push(format!("Argument '{key}' may be read as '{name}': write '{name}'"));
        }
    }
    violations
}

/// A name as lenient readers compare it: without case, compatibility variants and invisible
/// characters, and without separators.
fn fold(name: &str) -> String {
    let letters = name.nfkc().flat_map(char::to_lowercase).nfkc();
    letters.filter(|c| neutralized(*c) == *c && !matches!(c, '_' | '-' | ' ' | '.')).collect()
}

/// Whether the schema of the tool declares an argument under this very name.
fn declares(schema: &RawValue, name: &str) -> bool {
    let schema: Json = serde_json::from_str(schema.get()).unwrap_or_default();
    schema.get("properties").and_then(|properties| properties.get(name)).is_some()
}

fn violations_of(
    constraint: &Constraint,
    name: &str,
    raw: &RawValue,
) -> Result<Vec<String>, InvalidPattern> {
    match raw.get().as_bytes().first() {
        Some(b'n') => Ok(Vec::new()),
        Some(b'{') => {
            Ok(vec![format!("Argument '{name}': a constrained value cannot be an object")])
        }
        Some(b'[') => {
            // The limit applies to every item.
            let items: Vec<&RawValue> = serde_json::from_str(raw.get()).unwrap_or_default();
            let mut violations = Vec::new();
            for item in items {
                match item.get().as_bytes().first() {
                    Some(b'{' | b'[') => violations.push(format!(
                        "Argument '{name}': an item of a constrained list must be a single value"
                    )),
                    _ => violations.extend(scalar(constraint, name, item)?),
                }
                if !violations.is_empty() {
                    break;
                }
            }
            Ok(violations)
        }
        _ => scalar(constraint, name, raw),
    }
}

fn scalar(
    constraint: &Constraint,
    name: &str,
    raw: &RawValue,
) -> Result<Vec<String>, InvalidPattern> {
    let value = Value::from_json(raw);
    let is_number = matches!(raw.get().as_bytes().first(), Some(b'-' | b'0'..=b'9'));
    let is_bounded = constraint.min.is_some() || constraint.max.is_some();
    match &value {
        Value::Null if is_number => {
            return Ok(vec![format!("Argument '{name}': the number is out of range")]);
        }
        Value::Text(text) if is_bounded && !is_json_number(text) => {
            let text = printable(text);
            return Ok(vec![format!("Argument '{name}': value '{text}' is not a number")]);
        }
        _ => (),
    }
    let mut violations = Vec::new();
    // A server may read a number as text, so the pattern applies to it as well.
    if let Some(pattern) = &constraint.pattern
        && !matches!(value, Value::Text(_) | Value::Null)
        && !pattern.matches(raw.get())?
    {
        let (value, pattern) = (printable(raw.get()), pattern.as_str());
        violations
            .push(format!("Argument '{name}': value '{value}' does not match pattern '{pattern}'"));
    }
    violations.extend(constraint.check(name, &value)?);
    Ok(violations)
}

/// Whether every language reads a text as the same finite number.
fn is_json_number(text: &str) -> bool {
    serde_json::from_str::<f64>(text).is_ok_and(f64::is_finite) && text.trim() == text
}

#[cfg(test)]
mod tests {
    use indexmap::IndexMap;
    use serde_json::value::RawValue;

    use super::check;
    use crate::policy::{constraint::Constraint, pattern::Pattern};

    const SCHEMA: &str = r#"{"properties":{"path":{},"Limit":{},"limit":{}}}"#;

    #[track_caller]
    fn violations(arguments: &str, expect: &[&str]) {
        let constraints = IndexMap::from([
            (
                "path".to_owned(),
                Constraint {
                    pattern: Some(Pattern::new("src/[a-z]+|[0-9]")),
                    ..Constraint::default()
                },
            ),
            ("limit".to_owned(), Constraint { pattern: None, min: Some(1.0), max: Some(10.0) }),
        ]);
        let raw = |text: &str| RawValue::from_string(text.to_owned()).unwrap();
        let found = check(&constraints, &raw(SCHEMA), &raw(arguments)).unwrap();
        assert_eq!(found, expect, "{arguments}");
    }

    #[test]
    fn values_within_the_limits_pass() {
        for arguments in [
            "null",
            "{}",
            r#"{"path": "src/a", "limit": 10, "other": {"path": "/etc"}}"#,
            r#"{"path": ["src/a", "src/b"], "limit": "5"}"#,
            r#"{"path": 5, "limit": 1.5}"#,
            r#"{"path": null, "limit": null}"#,
            // Declared under this name: another argument.
            r#"{"limit": 5, "Limit": 500}"#,
        ] {
            violations(arguments, &[]);
        }
    }

    #[test]
    fn numbers_that_readers_take_differently_are_refused() {
        violations(r#"{"limit": 1e999}"#, &["Argument 'limit': the number is out of range"]);
        violations(r#"{"limit": -1e999}"#, &["Argument 'limit': the number is out of range"]);
        violations(r#"{"limit": 11}"#, &["Argument 'limit': value 11 exceeds maximum 10.0"]);
        violations(r#"{"limit": "11"}"#, &["Argument 'limit': value 11 exceeds maximum 10.0"]);
        violations(r#"{"limit": [5, 11]}"#, &["Argument 'limit': value 11 exceeds maximum 10.0"]);
        for text in ["nan", "inf", "Infinity", "1_0", "0x10", "٣", " 5", "", "1e999", "5 apples"] {
            let expect = format!("Argument 'limit': value '{}' is not a number", text.trim());
            violations(&serde_json::json!({ "limit": text }).to_string(), &[&expect]);
        }
    }

    #[test]
    fn names_that_readers_take_differently_are_refused() {
        violations(
            r#"{"path": "/etc/passwd", "path": "src/a"}"#,
            &[
                "Argument 'path' is given more than once",
                "Argument 'path': value '/etc/passwd' does not match pattern 'src/[a-z]+|[0-9]'",
            ],
        );
        violations(
            r#"{"p\u0061th": "src/a", "path": "src/a"}"#,
            &["Argument 'path' is given more than once"],
        );
        violations(r#"{"x": 1, "x": 2}"#, &["Argument 'x' is given more than once"]);
        for name in ["PATH", "Path", "ｐath", "pa\u{200b}th", "pAth"] {
            let arguments = serde_json::json!({ (name): "/etc/passwd" }).to_string();
            let shown = crate::text::printable(name);
            violations(
                &arguments,
                &[&format!("Argument '{shown}' may be read as 'path': write 'path'")],
            );
        }
    }

    #[test]
    fn collections_do_not_pass() {
        violations(
            r#"{"path": {"x": "/etc"}}"#,
            &["Argument 'path': a constrained value cannot be an object"],
        );
        violations(
            r#"{"path": ["src/a", ["/etc"]]}"#,
            &["Argument 'path': an item of a constrained list must be a single value"],
        );
        violations(
            r#"{"path": ["src/a", "/etc"]}"#,
            &["Argument 'path': value '/etc' does not match pattern 'src/[a-z]+|[0-9]'"],
        );
        violations(
            r#"{"path": true}"#,
            &["Argument 'path': value 'true' does not match pattern 'src/[a-z]+|[0-9]'"],
        );
        violations(r#"["path"]"#, &["The arguments must be an object"]);
    }
}
