//! Sprig's string functions, except for those about words and case.

use std::collections::BTreeMap;

use super::{
    Args, Function, ParamType,
    builtin::{string, strval},
    plain, variadic,
};
use crate::{
    format,
    quote::quote,
    state::{EvalError, EvalResult, RenderState},
    text::{self, Text, find, runes},
    value::{Element, Value},
};

const TEXT: ParamType = ParamType::Text;
const INT: ParamType = ParamType::Int;

pub(super) const FUNCTIONS: &[Function] = &[
    plain("hello", &[], |state, _| state.text("Hello!")),
    plain("abbrev", &[INT, TEXT], |state, args| {
        let text = args.bytes(1);
        if args.int(0) < 4 {
            state.text(text)
        } else {
            state.text(abbreviate(text, 0, args.int(0)))
        }
    }),
    plain("abbrevboth", &[INT, INT, TEXT], |state, args| {
        let (left, right, text) = (args.int(0), args.int(1), args.bytes(2));
        if right < 4 || left > 0 && right < 7 {
            return state.text(text);
        }
        state.text(abbreviate(text, left, right))
    }),
    plain("trunc", &[INT, TEXT], trunc),
    plain("trim", &[TEXT], |state, args| state.text(args.str(0).trim())),
    plain("substr", &[INT, INT, TEXT], substr),
    plain("repeat", &[INT, TEXT], repeat),
    plain("trimall", &[TEXT; 2], trim_all),
    plain("trimAll", &[TEXT; 2], trim_all),
    plain("trimSuffix", &[TEXT; 2], |state, args| {
        state.text(args.bytes(1).strip_suffix(args.bytes(0)).unwrap_or(args.bytes(1)))
    }),
    plain("trimPrefix", &[TEXT; 2], |state, args| {
        state.text(args.bytes(1).strip_prefix(args.bytes(0)).unwrap_or(args.bytes(1)))
    }),
    plain("contains", &[TEXT; 2], |state, args| {
        state.charge_scan(args.bytes(0).len().saturating_mul(args.bytes(1).len()) / 64)?;
        Ok(Value::Bool(find(args.bytes(1), args.bytes(0)).is_some()))
    }),
    plain("hasPrefix", &[TEXT; 2], |_, args| {
        Ok(Value::Bool(args.bytes(1).starts_with(args.bytes(0))))
    }),
    plain("hasSuffix", &[TEXT; 2], |_, args| {
        Ok(Value::Bool(args.bytes(1).ends_with(args.bytes(0))))
    }),
    variadic("quote", &[], ParamType::Any, |state, args| {
        let quoted = present(args).map(|value| Ok(quote(&strval(state, value)?, false)));
        state.text(quoted.collect::<EvalResult<Vec<_>>>()?.join(" "))
    }),
    variadic("squote", &[], ParamType::Any, |state, args| {
        let quoted = present(args).map(|value| Ok(format!("'{}'", string(state, value)?)));
        state.text(quoted.collect::<EvalResult<Vec<_>>>()?.join(" "))
    }),
    variadic("cat", &[], ParamType::Any, |state, args| {
        let words = present(args).map(|value| format::display(state, value));
        state.text(words.collect::<EvalResult<Vec<_>>>()?.join(&b' '))
    }),
    plain("indent", &[INT, TEXT], |state, args| indent(state, args, b"")),
    plain("nindent", &[INT, TEXT], |state, args| indent(state, args, b"\n")),
    plain("replace", &[TEXT; 3], |state, args| {
        state.text(replace(state, args.bytes(2), args.bytes(0), args.bytes(1))?)
    }),
    plain("plural", &[TEXT, TEXT, INT], |_, args| {
        Ok(args.any(usize::from(args.int(2) != 1)).clone())
    }),
    plain("toString", &[ParamType::Any], |state, args| {
        Ok(Value::Text(strval(state, args.any(0))?))
    }),
    plain("toStrings", &[ParamType::Any], |state, args| state.texts(strings(state, args.any(0))?)),
    plain("join", &[TEXT, ParamType::Any], |state, args| {
        let pieces = strings(state, args.any(1))?;
        state.charge_bytes(pieces.len().saturating_mul(args.bytes(0).len()))?;
        state.text(pieces.iter().map(|piece| &**piece).collect::<Vec<_>>().join(args.bytes(0)))
    }),
    plain("split", &[TEXT; 2], |state, args| numbered(state, args.bytes(1), args.bytes(0), None)),
    plain("splitn", &[TEXT, INT, TEXT], |state, args| {
        let limit = usize::try_from(args.int(1)).ok();
        numbered(state, args.bytes(2), args.bytes(0), limit)
    }),
    plain("splitList", &[TEXT; 2], |state, args| {
        state.texts(pieces(state, args.bytes(1), args.bytes(0), None)?)
    }),
    plain("sortAlpha", &[ParamType::Any], |state, args| {
        let mut texts = match args.any(0) {
            Value::List(_) => strings(state, args.any(0))?,
            other => vec![strval(state, other)?],
        };
        texts.sort();
        state.texts(texts)
    }),
];

fn present<'a>(args: Args<'a>) -> impl Iterator<Item = &'a Value> {
    args.rest(0).iter().filter(|value| !matches!(value, Value::Nil))
}

