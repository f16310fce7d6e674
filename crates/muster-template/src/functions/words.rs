//! Word and case functions: `title`, `snakecase`, `wrap`, `initials` and more.

use super::{Args, Function, ParamType, plain};
use crate::{
    state::{EvalResult, RenderState},
    text::{Text, push},
    unicode::{
        is_letter, is_lower, is_number, is_punctuation, is_title, is_upper, to_lower, to_title,
        to_upper,
    },
};

const TEXT: &[ParamType] = &[ParamType::Text];

pub(super) const FUNCTIONS: &[Function] = &[
    plain("upper", TEXT, |state, args| mapped(state, args, to_upper)),
    plain("lower", TEXT, |state, args| mapped(state, args, to_lower)),
    plain("title", TEXT, |state, args| state.text(title(&args.str(0)))),
    plain("untitle", TEXT, |state, args| state.text(untitle(&args.str(0)))),
    plain("swapcase", TEXT, |state, args| state.text(swap_case(&args.str(0)))),
    plain("nospace", TEXT, |state, args| state.text(no_space(args.bytes(0)))),
    plain("initials", TEXT, |state, args| state.text(initials(args.bytes(0)))),
    plain("camelcase", TEXT, |state, args| state.text(pascal_case(&args.str(0)))),
    plain("snakecase", TEXT, |state, args| state.text(lower_case(&args.str(0), '_'))),
    plain("kebabcase", TEXT, |state, args| state.text(lower_case(&args.str(0), '-'))),
    plain("wrap", &[ParamType::Int, ParamType::Text], |state, args| {
        wrap(state, args.bytes(1), args.int(0), None)
    }),
    plain("wrapWith", &[ParamType::Int, ParamType::Text, ParamType::Text], |state, args| {
        wrap(state, args.bytes(2), args.int(0), Some(args.bytes(1)))
    }),
];

fn mapped(state: &RenderState<'_>, args: Args<'_>, map: fn(char) -> char) -> EvalResult {
    state.text(args.str(0).chars().map(map).collect::<String>())
}

/// `strings.Title`: a word begins after anything but a letter, digit or underscore.
fn title(text: &str) -> String {
    let mut inside = false;
    let titled = text.chars().map(|c| {
        let mapped = if inside { c } else { to_title(c) };
        inside =
            if c.is_ascii() { c == '_' || c.is_ascii_alphanumeric() } else { !c.is_whitespace() };
        mapped
    });
    titled.collect()
}

fn untitle(text: &str) -> String {
    let mut inside = false;
    let mapped = text.chars().map(|c| {
        let first = !inside && !c.is_whitespace();
        inside = !c.is_whitespace();
        if first { to_lower(c) } else { c }
    });
    mapped.collect()
}

fn swap_case(text: &str) -> String {
    let mut after_space = true;
    let mapped = text.chars().map(|c| {
        if is_upper(c) || is_title(c) {
            after_space = false;
            to_lower(c)
        } else if is_lower(c) {
            let first = std::mem::take(&mut after_space);
            if first { to_title(c) } else { to_upper(c) }
        } else {
            after_space = c.is_whitespace();
            c
        }
    });
    mapped.collect()
}

/// Works on bytes and widens each to a character, as the original does.
fn no_space(bytes: &[u8]) -> Text {
    let mut kept = Vec::with_capacity(bytes.len());
    for byte in bytes.iter().filter(|byte| !char::from(**byte).is_whitespace()) {
        push(&mut kept, char::from(*byte));
    }
    let all = bytes.iter().all(|byte| !char::from(*byte).is_whitespace());
    if all { bytes.into() } else { kept.into() }
}

/// Works on bytes, as the original does.
fn initials(bytes: &[u8]) -> Text {
    let (mut initials, mut gap) = (Vec::new(), true);
    for c in bytes.iter().map(|byte| char::from(*byte)) {
        let space = c.is_whitespace();
        if gap && !space {
            push(&mut initials, c);
        }
        gap = space;
    }
    initials.into()
}

fn is_connector(c: char) -> bool {
    c == '-' || c == '_' || c.is_whitespace()
}

