//! Formatting and parsing as in Python.
//!
//! CLImax is a Python program, and that is visible to its users: in how numbers print on a command line, which white
//! space is stripped, and which texts are numbers. Everything that must agree with Python is here.
//!
//! `str::to_lowercase` is equal to Python's `str.lower`.

use crate::value::{Value, YamlTimestamp};

/// The most digits of an integer that Python parses.
const MAX_DIGITS: usize = 4300;

/// The zeros of all decimal digits in Unicode (general category Nd), ascending. Each begins a run
/// of ten.
#[rustfmt::skip]
const ZEROS: [u32; 76] = [
    0x30, 0x660, 0x6F0, 0x7C0, 0x966, 0x9E6, 0xA66, 0xAE6, 0xB66, 0xBE6, 0xC66, 0xCE6, 0xD66, 0xDE6,
    0xE50, 0xED0, 0xF20, 0x1040, 0x1090, 0x17E0, 0x1810, 0x1946, 0x19D0, 0x1A80, 0x1A90, 0x1B50,
    0x1BB0, 0x1C40, 0x1C50, 0xA620, 0xA8D0, 0xA900, 0xA9D0, 0xA9F0, 0xAA50, 0xABF0, 0xFF10, 0x104A0,
    0x10D30, 0x10D40, 0x11066, 0x110F0, 0x11136, 0x111D0, 0x112F0, 0x11450, 0x114D0, 0x11650,
    0x116C0, 0x116D0, 0x116DA, 0x11730, 0x118E0, 0x11950, 0x11BF0, 0x11C50, 0x11D50, 0x11DA0,
    0x11F50, 0x16130, 0x16A60, 0x16AC0, 0x16B50, 0x16D70, 0x1CCF0, 0x1D7CE, 0x1D7D8, 0x1D7E2,
    0x1D7EC, 0x1D7F6, 0x1E140, 0x1E2F0, 0x1E4F0, 0x1E5F1, 0x1E950, 0x1FBF0,
];

/// Formats a value like `str`: text as is, everything else like [`repr`].
pub fn text(value: &Value) -> String {
    match value {
        Value::Text(text) => text.clone(),
        Value::Timestamp(timestamp) => timestamp.text.clone(),
        _ => repr(value),
    }
}

/// Formats a value as a Python literal.
pub fn repr(value: &Value) -> String {
    let mut out = String::new();
    write_repr(&mut out, value);
    out
}

/// A float as Python prints it: the fewest digits that read back as the same float.
pub fn float_text(float: f64) -> String {
    if float.is_nan() {
        return "nan".to_owned();
    }
    // Rust finds the shortest digits and uses exponents where Python does. But between two equally
    // near decimals it takes the greater, Python the even one.
    let shortest = format!("{float:?}");
    let mantissa = shortest.split('e').next().unwrap_or_default();
    let decimals = mantissa.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let even = if shortest.contains('e') {
        format!("{float:.decimals$e}")
    } else {
        format!("{float:.decimals$}")
    };
    let text = if even.parse() == Ok(float) { even } else { shortest };
    let Some((digits, exponent)) = text.split_once('e') else { return text };
    match exponent.strip_prefix('-') {
        Some(exponent) => format!("{digits}e-{exponent:0>2}"),
        None => format!("{digits}e+{exponent:0>2}"),
    }
}

/// Whether `str.strip`, `str.split` and `\s` treat a character as white space.
pub fn is_space(character: char) -> bool {
    character.is_whitespace() || matches!(character, '\u{1C}'..='\u{1F}')
}

/// Like `str.strip`.
pub fn strip(text: &str) -> &str {
    text.trim_matches(is_space)
}

/// Like `str.split`.
pub fn split(text: &str) -> impl Iterator<Item = &str> {
    text.split(is_space).filter(|word| !word.is_empty())
}

