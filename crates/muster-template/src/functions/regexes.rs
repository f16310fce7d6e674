//! Regular expressions.

use ::regex::{Captures, Regex};

use super::{Args, Function, Type, plain};
use crate::{
    regex::{self, compile},
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
    let text = args.bytes(1);
    let Ok(pattern) = std::str::from_utf8(args.bytes(0)) else {
        return Err(Fail::new("error parsing regexp: invalid UTF-8"));
    };
    let classes = pattern.matches('{').count() + pattern.matches(r"\p").count();
    run.work(100 + 10 * pattern.len() + 500 * classes)?;
    run.read(pattern.len().saturating_mul(text.len()))?;
    compile(pattern).map_err(Fail::new)
}

fn matches(run: &Run<'_>, args: Args<'_>) -> Answer {
    Ok(Value::Bool(pattern(run, args)?.is_match(&args.str(1))))
}

fn find(run: &Run<'_>, args: Args<'_>) -> Answer {
    let (regex, text) = (pattern(run, args)?, args.str(1));
    run.text(regex.find(&text).map_or("", |found| found.as_str()))
}

/// At most `n` of them; all of them if it is negative.
fn limit(n: i64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

fn find_all(run: &Run<'_>, args: Args<'_>) -> Answer {
    let (regex, text) = (pattern(run, args)?, args.str(1));
    let mut texts = Vec::new();
    for found in regex.find_iter(&text).take(limit(args.int(2))) {
        run.room(size_of::<Text>())?;
        texts.push(found.as_str());
    }
    if texts.is_empty() { Ok(Run::nil_list(Element::Text)) } else { run.texts(texts) }
}

fn replace(run: &Run<'_>, args: Args<'_>, expand: bool) -> Answer {
    let regex = pattern(run, args)?;
    let (text, replacement) = (args.str(1), args.str(2));
    let (mut out, mut last) = (String::with_capacity(text.len()), 0);
    for captures in regex.captures_iter(&text) {
        let Some(whole) = captures.get(0) else { continue };
        run.room(replacement.len())?;
        out.push_str(text.get(last..whole.start()).unwrap_or_default());
        if expand {
            expanded(run, &mut out, &replacement, &captures)?;
        } else {
            out.push_str(&replacement);
        }
        last = whole.end();
    }
    out.push_str(text.get(last..).unwrap_or_default());
    run.text(out)
}

/// Appends `template`, in which `$1`, `$name` and `${name}` stand for groups.
fn expanded(
    run: &Run<'_>,
    out: &mut String,
    template: &str,
    captures: &Captures<'_>,
) -> Answer<()> {
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('$') {
        run.work(1)?;
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
            run.room(group.len())?;
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

fn split(run: &Run<'_>, args: Args<'_>) -> Answer {
    let (text, n) = (args.str(1), args.int(2));
    let regex = pattern(run, args)?;
    if n == 0 {
        return Ok(Run::nil_list(Element::Text));
    }
    if !args.bytes(0).is_empty() && text.is_empty() {
        return run.texts([""]);
    }
    let (mut pieces, mut start, mut end) = (Vec::new(), 0, 0);
    for found in regex.find_iter(&text) {
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
