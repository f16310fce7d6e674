//! A tool's arguments in one short line.

use serde_json::{Value, value::RawValue};

/// The number of enum values shown.
const MAX_CHOICES: usize = 4;

/// The arguments of a JSON Schema: `path, mode: fast|slow, lines?: integer`. Required ones come
/// first. A line longer than `max_chars` characters ends with `…`.
pub fn line(schema: &RawValue, max_chars: usize) -> String {
    let schema: Value = serde_json::from_str(schema.get()).unwrap_or_default();
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return String::new();
    };
    let required_args = properties.iter().filter(|(name, _)| required.contains(&name.as_str()));
    let optional_args = properties.iter().filter(|(name, _)| !required.contains(&name.as_str()));
    let required_args = required_args.map(|(name, property)| argument(name, "", property));
    let optional_args = optional_args.map(|(name, property)| argument(name, "?", property));
    let mut text = String::new();
    for argument in required_args.chain(optional_args) {
        let comma = if text.is_empty() { "" } else { ", " };
        if text.chars().count() + comma.len() + argument.chars().count() > max_chars {
            text.push_str(comma);
            text.push('…');
            break;
        }
        text.push_str(comma);
        text.push_str(&argument);
    }
    text
}

/// The type `string` is the most common and left out.
fn argument(name: &str, mark: &str, property: &Value) -> String {
    match kind(property) {
        Some(kind) if kind != "string" => format!("{name}{mark}: {kind}"),
        _ => format!("{name}{mark}"),
    }
}

fn kind(property: &Value) -> Option<String> {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    if let Some(choices) = property.get("enum").and_then(Value::as_array) {
        let mut shown: Vec<String> = choices.iter().take(MAX_CHOICES).map(text).collect();
        if choices.len() > MAX_CHOICES {
            shown.push("…".to_owned());
        }
        return Some(shown.join("|"));
    }
    match property.get("type")? {
        Value::String(kind) if kind == "array" => {
            let items = property.get("items").and_then(kind_of_items);
            Some(items.map_or_else(|| "array".to_owned(), |items| format!("{items}[]")))
        }
        Value::String(kind) => Some(kind.clone()),
        Value::Array(kinds) => Some(kinds.iter().map(text).collect::<Vec<_>>().join("|")),
        _ => None,
    }
}

fn kind_of_items(items: &Value) -> Option<&str> {
    items.get("type").and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::line;

    #[track_caller]
    fn check(schema: &str, max_chars: usize, expect: &str) {
        let schema = RawValue::from_string(schema.to_owned()).unwrap();
        assert_eq!(line(&schema, max_chars), expect);
    }

    #[test]
    fn required_arguments_come_first() {
        const SCHEMA: &str = r#"{"properties":{"lines":{"type":"integer"},"path":{"type":"string"},
            "mode":{"enum":["a","b",3,null,5,6]},"tags":{"type":"array","items":{"type":"string"}},
            "any":true,"either":{"type":["string","null"]}},"required":["path","mode"]}"#;
        check(
            SCHEMA,
            200,
            "path, mode: a|b|3|null|…, lines?: integer, tags?: string[], any?, either?: string|null",
        );
        check(SCHEMA, 30, "path, mode: a|b|3|null|…, …");
        check(SCHEMA, 2, "…");
    }

    #[test]
    fn no_arguments_give_an_empty_line() {
        for schema in ["{}", "true", "[]", r#"{"properties":{}}"#, r#"{"properties":3}"#] {
            check(schema, 100, "");
        }
    }
}
