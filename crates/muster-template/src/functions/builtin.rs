//! Go's own functions, but for the comparisons.

use super::{Args, Call, Function, Type, plain, variadic};
use crate::{
    format::{self, sprint},
    run::{Answer, Fail, Run},
    text::{Text, lossy, push, runes},
    unicode::is_print,
    value::{Element, Map, UintKind, Value},
};

pub(super) const FUNCTIONS: &[Function] = &[
    Function { name: "and", takes: &[Type::Any], rest: Some(Type::Any), call: Call::Until(false) },
    Function { name: "or", takes: &[Type::Any], rest: Some(Type::Any), call: Call::Until(true) },
    plain("not", &[Type::Any], |_, args| Ok(Value::Bool(!args.any(0).truth()))),
    variadic("call", &[Type::Any], Type::Any, |_, args| match args.any(0) {
        Value::Nil => Err(Fail::new("call of nil")),
        // No value of a template is a function.
        value => Err(Fail::new(format!("non-function of type {}", value.type_name()))),
    }),
    variadic("index", &[Type::Any], Type::Any, |_, args| index(args)),
    plain("len", &[Type::Any], |_, args| len(args.any(0))),
    variadic("print", &[], Type::Any, |run, args| Ok(made(sprint(run, args.rest(0))?))),
    variadic("println", &[], Type::Any, |run, args| Ok(made(format::sprintln(run, args.rest(0))?))),
    variadic("printf", &[Type::Text], Type::Any, |run, args| {
        Ok(made(format::sprintf(run, args.bytes(0), args.rest(1))?))
    }),
    variadic("html", &[], Type::Any, |run, args| run.text(html(&together(run, args)?))),
    variadic("js", &[], Type::Any, |run, args| run.text(js(&together(run, args)?))),
    variadic("urlquery", &[], Type::Any, |run, args| {
        run.text(super::urls::query_escape(&together(run, args)?))
    }),
];

/// What the printer made, which it has paid for.
fn made(bytes: Vec<u8>) -> Value {
    Value::text(bytes)
}

fn together(run: &Run<'_>, args: Args<'_>) -> Answer<Vec<u8>> {
    match args.rest(0) {
        [Value::Text(text)] => Ok(text.to_vec()),
        values => {
            // Nil prints as an action prints it.
            let no_value = Value::text("<no value>");
            let shown = values.iter().map(|value| match value {
                Value::Nil => no_value.clone(),
                value => value.clone(),
            });
            sprint(run, &shown.collect::<Vec<_>>())
        }
    }
}

fn index(args: Args<'_>) -> Answer {
    let mut item = args.any(0).clone();
    if matches!(item, Value::Nil) {
        return Err(Fail::new("index of untyped nil"));
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
            Value::Nil => return Err(Fail::new("index of nil pointer")),
            other => {
                return Err(Fail::new(format!("can't index item of type {}", other.type_name())));
            }
        };
    }
    Ok(item)
}

/// One past the end is where Go's own check lets through.
fn out_of_range(what: &str) -> Fail {
    Fail::new(format!("reflect: {what} index out of range"))
}

fn position(index: &Value, length: usize) -> Answer<usize> {
    let n = match index {
        Value::Int(n, _) => i128::from(*n),
        Value::Uint(n, _) => i128::from(*n),
        Value::Nil => return Err(Fail::new("cannot index slice/array with nil")),
        other => {
            let kind = other.type_name();
            return Err(Fail::new(format!("cannot index slice/array with type {kind}")));
        }
    };
    let at = usize::try_from(n).ok().filter(|at| *at <= length);
    at.ok_or_else(|| Fail::new(format!("index out of range: {n}")))
}

fn entry(map: &Map, index: &Value) -> Answer {
    let key = match index {
        Value::Text(text) => text,
        Value::Nil => return Err(Fail::new("value is nil; should be of type string")),
        other => {
            let kind = other.type_name();
            return Err(Fail::new(format!("value has type {kind}; should be string")));
        }
    };
    let missing = if map.element == Element::Text { Value::text("") } else { Value::Nil };
    Ok(map.entries.borrow().get(key).cloned().unwrap_or(missing))
}

fn len(value: &Value) -> Answer {
    Ok(Value::count(match value {
        Value::Text(text) => text.len(),
        Value::List(list) => list.items.len(),
        Value::Map(map) => map.entries.borrow().len(),
        Value::Nil => return Err(Fail::new("len of nil pointer")),
        other => return Err(Fail::new(format!("len of type {}", other.type_name()))),
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

/// `strval` of sprig: what a value is as a string.
pub(super) fn strval(run: &Run<'_>, value: &Value) -> Answer<Text> {
    match value {
        Value::Text(text) => Ok(text.clone()),
        value => Ok(format::display(run, value)?.into()),
    }
}

/// `strval` as text.
pub(super) fn string(run: &Run<'_>, value: &Value) -> Answer<String> {
    Ok(lossy(&strval(run, value)?).into_owned())
}