/// Sprig's `strslice`: the strings of a list, or of a single value.
pub(super) fn strings(state: &RenderState<'_>, value: &Value) -> EvalResult<Vec<Text>> {
    match value {
        Value::Nil => Ok(Vec::new()),
        Value::List(list) => {
            state.charge_steps(list.items.len())?;
            let present = list.items.iter().filter(|item| !matches!(item, Value::Nil));
            present.map(|item| strval(state, item)).collect()
        }
        value => Ok(vec![strval(state, value)?]),
    }
}

fn pieces<'a>(
    state: &RenderState<'_>,
    text: &'a [u8],
    separator: &[u8],
    limit: Option<usize>,
) -> EvalResult<Vec<&'a [u8]>> {
    state.charge_scan(separator.len().saturating_mul(text.len()) / 64)?;
    let pieces = text::split(text, separator, limit);
    state.charge_bytes(pieces.len().saturating_mul(size_of::<Value>()))?;
    Ok(pieces)
}

/// A map from `_0`, `_1`, … to the pieces.
fn numbered(
    state: &RenderState<'_>,
    text: &[u8],
    separator: &[u8],
    limit: Option<usize>,
) -> EvalResult {
    let mut entries = BTreeMap::new();
    for (i, piece) in pieces(state, text, separator, limit)?.into_iter().enumerate() {
        entries.insert(format!("_{i}").into(), state.text(piece)?);
    }
    state.map_of(Element::Text, entries)
}

fn abbreviate(text: &[u8], offset: i64, width: i64) -> Text {
    let part = |start: i64, end: i64| {
        let (start, end) = (usize::try_from(start).unwrap_or(0), usize::try_from(end).unwrap_or(0));
        text.get(start..end).unwrap_or_default()
    };
    let length = i64::try_from(text.len()).unwrap_or(i64::MAX);
    if length <= width {
        return text.into();
    }
    let offset = offset.clamp(0, length);
    let offset = if length - offset < width - 3 { length - (width - 3) } else { offset };
    if offset <= 4 {
        return [part(0, width - 3), b"..."].concat().into();
    }
    if width < 7 {
        return Text::default();
    }
    if offset + width - 3 < length {
        let rest = abbreviate(part(offset, length), 0, width - 3);
        return [b"...", &*rest].concat().into();
    }
    [b"...", part(length - (width - 3), length)].concat().into()
}

fn trunc(state: &RenderState<'_>, args: Args<'_>) -> EvalResult {
    let (count, text) = (args.int(0), args.bytes(1));
    let length = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    if length >= text.len() {
        return state.text(text);
    }
    let kept = if count < 0 { text.get(text.len() - length..) } else { text.get(..length) };
    state.text(kept.unwrap_or(text))
}

fn substr(state: &RenderState<'_>, args: Args<'_>) -> EvalResult {
    let (start, end, text) = (args.int(0), args.int(1), args.bytes(2));
    let position = |n: i64| usize::try_from(n).unwrap_or(usize::MAX);
    let part = if start < 0 {
        text.get(..position(end))
    } else if end < 0 || position(end) > text.len() {
        text.get(position(start)..)
    } else {
        text.get(position(start)..position(end))
    };
    match part {
        Some(part) => state.text(part),
        None => Err(EvalError::new(format!(
            "runtime error: slice bounds out of range [{start}:{end}] with length {}",
            text.len()
        ))),
    }
}

fn repeat(state: &RenderState<'_>, args: Args<'_>) -> EvalResult {
    let Ok(count) = usize::try_from(args.int(0)) else {
        return Err(EvalError::new("strings: negative Repeat count"));
    };
    let text = args.bytes(1);
    state.charge_bytes(text.len().saturating_mul(count))?;
    state.text(text.repeat(if text.is_empty() { 0 } else { count }))
}

fn trim_all(state: &RenderState<'_>, args: Args<'_>) -> EvalResult {
    let (set, text) = (args.str(0), args.str(1));
    state.charge_scan(set.len().saturating_mul(text.len()))?;
    state.text(text.trim_matches(|c| set.contains(c)))
}

fn indent(state: &RenderState<'_>, args: Args<'_>, before: &[u8]) -> EvalResult {
    let Ok(spaces) = usize::try_from(args.int(0)) else {
        return Err(EvalError::new("strings: negative Repeat count"));
    };
    let text = args.bytes(1);
    let lines = text.iter().filter(|byte| **byte == b'\n').count() + 1;
    state.charge_bytes(lines.saturating_mul(spaces))?;
    let pad = b" ".repeat(spaces);
    let mut indented = [before, &pad].concat();
    for byte in text {
        indented.push(*byte);
        if *byte == b'\n' {
            indented.extend_from_slice(&pad);
        }
    }
    state.text(indented)
}

/// `strings.ReplaceAll`; an empty `old` matches before every character and at the end.
fn replace(state: &RenderState<'_>, text: &[u8], old: &[u8], new: &[u8]) -> EvalResult<Vec<u8>> {
    if old.is_empty() {
        let count = runes(text).count() + 1;
        state.charge_bytes(count.saturating_mul(new.len()))?;
        let mut replaced = new.to_vec();
        let mut rest = text;
        for (_, width) in runes(text) {
            let (c, after) = rest.split_at_checked(width).unwrap_or((rest, &[]));
            replaced.extend_from_slice(c);
            replaced.extend_from_slice(new);
            rest = after;
        }
        return Ok(replaced);
    }
    let pieces = pieces(state, text, old, None)?;
    state.charge_bytes(pieces.len().saturating_mul(new.len()))?;
    Ok(pieces.join(new))
}
