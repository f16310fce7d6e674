//! Go's own functions, except for the comparisons.

use super::{Args, Call, Function, ParamType, plain, variadic};
use crate::{
    format::{self, sprint},
    state::{EvalError, EvalResult, RenderState},
    text::{Text, lossy, push, runes},
    unicode::is_print,
    value::{Element, Map, UintKind, Value},
};

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "and",
        takes: &[ParamType::Any],
        rest: Some(ParamType::Any),
        call: Call::Until(false),
    },
    Function {
        name: "or",
        takes: &[ParamType::Any],
        rest: Some(ParamType::Any),
        call: Call::Until(true),
    },
    plain("not", &[ParamType::Any], |_, args| Ok(Value::Bool(!args.any(0).truth()))),
    variadic("call", &[ParamType::Any], ParamType::Any, |_, args| match args.any(0) {
        Value::Nil => Err(EvalError::new("call of nil")),
        // Template values are never functions.
        value => Err(EvalError::new(format!("non-function of type {}", value.type_name()))),
    }),
    variadic("index", &[ParamType::Any], ParamType::Any, |_, args| index(args)),
    plain("len", &[ParamType::Any], |_, args| len(args.any(0))),
    variadic("print", &[], ParamType::Any, |state, args| Ok(made(sprint(state, args.rest(0))?))),
    variadic("println", &[], ParamType::Any, |state, args| {
        Ok(made(format::sprintln(state, args.rest(0))?))
    }),
    variadic("printf", &[ParamType::Text], ParamType::Any, |state, args| {
        Ok(made(format::sprintf(state, args.bytes(0), args.rest(1))?))
    }),
    variadic("html", &[], ParamType::Any, |state, args| state.text(html(&together(state, args)?))),
    variadic("js", &[], ParamType::Any, |state, args| state.text(js(&together(state, args)?))),
    variadic("urlquery", &[], ParamType::Any, |state, args| {
        state.text(super::urls::query_escape(&together(state, args)?))
    }),
];

/// Wraps output of the printer, whose bytes were already charged.
fn made(bytes: Vec<u8>) -> Value {
    Value::text(bytes)
}

fn together(state: &RenderState<'_>, args: Args<'_>) -> EvalResult<Vec<u8>> {
    match args.rest(0) {
        [Value::Text(text)] => Ok(text.to_vec()),
        values => {
            // Nil prints as in an action.
            let no_value = Value::text("<no value>");
            let shown = values.iter().map(|value| match value {
                Value::Nil => no_value.clone(),
                value => value.clone(),
            });
            sprint(state, &shown.collect::<Vec<_>>())
        }
    }
}

fn index(args: Args<'_>) -> EvalResult {
    let mut item = args.any(0).clone();
    if matches!(item, Value::Nil) {
        return Err(EvalError::new("index of untyped nil"));
    }
    for index in args.rest(1) {
        item = match &item {
            Value::List(list) => {
                let at = position(index, list.items.len())?;
                list.items.get(at).cloned().ok_or_else(|| out_of_range("slice"))?
            }
            Value::Text(text) => {
                let at = position(index, text.len())?;
                let byte = text.get(at).ok_or_else(|| out_of_range("string"))?;
                Value::Uint((*byte).into(), UintKind::Byte)
            }
            Value::Map(map) => entry(map, index)?,
            Value::Nil => return Err(EvalError::new("index of nil pointer")),
            other => {
                return Err(EvalError::new(format!(
                    "can't index item of type {}",
                    other.type_name()
                )));
            }
        };
    }
    Ok(item)
}

/// Go's bounds check allows one past the end.
fn out_of_range(what: &str) -> EvalError {
    EvalError::new(format!("reflect: {what} index out of range"))
}

fn position(index: &Value, length: usize) -> EvalResult<usize> {
    let n = match index {
        Value::Int(n, _) => i128::from(*n),
        Value::Uint(n, _) => i128::from(*n),
        Value::Nil => return Err(EvalError::new("cannot index slice/array with nil")),
        other => {
            let kind = other.type_name();
            return Err(EvalError::new(format!("cannot index slice/array with type {kind}")));
        }
    };
    let at = usize::try_from(n).ok().filter(|at| *at <= length);
    at.ok_or_else(|| EvalError::new(format!("index out of range: {n}")))
}

fn entry(map: &Map, index: &Value) -> EvalResult {
    let key = match index {
        Value::Text(text) => text,
        Value::Nil => return Err(EvalError::new("value is nil; should be of type string")),
        other => {
            let kind = other.type_name();
            return Err(EvalError::new(format!("value has type {kind}; should be string")));
        }
    };
    let missing = if map.element == Element::Text { Value::text("") } else { Value::Nil };
    Ok(map.entries.borrow().get(key).cloned().unwrap_or(missing))
}

fn len(value: &Value) -> EvalResult {
    Ok(Value::count(match value {
        Value::Text(text) => text.len(),
        Value::List(list) => list.items.len(),
        Value::Map(map) => map.entries.borrow().len(),
        Value::Nil => return Err(EvalError::new("len of nil pointer")),
        other => return Err(EvalError::new(format!("len of type {}", other.type_name()))),
    }))
}

fn html(bytes: &[u8]) -> Text {
    let mut escaped = Vec::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            0 => escaped.extend_from_slice("\u{fffd}".as_bytes()),
            b'"' => escaped.extend_from_slice(b"&#34;"),
            b'\'' => escaped.extend_from_slice(b"&#39;"),
            b'&' => escaped.extend_from_slice(b"&amp;"),
            b'<' => escaped.extend_from_slice(b"&lt;"),
            b'>' => escaped.extend_from_slice(b"&gt;"),
            byte => escaped.push(*byte),
        }
    }
    escaped.into()
}

fn js(bytes: &[u8]) -> Text {
    let mut escaped = Vec::with_capacity(bytes.len());
    for (c, _) in runes(bytes) {
        match c {
            '\\' | '\'' | '"' => {
                escaped.push(b'\\');
                push(&mut escaped, c);
            }
            '<' | '>' | '&' | '=' => escaped.extend(format!("\\u{:04X}", u32::from(c)).bytes()),
            c if c < ' ' => escaped.extend(format!("\\u{:04X}", u32::from(c)).bytes()),
            c if c.is_ascii() || is_print(c) => push(&mut escaped, c),
            c => escaped.extend(format!("\\u{:04X}", u32::from(c)).bytes()),
        }
    }
    escaped.into()
}

/// Sprig's `strval`: a value as a string.
pub(super) fn strval(state: &RenderState<'_>, value: &Value) -> EvalResult<Text> {
    match value {
        Value::Text(text) => Ok(text.clone()),
        value => Ok(format::display(state, value)?.into()),
    }
}

/// `strval` as text.
pub(super) fn string(state: &RenderState<'_>, value: &Value) -> EvalResult<String> {
    Ok(lossy(&strval(state, value)?).into_owned())
}
