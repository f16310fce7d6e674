//! Conversion between JSON and template values.

use std::collections::BTreeMap;

use serde_json::{Map as JsonMap, Number, Value as Json};

use super::{
    format::{float::format_float, stringer_text},
    references::UsedPaths,
    state::{EvalError, EvalResult, RenderState},
    text::Text,
    time::layout,
    value::Value,
};

/// Converts all of `data`; numbers become floats, as in Go.
pub(crate) fn from_json(state: &RenderState<'_>, data: &Json, depth: u32) -> EvalResult {
    let depth = RenderState::deeper(depth)?;
    match data {
        Json::Null => Ok(Value::Nil),
        Json::Bool(yes) => Ok(Value::Bool(*yes)),
        Json::Number(n) => Ok(Value::Float(n.as_f64().unwrap_or(f64::NAN))),
        Json::String(text) => state.text(&**text),
        Json::Array(items) => {
            let items = items.iter().map(|item| from_json(state, item, depth));
            state.list(items.collect::<EvalResult<_>>()?)
        }
        Json::Object(entries) => {
            let entries = entries.iter();
            let entries = entries
                .map(|(key, value)| Ok((key.as_str().into(), from_json(state, value, depth)?)));
            state.map(entries.collect::<EvalResult<_>>()?)
        }
    }
}

/// Converts the parts of `data` that the template uses.
pub(crate) fn wanted_from_json(
    state: &RenderState<'_>,
    data: &Json,
    wanted: &UsedPaths<'_>,
) -> EvalResult {
    if wanted.all {
        return from_json(state, data, 0);
    }
    match data {
        Json::Object(entries) => {
            let mut kept: BTreeMap<Text, Value> = BTreeMap::new();
            for (key, wanted) in &wanted.keys {
                if let Some(value) = entries.get(*key) {
                    kept.insert((*key).into(), wanted_from_json(state, value, wanted)?);
                }
            }
            state.map(kept)
        }
        // Its content is never read, only its type and truth.
        Json::Array(_) => state.list(Vec::new()),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => from_json(state, data, 0),
    }
}

/// Converts `value` to JSON; types that JSON lacks become text.
pub(crate) fn to_json(state: &RenderState<'_>, value: &Value, depth: u32) -> EvalResult<Json> {
    state.charge_steps(1)?;
    let depth = RenderState::deeper(depth)?;
    Ok(match value {
        Value::Nil => Json::Null,
        Value::Bool(yes) => Json::Bool(*yes),
        Value::Int(n, _) => Json::from(*n),
        Value::Uint(n, _) => Json::from(*n),
        Value::Float(n) => number(*n),
        Value::Text(text) => Json::String(text.to_str().into_owned()),
        Value::List(list) => {
            let items = list.items.iter().map(|item| to_json(state, item, depth));
            Json::Array(items.collect::<EvalResult<_>>()?)
        }
        Value::Map(map) => {
            let entries = map.entries.borrow();
            let entries = entries
                .iter()
                .map(|(key, item)| Ok((key.to_str().into_owned(), to_json(state, item, depth)?)));
            Json::Object(entries.collect::<EvalResult<JsonMap<_, _>>>()?)
        }
        Value::Time(time) => {
            let text = layout::format(time, b"2006-01-02T15:04:05.999999999Z07:00");
            Json::String(super::text::lossy(&text).into_owned())
        }
        Value::Version(_) => Json::String(stringer_text(value).unwrap_or_default()),
        Value::Complex(..) => return Err(EvalError::new("JSON has no complex numbers")),
    })
}

/// Whole floats are whole numbers in JSON.
fn number(n: f64) -> Json {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if n.fract() == 0.0 && n.abs() <= EXACT {
        return Json::from(n as i64);
    }
    match Number::from_f64(n) {
        Some(n) => Json::Number(n),
        None => Json::String(format_float(n, b'g', None)),
    }
}