/// Parses an integer like `int`; always a [`Value::Int`].
pub fn parse_int(text: &str) -> Option<Value> {
    let text = plain_number(text)?;
    let digits = text.strip_prefix(['+', '-']).unwrap_or(&text);
    let good = !digits.is_empty()
        && digits.len() <= MAX_DIGITS
        && digits.bytes().all(|byte| byte.is_ascii_digit());
    good.then(|| Value::integer(&text))
}

/// Parses a float like `float`, including infinities and NaN.
pub fn parse_float(text: &str) -> Option<f64> {
    plain_number(text)?.parse().ok()
}

/// Trims a number, converts its digits to ASCII and removes underscores between digits; `None` if
/// it contains anything else.
///
/// Unlike `strip`, this does not trim the four ASCII separators.
fn plain_number(text: &str) -> Option<String> {
    let text: String = text.trim().chars().map(ascii_digit).collect::<Option<_>>()?;
    let mut parts = text.split('_').peekable();
    let mut plain = String::with_capacity(text.len());
    while let Some(part) = parts.next() {
        plain.push_str(part);
        let Some(next) = parts.peek() else { break };
        let between = part.ends_with(|end: char| end.is_ascii_digit())
            && next.starts_with(|start: char| start.is_ascii_digit());
        if !between {
            return None;
        }
    }
    Some(plain)
}

/// Converts a decimal digit of any script to ASCII; ASCII characters are unchanged.
fn ascii_digit(character: char) -> Option<char> {
    if character.is_ascii() {
        return Some(character);
    }
    let code = u32::from(character);
    let runs = ZEROS.partition_point(|zero| *zero <= code);
    let zero = ZEROS.get(runs.checked_sub(1)?)?;
    char::from_digit(code.checked_sub(*zero)?, 10)
}

fn write_repr(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("None"),
        Value::Bool(true) => out.push_str("True"),
        Value::Bool(false) => out.push_str("False"),
        Value::Int(digits) => out.push_str(digits),
        Value::Float(float) => out.push_str(&float_text(*float)),
        Value::Text(text) => write_quoted(out, text),
        Value::Timestamp(timestamp) => out.push_str(&timestamp_repr(timestamp)),
        Value::List(items) => {
            out.push('[');
            write_joined(out, items, write_repr);
            out.push(']');
        }
        Value::Map(members) => {
            out.push('{');
            write_joined(out, members, |out, (key, value)| {
                write_repr(out, key);
                out.push_str(": ");
                write_repr(out, value);
            });
            out.push('}');
        }
    }
}

fn write_joined<T>(out: &mut String, items: &[T], write: impl Fn(&mut String, &T)) {
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            out.push_str(", ");
        }
        write(out, item);
    }
}

/// Text in single quotes, or in double quotes if that saves an escape.
fn write_quoted(out: &mut String, text: &str) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for character in text.chars() {
        match character {
            '\\' => out.push_str(r"\\"),
            '\t' => out.push_str(r"\t"),
            '\n' => out.push_str(r"\n"),
            '\r' => out.push_str(r"\r"),
            _ if character == quote => out.extend(['\\', quote]),
            _ if is_printable(character) => out.push(character),
            _ => out.push_str(&escaped(character)),
        }
    }
    out.push(quote);
}

fn escaped(character: char) -> String {
    match u32::from(character) {
        code @ ..0x100 => format!(r"\x{code:02x}"),
        code @ ..0x1_0000 => format!(r"\u{code:04x}"),
        code => format!(r"\U{code:08x}"),
    }
}

/// Whether Python's `repr` prints a character unescaped: it is neither control, format, private,
/// unassigned nor a separator other than the space.
///
/// The standard library exposes this only through `escape_debug`. The letter in front keeps it from
/// escaping combining marks.
fn is_printable(character: char) -> bool {
    if character.is_ascii() {
        return matches!(character, ' '..='~');
    }
    let text = String::from_iter(['a', character]);
    text.escape_debug().eq(text.chars())
}

