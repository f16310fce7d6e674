//! Go's quoted strings: `strconv.Unquote` and `strconv.Quote`.

use std::fmt::Write as _;

use super::{
    text::{push, runes},
    unicode::is_print,
};

/// The bytes of a `"…"` or `` `…` `` literal; `None` if it is not a valid one.
pub(crate) fn unquote(literal: &str) -> Option<Vec<u8>> {
    if let Some(raw) = literal.strip_prefix('`') {
        return Some(raw.strip_suffix('`')?.replace('\r', "").into_bytes());
    }
    let mut rest = literal.strip_prefix('"')?.strip_suffix('"')?;
    let mut bytes = Vec::with_capacity(rest.len());
    while !rest.is_empty() {
        let (unit, tail) = unquote_char(rest, '"')?;
        match unit {
            Unquoted::Byte(byte) => bytes.push(byte),
            Unquoted::Char(c) => push(&mut bytes, c),
        }
        rest = tail;
    }
    Some(bytes)
}

/// The number of a `'…'` literal.
pub(crate) fn unquote_rune(literal: &str) -> Option<u32> {
    let (unit, tail) = unquote_char(literal.strip_prefix('\'')?, '\'')?;
    (tail == "'").then_some(match unit {
        Unquoted::Byte(byte) => u32::from(byte),
        Unquoted::Char(c) => u32::from(c),
    })
}

enum Unquoted {
    Byte(u8),
    Char(char),
}

fn unquote_char(text: &str, quote: char) -> Option<(Unquoted, &str)> {
    let mut chars = text.chars();
    let c = match chars.next()? {
        c if c == quote => return None,
        '\\' => chars.next()?,
        c => return Some((Unquoted::Char(c), chars.as_str())),
    };
    let rest = chars.as_str();
    let escaped = match c {
        'a' => '\x07',
        'b' => '\x08',
        'f' => '\x0c',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\x0b',
        '\\' => '\\',
        '\'' | '"' if c == quote => c,
        'x' => return coded(rest, 2, 16, true),
        'u' => return coded(rest, 4, 16, false),
        'U' => return coded(rest, 8, 16, false),
        '0'..='7' => return coded(text.get(1..)?, 3, 8, true),
        _ => return None,
    };
    Some((Unquoted::Char(escaped), rest))
}

fn coded(text: &str, digits: usize, radix: u32, byte: bool) -> Option<(Unquoted, &str)> {
    let (number, rest) = text.split_at_checked(digits)?;
    let plain = number.chars().all(|c| c.is_digit(radix));
    let number = u32::from_str_radix(number, radix).ok().filter(|_| plain)?;
    let unit = if byte {
        Unquoted::Byte(number.try_into().ok()?)
    } else {
        Unquoted::Char(number.try_into().ok()?)
    };
    Some((unit, rest))
}

/// Quotes `bytes` with double quotes; `ascii` escapes everything else.
pub(crate) fn quote(bytes: &[u8], ascii: bool) -> String {
    let mut quoted = String::with_capacity(bytes.len() + 2);
    quoted.push('"');
    let mut at = 0;
    for (c, width) in runes(bytes) {
        if c == char::REPLACEMENT_CHARACTER && width == 1 {
            let byte = bytes.get(at).copied().unwrap_or_default();
            _ = write!(quoted, "\\x{byte:02x}");
        } else {
            quote_char(&mut quoted, c, '"', ascii);
        }
        at += width;
    }
    quoted.push('"');
    quoted
}

/// Quotes `c` with single quotes.
pub(crate) fn quote_rune(c: char, ascii: bool) -> String {
    let mut quoted = "'".to_owned();
    quote_char(&mut quoted, c, '\'', ascii);
    quoted.push('\'');
    quoted
}

fn quote_char(quoted: &mut String, c: char, quote: char, ascii: bool) {
    if c == quote || c == '\\' {
        quoted.push('\\');
        quoted.push(c);
        return;
    }
    if is_print(c) && (!ascii || c.is_ascii()) {
        quoted.push(c);
        return;
    }
    let code = u32::from(c);
    _ = match c {
        '\x07' => write!(quoted, "\\a"),
        '\x08' => write!(quoted, "\\b"),
        '\x0c' => write!(quoted, "\\f"),
        '\n' => write!(quoted, "\\n"),
        '\r' => write!(quoted, "\\r"),
        '\t' => write!(quoted, "\\t"),
        '\x0b' => write!(quoted, "\\v"),
        _ if code < 0x20 || code == 0x7f => write!(quoted, "\\x{code:02x}"),
        _ if code < 0x10000 => write!(quoted, "\\u{code:04x}"),
        _ => write!(quoted, "\\U{code:08x}"),
    };
}

/// Whether `` `…` `` can hold `text` as it is.
pub(crate) fn can_backquote(text: &str) -> bool {
    !text.contains(|c| c == '`' || c == '\u{feff}' || c == '\x7f' || (c < ' ' && c != '\t'))
}
