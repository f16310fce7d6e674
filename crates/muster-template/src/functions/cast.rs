//! How sprig's arithmetic reads whatever it is given: as a number if it can, as 0 if not.

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

/// What a processor of the usual kind makes of a float that is too large, or is none.
fn truncated(n: f64) -> i64 {
    const END: f64 = 9_223_372_036_854_775_808.0;
    if (-END..END).contains(&n) { n as i64 } else { i64::MIN }
}

/// `1.00` is read as `1`.
fn without_zero_decimals(text: &str) -> &str {
    match text.trim_end_matches('0').strip_suffix('.') {
        Some(whole) if text.ends_with('0') => whole,
        _ => text,
    }
}
