//! Go's formatting of values, which scenarios expect: `map[a:1]`, `[1 2]`, `1e+06`.
//!
//! In Go, a number received as JSON is a float, one written in YAML without a decimal point an integer.
//! [`as_received`] expresses that difference in a [`Value`].

use serde_json::{Map, Number, Value};

/// Formats a value with Go's `%v`.
pub fn display(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(truth) => truth.to_string(),
        Value::Number(number) => self::number(number),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(display).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(map) => {
            let mut members: Vec<_> = map.iter().collect();
            members.sort_by_key(|(key, _)| key.as_str());
            let members: Vec<String> =
                members.iter().map(|(key, value)| format!("{key}:{}", display(value))).collect();
            format!("map[{}]", members.join(" "))
        }
    }
}

/// Formats a value inside rendered text: floats have six decimals.
pub fn in_template(value: &Value) -> String {
    match value {
        Value::Number(number) if number.is_f64() => {
            number.as_f64().map(|float| format!("{float:.6}")).unwrap_or_default()
        }
        other => display(other),
    }
}

/// Converts every number to a float, as if received as JSON.
pub fn as_received(value: Value) -> Value {
    match value {
        Value::Number(number) => {
            let float = number.as_f64().and_then(Number::from_f64);
            Value::Number(float.unwrap_or(number))
        }
        Value::Array(items) => Value::Array(items.into_iter().map(as_received).collect()),
        Value::Object(map) => {
            Value::Object(map.into_iter().map(|(key, value)| (key, as_received(value))).collect())
        }
        other => other,
    }
}

/// Compact JSON with sorted keys and whole floats without a point.
pub fn json(value: &Value) -> String {
    sorted(value).to_string()
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Number(number) => whole(number).map_or_else(|| value.clone(), Value::from),
        Value::Array(items) => Value::Array(items.iter().map(sorted).collect()),
        Value::Object(map) => {
            let mut members: Vec<_> = map.iter().collect();
            members.sort_by_key(|(key, _)| key.as_str());
            let members: Map<String, Value> =
                members.into_iter().map(|(key, value)| (key.clone(), sorted(value))).collect();
            Value::Object(members)
        }
        other => other.clone(),
    }
}

/// The integer that a float is, if it is one and small enough to be exact.
fn whole(number: &Number) -> Option<i64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let float = number.as_f64().filter(|_| number.is_f64())?;
    if float.fract() != 0.0 || float.abs() > EXACT {
        return None;
    }
    format!("{float:.0}").parse().ok()
}

/// Integers in decimal; floats in the shortest form, with an exponent from a million on.
fn number(number: &Number) -> String {
    let Some(float) = number.as_f64().filter(|_| number.is_f64()) else {
        return number.to_string();
    };
    let written = format!("{float:e}");
    let (mantissa, exponent) = written.split_once('e').unwrap_or((&written, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if float != 0.0 && !(-4..6).contains(&exponent) {
        return with_exponent(mantissa, exponent);
    }
    float.to_string()
}

fn with_exponent(mantissa: &str, exponent: i32) -> String {
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{as_received, display, in_template, json};

    #[test]
    fn display_forms() {
        for (value, expect) in [
            (json!(null), "<nil>"),
            (json!(true), "true"),
            (json!(5), "5"),
            (json!(5.0), "5"),
            (json!(0.25), "0.25"),
            (json!(100_000.0), "100000"),
            (json!(1_000_000.0), "1e+06"),
            (json!(1_234_567.0), "1.234567e+06"),
            (json!(1_000_000), "1000000"),
            (json!(0.00001), "1e-05"),
            (json!(-2.5), "-2.5"),
            (json!("x"), "x"),
            (json!([1, "a", null]), "[1 a <nil>]"),
            (json!({"b": 1, "a": {"c": []}}), "map[a:map[c:[]] b:1]"),
        ] {
            assert_eq!(display(&value), expect, "{value}");
        }
    }

    #[test]
    fn received_numbers_are_floats() {
        assert_eq!(in_template(&json!(5)), "5");
        assert_eq!(in_template(&as_received(json!(5))), "5.000000");
        assert_eq!(in_template(&as_received(json!({"n": [5]}))), "map[n:[5]]");
    }

    #[test]
    fn compact_and_sorted() {
        assert_eq!(
            json(&json!({"b": 5.0, "a": [1.5, {"d": 1, "c": 2}]})),
            r#"{"a":[1.5,{"c":2,"d":1}],"b":5}"#
        );
    }
}
