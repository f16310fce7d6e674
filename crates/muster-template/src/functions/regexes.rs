//! Regular expressions.

use ::regex::{Captures, Regex};

use super::{Args, Function, ParamType, plain};
use crate::{
    regex::{self, compile},
    state::{EvalError, EvalResult, RenderState},
    text::Text,
    unicode::is_alphanumeric,
    value::{Element, Value},
};

const TEXT: ParamType = ParamType::Text;
const TWO: &[ParamType] = &[TEXT; 2];
const THREE: &[ParamType] = &[TEXT; 3];
const COUNTED: &[ParamType] = &[TEXT, TEXT, ParamType::Int];

pub(super) const FUNCTIONS: &[Function] = &[
    plain("regexMatch", TWO, |state, args| match matches(state, args) {
        Err(EvalError::Message(_)) => Ok(Value::Bool(false)),
        answer => answer,
    }),
    plain("mustRegexMatch", TWO, matches),
    plain("regexFind", TWO, find),
    plain("mustRegexFind", TWO, find),
    plain("regexFindAll", COUNTED, find_all),
    plain("mustRegexFindAll", COUNTED, find_all),
    plain("regexReplaceAll", THREE, |state, args| replace(state, args, true)),
    plain("mustRegexReplaceAll", THREE, |state, args| replace(state, args, true)),
    plain("regexReplaceAllLiteral", THREE, |state, args| replace(state, args, false)),
    plain("mustRegexReplaceAllLiteral", THREE, |state, args| replace(state, args, false)),
    plain("regexSplit", COUNTED, split),
    plain("mustRegexSplit", COUNTED, split),
    plain("regexQuoteMeta", &[TEXT], |state, args| {
        state.charge_bytes(args.bytes(0).len())?;
        state.text(quote_meta(args.bytes(0)))
    }),
];

/// Compiles the first argument, and charges for a search of the second.
fn pattern(state: &RenderState<'_>, args: Args<'_>) -> EvalResult<Regex> {
    let text = args.bytes(1);
    let Ok(pattern) = std::str::from_utf8(args.bytes(0)) else {
        return Err(EvalError::new("error parsing regexp: invalid UTF-8"));
    };
    let classes = pattern.matches('{').count() + pattern.matches(r"\p").count();
    state.charge_steps(100 + 10 * pattern.len() + 500 * classes)?;
    state.charge_scan(pattern.len().saturating_mul(text.len()))?;
    compile(pattern).map_err(EvalError::new)
}

fn matches(state: &RenderState<'_>, args: Args<'_>) -> EvalResult {
    Ok(Value::Bool(pattern(state, args)?.is_match(&args.str(1))))
}

fn find(state: &RenderState<'_>, args: Args<'_>) -> EvalResult {
    let (regex, text) = (pattern(state, args)?, args.str(1));
    state.text(regex.find(&text).map_or("", |found| found.as_str()))
}

/// The number of results that `n` allows; negative is no limit.
fn limit(n: i64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

fn find_all(state: &RenderState<'_>, args: Args<'_>) -> EvalResult {
    let (regex, text) = (pattern(state, args)?, args.str(1));
    let mut texts = Vec::new();
    for found in regex.find_iter(&text).take(limit(args.int(2))) {
        state.charge_bytes(size_of::<Text>())?;
        texts.push(found.as_str());
    }
    if texts.is_empty() { Ok(RenderState::nil_list(Element::Text)) } else { state.texts(texts) }
}

fn replace(state: &RenderState<'_>, args: Args<'_>, expand: bool) -> EvalResult {
    let regex = pattern(state, args)?;
    let (text, replacement) = (args.str(1), args.str(2));
    let (mut out, mut last) = (String::with_capacity(text.len()), 0);
    for captures in regex.captures_iter(&text) {
        let Some(whole) = captures.get(0) else { continue };
        state.charge_bytes(replacement.len())?;
        out.push_str(text.get(last..whole.start()).unwrap_or_default());
        if expand {
            expanded(state, &mut out, &replacement, &captures)?;
        } else {
            out.push_str(&replacement);
        }
        last = whole.end();
    }
    out.push_str(text.get(last..).unwrap_or_default());
    state.text(out)
}

/// Appends `template`, in which `$1`, `$name` and `${name}` stand for groups.
fn expanded(
    state: &RenderState<'_>,
    out: &mut String,
    template: &str,
    captures: &Captures<'_>,
) -> EvalResult<()> {
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('$') {
        state.charge_steps(1)?;
        out.push_str(before);
        if let Some(after) = after.strip_prefix('$') {
            out.push('$');
            rest = after;
            continue;
        }
        let Some((name, after)) = group_name(after) else {
            out.push('$');
            rest = after;
            continue;
        };
        let number = name.bytes().all(|byte| byte.is_ascii_digit()).then(|| name.parse::<usize>());
        let group = match number {
            Some(number) => number.ok().and_then(|number| captures.get(number)),
            None => captures.name(&regex::group_name(name)),
        };
        if let Some(group) = group {
            state.charge_bytes(group.len())?;
            out.push_str(group.as_str());
        }
        rest = after;
    }
    out.push_str(rest);
    Ok(())
}

fn group_name(after: &str) -> Option<(&str, &str)> {
    let (braced, start) = match after.strip_prefix('{') {
        Some(start) => (true, start),
        None => (false, after),
    };
    let end = start.find(|c| !is_alphanumeric(c)).unwrap_or(start.len());
    let (name, rest) = start.split_at_checked(end)?;
    let rest = if braced { rest.strip_prefix('}')? } else { rest };
    (!name.is_empty()).then_some((name, rest))
}

fn split(state: &RenderState<'_>, args: Args<'_>) -> EvalResult {
    let (text, n) = (args.str(1), args.int(2));
    let regex = pattern(state, args)?;
    if n == 0 {
        return Ok(RenderState::nil_list(Element::Text));
    }
    if !args.bytes(0).is_empty() && text.is_empty() {
        return state.texts([""]);
    }
    let (mut pieces, mut start, mut end) = (Vec::new(), 0, 0);
    for found in regex.find_iter(&text) {
        state.charge_bytes(size_of::<Text>())?;
        if n > 0 && pieces.len() + 1 == limit(n) {
            break;
        }
        end = found.start();
        if found.end() != 0 {
            pieces.push(text.get(start..end).unwrap_or_default());
        }
        start = found.end();
    }
    if end != text.len() {
        pieces.push(text.get(start..).unwrap_or_default());
    }
    state.texts(pieces)
}

fn quote_meta(text: &[u8]) -> Vec<u8> {
    let mut quoted = Vec::with_capacity(text.len());
    for byte in text {
        if br"\.+*?()|[]{}^$".contains(byte) {
            quoted.push(b'\\');
        }
        quoted.push(*byte);
    }
    quoted
}
