//! JSON data to values, and values back to JSON.

use std::collections::BTreeMap;

use serde_json::{Map as JsonMap, Number, Value as Json};

use super::{
    format::{float::format_float, spoken},
    references::Wanted,
    run::{Answer, Fail, Run},
    text::Text,
    time::layout,
    value::Value,
};

/// All of `data`; numbers become floats, as in Go.
pub(crate) fn from_json(run: &Run<'_>, data: &Json, depth: u32) -> Answer {
    let depth = Run::deeper(depth)?;
    match data {
        Json::Null => Ok(Value::Nil),
        Json::Bool(yes) => Ok(Value::Bool(*yes)),
        Json::Number(n) => Ok(Value::Float(n.as_f64().unwrap_or(f64::NAN))),
        Json::String(text) => run.text(&**text),
        Json::Array(items) => {
            let items = items.iter().map(|item| from_json(run, item, depth));
            run.list(items.collect::<Answer<_>>()?)
        }
        Json::Object(entries) => {
            let entries = entries.iter();
            let entries = entries
                .map(|(key, value)| Ok((key.as_str().into(), from_json(run, value, depth)?)));
            run.map(entries.collect::<Answer<_>>()?)
        }
    }
}

/// The parts of `data` that are wanted; the others might as well not be there.
pub(crate) fn wanted_from_json(run: &Run<'_>, data: &Json, wanted: &Wanted<'_>) -> Answer {
    if wanted.all {
        return from_json(run, data, 0);
    }
    match data {
        Json::Object(entries) => {
            let mut kept: BTreeMap<Text, Value> = BTreeMap::new();
            for (key, wanted) in &wanted.keys {
                if let Some(value) = entries.get(*key) {
                    kept.insert((*key).into(), wanted_from_json(run, value, wanted)?);
                }
            }
            run.map(kept)
        }
        // Nobody looks into it, only at what it is.
        Json::Array(_) => run.list(Vec::new()),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => from_json(run, data, 0),
    }
}

/// `value` as JSON; what JSON does not have becomes text.
pub(crate) fn to_json(run: &Run<'_>, value: &Value, depth: u32) -> Answer<Json> {
    run.work(1)?;
    let depth = Run::deeper(depth)?;
    Ok(match value {
        Value::Nil => Json::Null,
        Value::Bool(yes) => Json::Bool(*yes),
        Value::Int(n, _) => Json::from(*n),
        Value::Uint(n, _) => Json::from(*n),
        Value::Float(n) => number(*n),
        Value::Text(text) => Json::String(text.to_str().into_owned()),
        Value::List(list) => {
            let items = list.items.iter().map(|item| to_json(run, item, depth));
            Json::Array(items.collect::<Answer<_>>()?)
        }
        Value::Map(map) => {
            let entries = map.entries.borrow();
            let entries = entries
                .iter()
                .map(|(key, item)| Ok((key.to_str().into_owned(), to_json(run, item, depth)?)));
            Json::Object(entries.collect::<Answer<JsonMap<_, _>>>()?)
        }
        Value::Time(time) => {
            let text = layout::format(time, b"2006-01-02T15:04:05.999999999Z07:00");
            Json::String(super::text::lossy(&text).into_owned())
        }
        Value::Version(_) => Json::String(spoken(value).unwrap_or_default()),
        Value::Complex(..) => return Err(Fail::new("JSON has no complex numbers")),
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
