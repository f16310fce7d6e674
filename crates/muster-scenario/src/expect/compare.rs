//! Looks up JSON paths and compares values loosely, as scenarios expect.

use serde_json::{Number, Value};

use crate::go_format;

/// The first difference between two values.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mismatch {
    /// The path to it, relative to the compared values: `.key`, `.0.key`, or empty.
    pub(super) below: String,
    pub(super) expected: String,
    pub(super) got: String,
}

/// Follows a dotted path; numbers index lists. The error says where it ends.
pub(super) fn walk<'a>(value: &'a Value, path: &str) -> Result<&'a Value, String> {
    if let Some(found) = value.get(path) {
        return Ok(found);
    }
    let mut here = value;
    let mut walked: Vec<&str> = Vec::new();
    for name in path.split('.') {
        let next = match here {
            Value::Object(map) => map.get(name),
            Value::Array(items) => name.parse::<usize>().ok().and_then(|place| items.get(place)),
            _ => None,
        };
        here = next.ok_or_else(|| missing(here, name, &walked))?;
        walked.push(name);
    }
    Ok(here)
}

fn missing(here: &Value, name: &str, walked: &[&str]) -> String {
    let place = match walked {
        [] => "the result".to_owned(),
        walked => format!("`{}`", walked.join(".")),
    };
    match here {
        Value::Object(map) if map.is_empty() => format!("no `{name}`: {place} is empty"),
        Value::Object(map) => {
            let keys: Vec<&str> = map.keys().map(String::as_str).collect();
            format!("no `{name}`: {place} has {}", keys.join(", "))
        }
        Value::Array(items) => format!("no `{name}`: {place} has {} elements", items.len()),
        other => format!("no `{name}`: {place} is {other}"),
    }
}

/// The first difference, if any.
pub(super) fn mismatch(expected: &Value, got: &Value) -> Option<Mismatch> {
    match (expected, got) {
        (Value::Array(wanted), Value::Array(items)) => {
            if wanted.len() != items.len() {
                let expected = format!("{} elements: {expected}", wanted.len());
                let got = format!("{} elements: {got}", items.len());
                return Some(Mismatch { below: String::new(), expected, got });
            }
            let pairs = wanted.iter().zip(items).enumerate();
            pairs
                .map(|(place, (wanted, item))| below(&place.to_string(), wanted, item))
                .find_map(|m| m)
        }
        (Value::Object(wanted), Value::Object(map)) => wanted.iter().find_map(|(key, wanted)| {
            map.get(key).map_or_else(
                || {
                    let got = missing(got, key, &[]);
                    Some(Mismatch { below: format!(".{key}"), expected: wanted.to_string(), got })
                },
                |value| below(key, wanted, value),
            )
        }),
        _ if is_same(expected, got) => None,
        _ => {
            let (expected, got) = (expected.to_string(), got.to_string());
            Some(Mismatch { below: String::new(), expected, got })
        }
    }
}

fn below(name: &str, expected: &Value, got: &Value) -> Option<Mismatch> {
    let mismatch = mismatch(expected, got)?;
    Some(Mismatch { below: format!(".{name}{}", mismatch.below), ..mismatch })
}

fn is_same(expected: &Value, got: &Value) -> bool {
    match (expected, got) {
        (Value::Null, _) | (_, Value::Null) => expected == got,
        (Value::Number(expected), Value::Number(got)) => same_number(expected, got),
        (Value::Bool(truth), Value::String(text)) | (Value::String(text), Value::Bool(truth)) => {
            *text == truth.to_string()
        }
        // Go prints a JSON number as a float; its plain digits are accepted as well.
        (Value::String(text), Value::Number(number))
        | (Value::Number(number), Value::String(text)) => {
            *text == number.to_string() || *text == go_format::display(&received(number))
        }
        _ => go_format::display(expected) == go_format::display(got),
    }
}

fn received(number: &Number) -> Value {
    go_format::as_received(Value::Number(number.clone()))
}

fn same_number(one: &Number, other: &Number) -> bool {
    match (one.as_i64(), other.as_i64()) {
        (Some(one), Some(other)) => one == other,
        _ => one.as_f64() == other.as_f64(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{mismatch, walk};

    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "a table reads better without ampersands")]
    fn same(expected: Value, got: Value) {
        assert_eq!(mismatch(&expected, &got), None);
    }

    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "a table reads better without ampersands")]
    fn differs(expected: Value, got: Value, text: &str) {
        let mismatch = mismatch(&expected, &got).expect("they differ");
        let shown = format!("{} | {} | {}", mismatch.below, mismatch.expected, mismatch.got);
        assert_eq!(shown, text);
    }

    #[test]
    fn loosely_equal_values() {
        same(json!(null), json!(null));
        same(json!(5), json!(5.0));
        same(json!("5"), json!(5));
        same(json!("1000000"), json!(1_000_000));
        same(json!("1e+06"), json!(1_000_000));
        same(json!(5), json!("5"));
        same(json!(true), json!("true"));
        same(json!("false"), json!(false));
        same(json!({"a": 1}), json!({"a": 1, "b": 2}));
        same(json!([1, {"x": "y"}]), json!([1, {"x": "y", "z": 0}]));
        same(json!("map[a:1]"), json!({"a": 1}));
        same(json!("[1 2]"), json!([1, 2]));
    }

    #[test]
    fn different_values() {
        differs(json!(null), json!(0), " | null | 0");
        differs(json!("x"), json!(null), r#" | "x" | null"#);
        differs(json!("running"), json!("Running"), r#" | "running" | "Running""#);
        differs(json!([1]), json!([1, 2]), " | 1 elements: [1] | 2 elements: [1,2]");
        differs(json!({"a": {"b": [1, 2]}}), json!({"a": {"b": [1, 3]}}), ".a.b.1 | 2 | 3");
        differs(json!({"a": 1}), json!({"b": 1}), ".a | 1 | no `a`: the result has b");
        differs(json!(true), json!("True"), r#" | true | "True""#);
    }

    #[test]
    fn paths() {
        let value = json!({"a": {"b": [{"c": 1}]}, "dotted.key": 2, "n": 3, "e": {}});
        let show = |path: &str| match walk(&value, path) {
            Ok(value) => value.to_string(),
            Err(why) => why,
        };
        assert_eq!(show("a.b.0.c"), "1");
        assert_eq!(show("dotted.key"), "2");
        assert_eq!(show("a.b.1"), "no `1`: `a.b` has 1 elements");
        assert_eq!(show("a.x"), "no `x`: `a` has b");
        assert_eq!(show("n.x"), "no `x`: `n` is 3");
        assert_eq!(show("e.x"), "no `x`: `e` is empty");
        assert_eq!(show("z"), "no `z`: the result has a, dotted.key, n, e");
    }
}
