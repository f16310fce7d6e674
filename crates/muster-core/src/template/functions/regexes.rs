//! Regular expressions.

use regex::bytes::{Captures, Regex};

use super::{Args, Function, Type, plain};
use crate::template::{
    regex::compile,
    run::{Answer, Fail, Run},
    text::Text,
    unicode::is_alphanumeric,
    value::{Element, Value},
};

const TEXT: Type = Type::Text;
const TWO: &[Type] = &[TEXT; 2];
const THREE: &[Type] = &[TEXT; 3];
const COUNTED: &[Type] = &[TEXT, TEXT, Type::Int];

pub(super) const FUNCTIONS: &[Function] = &[
    plain("regexMatch", TWO, |run, args| match matches(run, args) {
        Err(Fail::Said(_)) => Ok(Value::Bool(false)),
        answer => answer,
    }),
    plain("mustRegexMatch", TWO, matches),
    plain("regexFind", TWO, find),
    plain("mustRegexFind", TWO, find),
    plain("regexFindAll", COUNTED, find_all),
    plain("mustRegexFindAll", COUNTED, find_all),
    plain("regexReplaceAll", THREE, |run, args| replace(run, args, true)),
    plain("mustRegexReplaceAll", THREE, |run, args| replace(run, args, true)),
    plain("regexReplaceAllLiteral", THREE, |run, args| replace(run, args, false)),
    plain("mustRegexReplaceAllLiteral", THREE, |run, args| replace(run, args, false)),
    plain("regexSplit", COUNTED, split),
    plain("mustRegexSplit", COUNTED, split),
    plain("regexQuoteMeta", &[TEXT], |run, args| {
        run.room(args.bytes(0).len())?;
        run.text(quote_meta(args.bytes(0)))
    }),
];

/// The pattern that comes first; the text that comes second is paid for.
fn pattern(run: &Run<'_>, args: Args<'_>) -> Answer<Regex> {
    let (pattern, text) = (args.str(0), args.bytes(1));
    let classes = pattern.matches('{').count() + pattern.matches(r"\p").count();
    run.work(100 + 10 * pattern.len() + 500 * classes)?;
    run.read(pattern.len().saturating_mul(text.len()))?;
    compile(&pattern).map_err(Fail::new)
}

fn matches(run: &Run<'_>, args: Args<'_>) -> Answer {
    Ok(Value::Bool(pattern(run, args)?.is_match(args.bytes(1))))
}

fn find(run: &Run<'_>, args: Args<'_>) -> Answer {
    let found = pattern(run, args)?;
    run.text(found.find(args.bytes(1)).map_or(&[][..], |found| found.as_bytes()))
}

/// At most `n` of them; all of them if it is negative.
fn limit(n: i64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

fn find_all(run: &Run<'_>, args: Args<'_>) -> Answer {
    let regex = pattern(run, args)?;
    let found = regex.find_iter(args.bytes(1)).take(limit(args.int(2)));
    let mut texts = Vec::new();
    for found in found {
        run.room(size_of::<Text>())?;
        texts.push(found.as_bytes());
    }
    if texts.is_empty() { Ok(Run::nil_list(Element::Text)) } else { run.texts(texts) }
}

fn replace(run: &Run<'_>, args: Args<'_>, expand: bool) -> Answer {
    let regex = pattern(run, args)?;
    let (text, replacement) = (args.bytes(1), args.str(2));
    let (mut out, mut last) = (Vec::with_capacity(text.len()), 0);
    for captures in regex.captures_iter(text) {
        let Some(whole) = captures.get(0) else { continue };
        run.room(replacement.len())?;
        out.extend_from_slice(text.get(last..whole.start()).unwrap_or_default());
        if expand {
            expanded(run, &mut out, &replacement, &captures)?;
        } else {
            out.extend_from_slice(replacement.as_bytes());
        }
        last = whole.end();
    }
    out.extend_from_slice(text.get(last..).unwrap_or_default());
    run.text(out)
}

/// Appends `template`, in which `$1`, `$name` and `${name}` stand for groups.
fn expanded(
    run: &Run<'_>,
    out: &mut Vec<u8>,
    template: &str,
    captures: &Captures<'_>,
) -> Answer<()> {
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('$') {
        run.work(1)?;
        out.extend_from_slice(before.as_bytes());
        if let Some(after) = after.strip_prefix('$') {
            out.push(b'$');
            rest = after;
            continue;
        }
        let Some((name, after)) = group_name(after) else {
            out.push(b'$');
            rest = after;
            continue;
        };
        let number = name.bytes().all(|byte| byte.is_ascii_digit()).then(|| name.parse::<usize>());
        let group = match number {
            Some(number) => number.ok().and_then(|number| captures.get(number)),
            None => captures.name(name),
        };
        if let Some(group) = group {
            run.room(group.len())?;
            out.extend_from_slice(group.as_bytes());
        }
        rest = after;
    }
    out.extend_from_slice(rest.as_bytes());
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

fn split(run: &Run<'_>, args: Args<'_>) -> Answer {
    let (text, n) = (args.bytes(1), args.int(2));
    let regex = pattern(run, args)?;
    if n == 0 {
        return Ok(Run::nil_list(Element::Text));
    }
    if !args.bytes(0).is_empty() && text.is_empty() {
        return run.texts([""]);
    }
    let (mut pieces, mut start, mut end) = (Vec::new(), 0, 0);
    for found in regex.find_iter(text) {
        run.room(size_of::<Text>())?;
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
    run.texts(pieces)
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