fn pascal_case(text: &str) -> String {
    let mut chars = text.chars();
    let mut out = String::with_capacity(text.len());
    let (mut last, mut first_upper) = (None, false);
    for c in chars.by_ref() {
        if !is_connector(c) {
            first_upper = is_upper(c);
            last = Some(to_upper(c));
            break;
        }
        // Leading connectors stay; the last one takes the position of the missing word.
        last = Some(c);
        out.push(c);
    }
    let Some(mut previous) = last else { return out };
    for mut c in chars {
        if is_connector(c) && is_connector(previous) {
            out.push(previous);
            previous = c;
            continue;
        }
        if is_connector(previous) {
            first_upper = is_upper(c);
            c = to_upper(c);
        } else {
            if first_upper {
                if is_upper(c) {
                    c = to_lower(c);
                } else {
                    first_upper = false;
                }
            }
            out.push(previous);
        }
        previous = c;
    }
    out.push(previous);
    out
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum WordClass {
    Nothing,
    Number,
    Upper,
    Letters,
    Connector,
    Punctuation,
    Other,
}

/// Whether `c` is a letter of a script that separates words.
fn is_alphabet(c: char) -> bool {
    let ideograph =
        matches!(c, '\u{3400}'..='\u{4d85}' | '\u{4e00}'..='\u{9fcc}' | '\u{20000}'..='\u{2b81d}');
    is_letter(c) && !ideograph
}

/// The next word of `text`, and what follows it.
fn next_word(text: &str) -> (WordClass, &str, &str) {
    let mut chars = text.chars();
    let Some(first) = chars.next() else { return (WordClass::Nothing, "", "") };
    let state = |member: &dyn Fn(char) -> bool| {
        text.char_indices().skip(1).find(|(_, c)| !member(*c)).map_or(text.len(), |(at, _)| at)
    };
    let lower = |c: char| is_alphabet(c) && !is_upper(c);
    let (word, end) = match first {
        c if is_connector(c) => (WordClass::Connector, state(&is_connector)),
        c if is_punctuation(c) => (WordClass::Punctuation, state(&is_punctuation)),
        c if is_upper(c) => (WordClass::Upper, upper_word(text)),
        c if is_alphabet(c) => (WordClass::Letters, state(&lower)),
        c if is_number(c) => (WordClass::Number, state(&is_number)),
        _ => (
            WordClass::Other,
            state(&|c| !(is_connector(c) || is_alphabet(c) || is_number(c) || is_punctuation(c))),
        ),
    };
    let (start, rest) = text.split_at_checked(end).unwrap_or((text, ""));
    (word, start, rest)
}

/// `HTTP` of `HTTPServer`, `Server` of `ServerName`.
fn upper_word(text: &str) -> usize {
    let first = text.chars().next().map_or(0, char::len_utf8);
    let uppers = text.chars().take_while(|c| is_upper(*c)).count();
    if uppers == 1 {
        let rest = text.get(first..).unwrap_or_default();
        let lower = rest.chars().take_while(|c| is_alphabet(*c) && !is_upper(*c));
        return first + lower.map(char::len_utf8).sum::<usize>();
    }
    let end: usize = text.chars().take(uppers).map(char::len_utf8).sum();
    let last = text.chars().nth(uppers - 1).map_or(0, char::len_utf8);
    let after = text.get(end..).and_then(|rest| rest.chars().next());
    if after.is_some_and(is_alphabet) { end - last } else { end }
}

fn write_lower(out: &mut String, word: WordClass, text: &str, connector: char) {
    if !matches!(word, WordClass::Upper | WordClass::Connector) {
        out.push_str(text);
        return;
    }
    out.extend(text.chars().map(|c| if is_connector(c) { connector } else { to_lower(c) }));
}

fn lower_case(text: &str, connector: char) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    let (mut word, mut part, mut rest) = next_word(text);
    while !rest.is_empty() {
        if word != WordClass::Connector {
            write_lower(&mut out, word, part, connector);
        }
        let (previous, last) = (word, part);
        (word, part, rest) = next_word(rest);
        match previous {
            WordClass::Number => {
                while matches!(word, WordClass::Letters | WordClass::Number) {
                    write_lower(&mut out, word, part, connector);
                    (word, part, rest) = next_word(rest);
                }
                if !matches!(
                    word,
                    WordClass::Nothing | WordClass::Punctuation | WordClass::Connector
                ) {
                    out.push(connector);
                }
            }
            WordClass::Connector => write_lower(&mut out, previous, last, connector),
            WordClass::Punctuation => {}
            _ if word != WordClass::Number => {
                if !matches!(word, WordClass::Connector | WordClass::Punctuation) {
                    out.push(connector);
                }
            }
            _ if rest.is_empty() => {}
            _ => {
                let number = part;
                (word, part, rest) = next_word(rest);
                if word != WordClass::Letters {
                    // A number after a word belongs to it: `Bld4Floor` is `bld4_floor`.
                    out.push_str(number);
                    if !matches!(word, WordClass::Connector | WordClass::Punctuation) {
                        out.push(connector);
                    }
                    continue;
                }
                // Letters after a number belong to that: `HTTP2xx` is `http_2xx`.
                out.push(connector);
                out.push_str(number);
                while matches!(word, WordClass::Letters | WordClass::Number) {
                    write_lower(&mut out, word, part, connector);
                    (word, part, rest) = next_word(rest);
                }
                if !matches!(
                    word,
                    WordClass::Nothing | WordClass::Connector | WordClass::Punctuation
                ) {
                    out.push(connector);
                }
            }
        }
    }
    write_lower(&mut out, word, part, connector);
    out
}

/// Lines of at most `width` bytes; long words are broken only when a line break is given.
fn wrap(state: &RenderState<'_>, text: &[u8], width: i64, line_break: Option<&[u8]>) -> EvalResult {
    let width = usize::try_from(width).unwrap_or(1).max(1);
    let given = line_break.filter(|line_break| !line_break.is_empty()).unwrap_or(b"\n");
    let (mut out, mut rest) = (Vec::with_capacity(text.len()), text);
    while rest.len() > width {
        state.charge_steps(1)?;
        if let Some(after) = rest.strip_prefix(b" ") {
            rest = after;
            continue;
        }
        let line = rest.get(..=width).unwrap_or(rest);
        let (end, skip) = match (line.iter().rposition(|byte| *byte == b' '), line_break) {
            (Some(space), _) => (space, 1),
            (None, Some(_)) => (width, 0),
            (None, None) => match rest.iter().skip(width).position(|byte| *byte == b' ') {
                Some(space) => (width + space, 1),
                None => break,
            },
        };
        state.charge_bytes(given.len())?;
        out.extend_from_slice(rest.get(..end).unwrap_or_default());
        out.extend_from_slice(given);
        rest = rest.get(end + skip..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
    state.text(out)
}