/// The constructor call of a date or a timestamp.
fn timestamp_repr(timestamp: &YamlTimestamp) -> String {
    let (date, time) = timestamp.text.split_once(' ').unwrap_or((&timestamp.text, ""));
    let (time, zone) = time.split_at(time.find(['+', '-']).unwrap_or(time.len()));
    let parts = date.split('-').chain(time.split([':', '.'])).map(str::parse::<u32>);
    let mut numbers: Vec<u32> = parts.filter_map(Result::ok).collect();
    if numbers.len() == 6 && numbers.last() == Some(&0) {
        numbers.pop();
    }
    let mut fields: Vec<String> = numbers.iter().map(u32::to_string).collect();
    fields.extend(zone_repr(zone));
    let class = if timestamp.date_only { "date" } else { "datetime" };
    format!("datetime.{class}({})", fields.join(", "))
}

/// The time zone argument for an offset like `+01:30`; `None` without an offset.
fn zone_repr(offset: &str) -> Option<String> {
    const DAY: u64 = 24 * 60 * 60;
    let units = offset.get(1..)?.split(':').map(|unit| unit.parse::<u32>().unwrap_or(0));
    let parts = units.zip([3600, 60, 1]).map(|(unit, size)| u64::from(unit) * size);
    let seconds = parts.sum::<u64>() % DAY;
    let delta = match (seconds, offset.starts_with('-')) {
        (0, _) => return Some("tzinfo=datetime.timezone.utc".to_owned()),
        (_, false) => format!("seconds={seconds}"),
        (_, true) => format!("days=-1, seconds={}", DAY - seconds),
    };
    Some(format!("tzinfo=datetime.timezone(datetime.timedelta({delta}))"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{float_text, is_printable, parse_float, parse_int, repr, split, strip, text};
    use crate::value::{Value, YamlTimestamp};

    fn list(items: &[&str]) -> Value {
        Value::List(items.iter().map(|item| Value::Text((*item).to_owned())).collect())
    }

    fn timestamp(text: &str) -> Value {
        Value::Timestamp(YamlTimestamp {
            text: text.to_owned(),
            iso: text.replace(' ', "T"),
            date_only: !text.contains(' '),
        })
    }

    #[test]
    fn floats_print_as_in_python() {
        #[track_caller]
        fn check(float: f64, expect: &str) {
            assert_eq!(float_text(float), expect);
        }
        check(0.0, "0.0");
        check(-0.0, "-0.0");
        check(1.1, "1.1");
        check(100_000.0, "100000.0");
        check(1e15, "1000000000000000.0");
        check(9_999_999_999_999_998.0, "9999999999999998.0");
        check(1e16, "1e+16");
        check(1.5e16, "1.5e+16");
        check(1e22, "1e+22");
        check(1e100, "1e+100");
        check(0.0001, "0.0001");
        check(0.00001, "1e-05");
        check(0.000_012_5, "1.25e-05");
        check(-1e-7, "-1e-07");
        check(5e-324, "5e-324");
        check(f64::MAX, "1.7976931348623157e+308");
        check(123_456_789.123_456_79, "123456789.12345679");
        check(f64::from_bits(4_816_990_596_309_081_864), "111659285584252.12");
        check(f64::from_bits(14_055_632_662_733_313_042), "-1113178120592002.2");
        check(f64::from_bits(1), "5e-324");
        check(9_007_199_254_740_993.0, "9007199254740992.0");
        check(f64::INFINITY, "inf");
        check(f64::NEG_INFINITY, "-inf");
        check(f64::NAN, "nan");
        check(-f64::NAN, "nan");
    }

    #[test]
    fn text_is_bare_and_other_values_are_literals() {
        #[track_caller]
        fn check(value: &Value, expect: &str) {
            assert_eq!(text(value), expect);
        }
        check(&Value::Text("it's \n".to_owned()), "it's \n");
        check(&Value::Null, "None");
        check(&Value::Bool(true), "True");
        check(&Value::Bool(false), "False");
        check(&Value::Int("-12".to_owned()), "-12");
        check(&Value::Float(1.0), "1.0");
        check(&Value::List(vec![]), "[]");
        check(&Value::Map(vec![]), "{}");
        check(
            &Value::List(vec![
                Value::Text("x".to_owned()),
                Value::Int("1".to_owned()),
                Value::Null,
            ]),
            "['x', 1, None]",
        );
        check(
            &Value::Map(vec![
                (Value::Text("k".to_owned()), list(&["n"])),
                (Value::Int("1".to_owned()), Value::Float(1e20)),
            ]),
            "{'k': ['n'], 1: 1e+20}",
        );
        check(&timestamp("2024-01-02"), "2024-01-02");
        check(&timestamp("2024-01-02 03:04:05+00:00"), "2024-01-02 03:04:05+00:00");
    }

    #[test]
    fn quoted_text_is_escaped_as_in_python() {
        #[track_caller]
        fn check(text: &str, expect: &str) {
            assert_eq!(repr(&Value::Text(text.to_owned())), expect);
        }
        check("", "''");
        check("it's", r#""it's""#);
        check(r#"say "hi""#, r#"'say "hi"'"#);
        check(r#"both ' and ""#, r#"'both \' and "'"#);
        check(r"back\slash", r"'back\\slash'");
        check("tab\tnl\ncr\r", r"'tab\tnl\ncr\r'");
        check("\0\u{1}\u{7F}é\u{200B}\u{2028}😀", r"'\x00\x01\x7fé\u200b\u2028😀'");
        check("\u{85}\u{A0}\u{AD}\u{FF}", r"'\x85\xa0\xadÿ'");
        check("\u{E000}\u{FEFF}\u{F0000}", r"'\ue000\ufeff\U000f0000'");
        check("e\u{301}", "'e\u{301}'");
        check("\u{301}", "'\u{301}'");
    }

    #[test]
    fn timestamps_in_lists_are_constructor_calls() {
        #[track_caller]
        fn check(text: &str, expect: &str) {
            assert_eq!(repr(&timestamp(text)), format!("datetime.{expect}"));
        }
        check("2024-01-02", "date(2024, 1, 2)");
        check("2024-01-02 03:04:05", "datetime(2024, 1, 2, 3, 4, 5)");
        check("2024-01-02 03:04:00", "datetime(2024, 1, 2, 3, 4)");
        check(
            "2024-01-02 03:04:05+00:00",
            "datetime(2024, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc)",
        );
        check(
            "2024-01-02 03:04:00+01:30",
            "datetime(2024, 1, 2, 3, 4, tzinfo=datetime.timezone(datetime.timedelta(seconds=5400)))",
        );
        check(
            "2024-01-02 03:04:00.250000-05:00",
            "datetime(2024, 1, 2, 3, 4, 0, 250000, \
             tzinfo=datetime.timezone(datetime.timedelta(days=-1, seconds=68400)))",
        );
    }

    #[test]
    fn white_space_matches_python() {
        assert_eq!(strip("\u{1C}\u{A0}\u{3000} a b\u{2028}\u{1F}\n"), "a b");
        assert_eq!(strip("\u{200B}a\u{FEFF}\0"), "\u{200B}a\u{FEFF}\0");
        assert_eq!(strip(" \t\r\n"), "");
        assert_eq!(split("  a\u{1D}b\t\u{85}c ").collect::<Vec<_>>(), ["a", "b", "c"]);
        assert_eq!(split(" \n").count(), 0);
    }

    #[test]
    fn integers_parse_as_in_python() {
        #[track_caller]
        fn check(text: &str, expect: Option<&str>) {
            assert_eq!(parse_int(text), expect.map(|digits| Value::Int(digits.to_owned())));
        }
        check("42", Some("42"));
        check("-7", Some("-7"));
        check("+5", Some("5"));
        check("007", Some("7"));
        check("-0", Some("0"));
        check(" \t42\n\u{A0}\u{85}", Some("42"));
        check("1_000", Some("1000"));
        check("٣", Some("3"));
        check("５_５", Some("55"));
        check("\u{1D7FF}\u{1D7CE}", Some("90"));
        check("123456789012345678901234567890", Some("123456789012345678901234567890"));
        check(&"9".repeat(4300), Some(&"9".repeat(4300)));
        check(&format!("-{}1", "1_".repeat(4299)), Some(&format!("-{}", "1".repeat(4300))));
        check(&"9".repeat(4301), None);
        check(&format!("{}1", "0".repeat(4300)), None);
        for bad in [
            "",
            "  ",
            "hello",
            "1.0",
            "3.7",
            "1e3",
            "0x10",
            "--5",
            "- 5",
            "+",
            "5 5",
            "١.٠",
            "1,000",
            "true",
            "None",
            "٫",
            "1__0",
            "_1",
            "1_",
            "+_5",
            "²",
            "\u{1C}5",
            "5\0",
            "\u{2212}5",
            "ǃ",
        ] {
            check(bad, None);
        }
    }

    #[test]
    fn floats_parse_as_in_python() {
        #[track_caller]
        fn check(text: &str, expect: &str) {
            assert_eq!(parse_float(text).map(float_text).as_deref().unwrap_or("error"), expect);
        }
        check("5", "5.0");
        check(" .5\n", "0.5");
        check("+.5", "0.5");
        check("5.", "5.0");
        check("1.e5", "100000.0");
        check("1e3", "1000.0");
        check("1E+3", "1000.0");
        check("-0", "-0.0");
        check("1_0.5", "10.5");
        check("1e5_0", "1e+50");
        check("٣.٥", "3.5");
        check("1e５", "100000.0");
        check("inf", "inf");
        check("-Infinity", "-inf");
        check("+NaN", "nan");
        check("1e400", "inf");
        check("-1e400", "-inf");
        for bad in [
            "", " ", ".", "1,5", "0x1p3", "0x10", "1e", "e5", "1__0", "1_.5", "1._5", "1_e5",
            "1e_5", "i_nf", "infin", "nan(1)", "1 0", "\u{1C}5", "--1", "5f", "\u{221E}",
        ] {
            check(bad, "error");
        }
    }

    /// `str::to_lowercase` is used wherever CLImax calls `str.lower`.
    #[test]
    fn lowercasing_matches_python() {
        #[track_caller]
        fn check(text: &str, expect: &str) {
            assert_eq!(text.to_lowercase(), expect);
        }
        check("ΟΔΟΣ ΣΑΣ Σ", "οδος σας σ");
        check("ΑΣ\u{301}", "ας\u{301}");
        check("İI", "i\u{307}i");
        check("ẞßŒǅ", "ßßœǆ");
    }

    #[test]
    fn marks_are_printable_and_separators_are_not() {
        assert!(
            ['a', ' ', '~', '\'', '"', '\\', 'é', '\u{301}', '日'].into_iter().all(is_printable)
        );
        assert!(
            !['\u{7F}', '\u{A0}', '\u{3000}', '\u{E0001}', '\u{378}'].into_iter().any(is_printable)
        );
    }

    proptest! {
        #[test]
        fn printed_floats_parse_back(float in any::<f64>()) {
            let read = parse_float(&float_text(float)).unwrap();
            prop_assert!(float.is_nan() && read.is_nan() || read.to_bits() == float.to_bits());
        }

        #[test]
        fn printed_integers_parse_back(number in any::<i128>()) {
            let digits = number.to_string();
            prop_assert_eq!(parse_int(&digits), Some(Value::Int(digits)));
        }

        #[test]
        fn parsing_never_panics(text in any::<String>(), near in "[ +-]?[0-9_.e٣]{0,9}(inf|nan)?") {
            for text in [text, near] {
                let int = parse_int(&text);
                let float = parse_float(&text);
                prop_assert!(int.is_none() || float.is_some());
            }
        }

        #[test]
        fn a_quoted_text_is_one_line(text in any::<String>()) {
            prop_assert!(!repr(&Value::Text(text)).contains('\n'));
        }
    }
}
