//! Conversions of sprig's arithmetic: any value to a number, 0 if it is none.

use crate::{
    number::{parse_float, parse_int},
    text::lossy,
    value::Value,
};

/// `cast.ToInt64`.
pub(super) fn to_int(value: &Value) -> i64 {
    match value {
        Value::Int(n, _) => *n,
        Value::Uint(n, _) => *n as i64,
        Value::Float(n) => truncated(*n),
        Value::Bool(yes) => i64::from(*yes),
        Value::Text(text) => parse_int(without_zero_decimals(&lossy(text))).unwrap_or(0),
        Value::Nil
        | Value::Complex(..)
        | Value::List(_)
        | Value::Map(_)
        | Value::Time(_)
        | Value::Version(_) => 0,
    }
}

/// `cast.ToFloat64`.
pub(super) fn to_float(value: &Value) -> f64 {
    match value {
        Value::Float(n) => *n,
        Value::Text(text) => parse_float(&lossy(text)).unwrap_or(0.0),
        Value::Uint(n, _) => *n as f64,
        other => to_int(other) as f64,
    }
}

/// Converts a float as amd64 does: overflow and NaN give the least integer.
fn truncated(n: f64) -> i64 {
    const END: f64 = 9_223_372_036_854_775_808.0;
    if (-END..END).contains(&n) { n as i64 } else { i64::MIN }
}

/// Drops a fraction of zeros: `1.00` reads as `1`.
fn without_zero_decimals(text: &str) -> &str {
    match text.trim_end_matches('0').strip_suffix('.') {
        Some(whole) if text.ends_with('0') => whole,
        _ => text,
    }
}
