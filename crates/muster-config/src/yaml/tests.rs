//! YAML 1.1 as PyYAML reads it.

use muster_core::value::{Value, YamlTimestamp};
use proptest::prelude::*;

use super::{NodeValue, SyntaxError, parse};

/// A value in one line: `N`, `true`, `i12`, `f1.5`, `"text"`, `@moment`, `[…]`, `{…}`.
fn show(value: &Value) -> String {
    match value {
        Value::Null => "N".to_owned(),
        Value::Bool(truth) => truth.to_string(),
        Value::Int(digits) => format!("i{digits}"),
        Value::Float(float) => format!("f{float:?}"),
        Value::Text(text) => format!("{text:?}"),
        Value::Timestamp(stamp) => format!("@{}", stamp.text),
        Value::List(items) => {
            format!("[{}]", items.iter().map(show).collect::<Vec<_>>().join(", "))
        }
        Value::Map(pairs) => {
            let pairs = pairs.iter().map(|(key, value)| format!("{}: {}", show(key), show(value)));
            format!("{{{}}}", pairs.collect::<Vec<_>>().join(", "))
        }
    }
}

#[track_caller]
fn check(text: &str, expect: &str) {
    let shown = match parse(text) {
        Ok(node) => show(&node.to_value()),
        Err(error) => format!("error: {error}"),
    };
    assert_eq!(shown, expect, "{text:?}");
}

/// Plain text that stays text, in a list, a mapping and alone.
#[track_caller]
fn check_text(text: &str) {
    check(text, &format!("{text:?}"));
    check(&format!("k: {text} # c\n"), &format!("{{\"k\": {text:?}}}"));
    check(&format!("[x, {text}]"), &format!("[\"x\", {text:?}]"));
}

#[track_caller]
fn check_plain(text: &str, expect: &str) {
    check(text, expect);
    check(&format!("k: {text} # c\n"), &format!("{{\"k\": {expect}}}"));
    check(&format!("{{k: {text}, l: '{text}'}}"), &format!("{{\"k\": {expect}, \"l\": {text:?}}}"));
}

#[test]
fn words() {
    for word in ["yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"] {
        check_plain(word, "true");
    }
    for word in ["no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"] {
        check_plain(word, "false");
    }
    for word in ["~", "null", "Null", "NULL"] {
        check_plain(word, "N");
    }
    for word in ["y", "Y", "n", "N", "t", "f", "yEs", "tRue", "oN", "nUll", "none", "None", "~x"] {
        check_text(word);
    }
}

#[test]
fn whole_numbers() {
    for (text, expect) in [
        ("0", "i0"),
        ("-0", "i0"),
        ("+0", "i0"),
        ("12", "i12"),
        ("-1", "i-1"),
        ("+1", "i1"),
        ("00", "i0"),
        ("010", "i8"),
        ("-010", "i-8"),
        ("007", "i7"),
        ("0_7", "i7"),
        ("0_", "i0"),
        ("1_000", "i1000"),
        ("1__0", "i10"),
        ("1_", "i1"),
        ("0x1F", "i31"),
        ("-0x1f", "i-31"),
        ("0x1_F", "i31"),
        ("0b101", "i5"),
        ("-0b1_1", "i-3"),
        ("123456789012345678901234567890", "i123456789012345678901234567890"),
        ("0xffffffffffffffffffffffff", "i79228162514264337593543950335"),
        ("0777777777777777777777777", "i4722366482869645213695"),
        ("1:30", "i90"),
        ("-1:30", "i-90"),
        ("190:20:30", "i685230"),
        ("1_0:30", "i630"),
        ("1:3", "i63"),
        ("1000000000:00", "i60000000000"),
    ] {
        check_plain(text, expect);
    }
    for text in [
        "08", "09", "0o17", "0X1F", "0B1", "0x", "0b", "0b2", "0xG", "_1", "-_1", "1:60", "01:30",
        "0:30", "1:030", "1:3_0", "--1", "+-1", "12abc", "1 2",
    ] {
        check_text(text);
    }
    check("0x_", "error: line 1, column 1: `0x_` has no digits");
    check(&"1".repeat(4300), &format!("i{}", "1".repeat(4300)));
    check(&"1".repeat(4301), "error: line 1, column 1: a number has at most 4300 digits");
}

#[test]
fn floats() {
    for (text, expect) in [
        ("1.5", "f1.5"),
        ("-1.5", "f-1.5"),
        ("+1.5", "f1.5"),
        ("1.", "f1.0"),
        (".5", "f0.5"),
        ("00.5", "f0.5"),
        ("09.5", "f9.5"),
        ("-0.0", "f-0.0"),
        ("1_0.5_0", "f10.5"),
        ("1.0e+3", "f1000.0"),
        ("1.e+3", "f1000.0"),
        ("1.0E-3", "f0.001"),
        (".5e+1", "f5.0"),
        ("1.0e+400", "finf"),
        ("1.0e-400", "f0.0"),
        ("0.1", "f0.1"),
        (".inf", "finf"),
        (".Inf", "finf"),
        ("-.INF", "f-inf"),
        ("+.inf", "finf"),
        (".nan", "fNaN"),
        (".NaN", "fNaN"),
        (".NAN", "fNaN"),
        ("1:30.5", "f90.5"),
        ("0:30.5", "f30.5"),
        ("-1:30.25", "f-90.25"),
        ("1:30.", "f90.0"),
        ("190:20:30.15", "f685230.15"),
    ] {
        check_plain(text, expect);
    }
    for text in [
        "1e3",
        "1E3",
        "1e+3",
        "1.0e3",
        "-.5",
        "+.5",
        "._5",
        ".",
        "..",
        "1.5e+",
        "1.5e+1_0",
        "1.2.3",
        "1.2e+1.5",
        ".iNF",
        "inf",
        "-inf",
        "nan",
        "-.nan",
        "+.nan",
        ".Nan",
        "1:60.5",
        "v1.0",
        "127.0.0.1",
    ] {
        check_text(text);
    }
}

#[test]
fn dates_and_moments() {
    #[track_caller]
    fn check_stamp(written: &str, text: &str, iso: &str) {
        let expect = YamlTimestamp {
            text: text.to_owned(),
            iso: iso.to_owned(),
            date_only: text.len() == 10,
        };
        assert_eq!(parse(written).unwrap().to_value(), Value::Timestamp(expect), "{written}");
    }
    check_stamp("2024-01-02", "2024-01-02", "2024-01-02");
    check_stamp("2024-02-29", "2024-02-29", "2024-02-29");
    check_stamp("2024-1-2 3:04:05", "2024-01-02 03:04:05", "2024-01-02T03:04:05");
    check_stamp("2024-01-02T03:04:05", "2024-01-02 03:04:05", "2024-01-02T03:04:05");
    check_stamp("2024-01-02t03:04:05Z", "2024-01-02 03:04:05+00:00", "2024-01-02T03:04:05Z");
    check_stamp("2024-01-02 03:04:05 -00:00", "2024-01-02 03:04:05+00:00", "2024-01-02T03:04:05Z");
    check_stamp(
        "2001-12-14t21:59:43.10-05:00",
        "2001-12-14 21:59:43.100000-05:00",
        "2001-12-14T21:59:43.100000-05:00",
    );
    check_stamp(
        "2001-12-14 21:59:43.1234567 +5",
        "2001-12-14 21:59:43.123456+05:00",
        "2001-12-14T21:59:43.123456+05:00",
    );
    check_stamp(
        "2001-12-14 21:59:43. -0:30",
        "2001-12-14 21:59:43-00:30",
        "2001-12-14T21:59:43-00:30",
    );
    for text in [
        "2024-1-2",
        "2024-01",
        "2024-01-02x",
        "2024-01-02T",
        "2024-01-02T03:04",
        "-2024-01-02",
        "2024-01-02T03:04:5",
        "2024-01-02T03:04:05z",
        "2024-01-02T03:04:05+0100",
        "20240102x",
    ] {
        check_text(text);
    }
    for (text, expect) in [
        ("2024-13-01", "month must be in 1..12"),
        ("2023-02-29", "day is out of range for month"),
        ("1900-02-29", "day is out of range for month"),
        ("0000-01-01", "year 0 is out of range"),
        ("2024-01-02T24:00:00", "hour must be in 0..23"),
        ("2024-01-02T23:59:60", "second must be in 0..59"),
        ("2024-01-02T03:04:05+24:00", "a time zone is less than a day from UTC"),
    ] {
        check(text, &format!("error: line 1, column 1: {expect}"));
    }
}

#[test]
fn quotes_blocks_and_tags_decide_before_the_text_does() {
    check("'yes'", "\"yes\"");
    check("\"010\"", "\"010\"");
    check("a: |\n  yes\n", r#"{"a": "yes\n"}"#);
    check("a: >-\n  1\n  2\n", r#"{"a": "1 2"}"#);
    check("!!str yes", "\"yes\"");
    check("a: !!str\nb: !!null x\n", r#"{"a": "", "b": N}"#);
    check("!!int \"0x10\"", "i16");
    check("!!float 1", "f1.0");
    check("!!bool \"No\"", "false");
    check("!!timestamp 2024-01-02", "@2024-01-02");
    check("! \"12\"", "i12");
    check("!<tag:yaml.org,2002:str> 12", "\"12\"");
    check("%TAG !y! tag:yaml.org,2002:\n---\n!y!str 12\n", "\"12\"");
    check("!!seq [!!map {a: 1}]", "[{\"a\": i1}]");
    check("!!int x", "error: line 1, column 1: `x` is not a whole number");
    check("!!float x", "error: line 1, column 1: `x` is not a number");
    check("!!bool 1", "error: line 1, column 1: `1` is not a truth value");
    for tag in ["!foo", "!!python/name:os.system", "!!binary"] {
        let full = tag.replace("!!", "tag:yaml.org,2002:");
        let expect = format!("could not determine a constructor for the tag '{full}'");
        check(&format!("a:\n- {tag} x"), &format!("error: line 2, column 3: {expect}"));
    }
    check(
        "!!str [a]",
        "error: line 1, column 1: could not determine a constructor for the tag 'tag:yaml.org,2002:str'",
    );
    check(
        "- <<",
        "error: line 1, column 3: could not determine a constructor for the tag 'tag:yaml.org,2002:merge'",
    );
    check(
        "- =",
        "error: line 1, column 3: could not determine a constructor for the tag 'tag:yaml.org,2002:value'",
    );
}

#[test]
fn anchors_and_merges() {
    check("a: &x {y: 1}\nb: *x\n", r#"{"a": {"y": i1}, "b": {"y": i1}}"#);
    check("&a a: b\nc: *a\n", r#"{"a": "b", "c": "a"}"#);
    check("b: {z: 3, <<: {z: 1, y: 2}}\n", r#"{"b": {"z": i3, "y": i2}}"#);
    check("<<: [{a: 1}, {a: 2, b: 3}]\n", r#"{"a": i1, "b": i3}"#);
    check("{<<: {a: 1}, <<: {a: 2, b: 3}}", r#"{"a": i2, "b": i3}"#);
    check("'<<': {a: 1}\n", r#"{"<<": {"a": i1}}"#);
    check("{=: a, <<: {=: b, c: d}}", r#"{"=": "a", "c": "d"}"#);
    check("<<: []\n", "{}");
    let refused = "`<<` takes a mapping or a list of mappings";
    check("<<: x\n", &format!("error: line 1, column 5: {refused}"));
    check("<<: [{}, ~]\n", &format!("error: line 1, column 10: {refused}"));
    check(
        "a: &x [*x]\n",
        "error: line 1, column 8: this alias stands for a value that contains it",
    );
    check("a: *x\n", "error: line 1, column 4: while parsing node, found unknown anchor");
}

#[test]
fn of_equal_keys_the_last_value_stands_at_the_first_place() {
    check("a: 1\nb: 2\na: 3\n", r#"{"a": i3, "b": i2}"#);
    check("{1: a, true: b, 1.0: c, '1': d}", r#"{i1: "c", "1": "d"}"#);
    check("{0: a, -0.0: b, false: c}", r#"{i0: "c"}"#);
    check("{~: a, null: b}", r#"{N: "b"}"#);
    check("{100000000000000000000: a, 1.0e+20: b}", r#"{i100000000000000000000: "b"}"#);
    check("{2024-01-02: a, 2024-01-02: b}", r#"{@2024-01-02: "b"}"#);
    let refused = "a list or a mapping cannot be a key; quote text that begins with `[` or `{`";
    check("a: {{ x }}\n", &format!("error: line 1, column 5: {refused}"));
    check("? [a]\n: b\n", &format!("error: line 1, column 3: {refused}"));
}

#[test]
fn documents() {
    for nothing in ["", "\n\n", "# c\n", "---\n", "  ", "\u{feff}"] {
        check(nothing, "N");
    }
    check("--- a\n...\n", "\"a\"");
    check("%YAML 1.1\n---\na: 1\n", "{\"a\": i1}");
    check(
        "\u{feff}# c\r\na: b # d\r\nc:\r\n- |\r\n  x\r\n  y\r\n",
        r#"{"a": "b", "c": ["x\ny\n"]}"#,
    );
    check("a: 1\rb: 2\r", r#"{"a": i1, "b": i2}"#);
    check("? a\n: b\n? c\n", r#"{"a": "b", "c": N}"#);
    check("{a:1, \"b\":2, c, d: , e: f:g}", r#"{"a:1": N, "b": i2, "c": N, "d": N, "e": "f:g"}"#);
    check("a: x\n  y\n\n  z\n", r#"{"a": "x y\nz"}"#);
    check(
        "a: 1\n---\nb: 2\n",
        "error: line 2, column 1: a second document starts here: write one document per file, or give the file to `muster apply -f`",
    );
    check("a: \u{7}\n", "error: line 1, column 4: the character U+0007 is not allowed");
    check("a: 1\r\nb: \0\n", "error: line 2, column 4: the character U+0000 is not allowed");
}

#[test]
fn a_last_line_without_an_end_gets_none() {
    check("a: |\n  x", r#"{"a": "x"}"#);
    check("a: |+\n  x", r#"{"a": "x"}"#);
    check("a: >\n  x\n  y", r#"{"a": "x y"}"#);
    check("a: |\n  x\n  ", r#"{"a": "x\n"}"#);
    check("a: |\n  x\n# c", r#"{"a": "x\n"}"#);
}

#[test]
fn what_the_newer_yaml_refuses() {
    check("{name: x, default: -}", r#"{"name": "x", "default": "-"}"#);
    check(
        "[+, -, \u{e000}, \"-,\", a -, -[b]]",
        "error: line 1, column 23: while parsing a flow sequence, expected ',' or ']'",
    );
    check("[+, -, \u{e000}, \"-,\", a -, -b]", r#"["+", "-", "\u{e000}", "-,", "a -", "-b"]"#);
    check("{a:{b: c}, d:[e]}", r#"{"a": {"b": "c"}, "d": ["e"]}"#);
    check("a: \"b\"#c\n", r#"{"a": "b"}"#);
    check("a:\n  b: [\n    x,\n]\nc: 1\n", r#"{"a": {"b": ["x"]}, "c": i1}"#);
    check("a:\n    - {x: 1,\n  y: it's,\n}\n", r#"{"a": [{"x": i1, "y": "it's"}]}"#);
    check("a:\n  b: [\"c]\nd\", # ]\n'e''\nf']\n", r#"{"a": {"b": ["c] d", "e' f"]}}"#);
    check("a:\n  b: \"x\n\n\\\"y\"\nc: 'x\ny'\n", r#"{"a": {"b": "x\n\"y"}, "c": "x y"}"#);
}

#[test]
fn what_both_refuse() {
    for text in [
        "a: b: c\n",
        "a: - b\n",
        "a: @x\n",
        "a: `x`\n",
        "a: %x\n",
        "a: \"x\n",
        "a: \"\\z\"\n",
        "a:\n\t- x\n",
        "a:\n    b: 1\n  c: 2\n",
        "- a\nb: c\n",
        "[a,,b]",
        "a: ]\n",
        "a: 'x' y\n",
    ] {
        assert!(parse(text).is_err(), "{text:?}");
    }
    let error = parse("name: [unclosed\ncommand: x\n").unwrap_err();
    assert!(error.to_string().ends_with("the `[` of line 1 is not closed"), "{error}");
}

#[test]
fn positions_are_those_of_the_file() {
    #[track_caller]
    fn check_position(text: &str, key: &str, expect: (usize, usize)) {
        let node = parse(text).unwrap();
        let NodeValue::Map(pairs) = node.value else { panic!("no mapping") };
        let (_, value) = pairs.iter().find(|(found, _)| found.as_text() == Some(key)).unwrap();
        assert_eq!((value.line, value.column), expect, "{text:?}");
    }
    check_position("a: 1\nbé: 2\n", "bé", (2, 5));
    check_position("a:\n  - x\n", "a", (2, 3));
    check_position("{x: [-], a: b}", "a", (1, 13));
    check_position("{x: [\n], a: b,\nc: d}", "c", (3, 4));
    check_position("x: {y: [\n a,\nb]\n}\nz: 1\n", "z", (5, 4));
    check_position("x: &k {y: 1}\nz: *k\n", "z", (1, 4));
}

#[test]
fn limits() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(parse(&nested(128)).is_ok());
    let too_deep = "values nest more than 128 levels deep";
    let error = |column, line| SyntaxError { line, column, message: too_deep.to_owned() };
    assert_eq!(parse(&nested(129)), Err(error(129, 1)));
    assert!(parse(&"- ".repeat(100_000)).is_err());
    let chain = (1..200).fold("a0: &a0 [x]\n".to_owned(), |text, number| {
        format!("{text}a{number}: &a{number} [*a{}]\n", number - 1)
    });
    assert_eq!(parse(&chain).unwrap_err().message, too_deep);
    let bomb = (1..60).fold("a0: &a0 [x, x]\n".to_owned(), |text, number| {
        let before = number - 1;
        format!("{text}a{number}: &a{number} [*a{before}, *a{before}]\n")
    });
    assert_eq!(parse(&bomb).unwrap_err().message, "aliases make this document too large");
    let long = format!("a: &a {}\nb: [{}]\n", "x".repeat(1_000_000), "*a, ".repeat(100));
    assert_eq!(parse(&long).unwrap_err().message, "aliases make this document too large");
}

#[test]
fn many_keys_take_no_longer_each_than_few() {
    // With a comparison of every key with all before it, this does not end.
    let wide: String = (0..100_000).map(|number| format!("k{number}: 1\n")).collect();
    let NodeValue::Map(pairs) = parse(&wide).unwrap().value else { panic!("not a mapping") };
    assert_eq!(pairs.len(), 100_000);
}

#[test]
fn mending_is_bounded() {
    let wide = format!("a:\n  b: {{{}: \"\n{}\"}}\n", "x".repeat(1000), "y\n".repeat(100_000));
    assert!(parse(&wide).is_err());
}

const CONFIG: &str = "name: x\ncommand: >-\n  echo\n  hi\nx-c: &c {type: integer}\nenv: {A: \"b\nc\"}\n\
    tools:\n  - name: t # c\n    description: |\n      d\n    args:\n      - {<<: *c, name: 'a', enum: [\n  x, -]}\n";

proptest! {
    #[test]
    fn no_text_panics(text in any::<String>()) {
        parse(&text).ok();
    }

    #[test]
    fn no_yaml_like_text_panics(
        text in r#"([-?:,\[\]{}#&*!|>'"%@`~<=\\ \t\r\n.a01é_]|: |- |\n  |&a |\*a |!!str |<<: |---\n){0,60}"#
    ) {
        parse(&text).ok();
    }

    #[test]
    fn no_mutated_file_panics(
        at in 0..CONFIG.len(),
        cut in 0_usize..4,
        insert in r#"[-?:,\[\]{}#&*!|>'" \t\n\\xé]{0,3}"#,
    ) {
        let mut text: Vec<char> = CONFIG.chars().collect();
        let end = (at + cut).min(text.len());
        text.splice(at..end, insert.chars());
        let text: String = text.into_iter().collect();
        parse(&text).ok();
    }

    #[test]
    fn quoted_text_is_itself(text in r#"[ -~é☃]{0,40}"#) {
        let quoted = format!("'{}'", text.replace('\'', "''"));
        prop_assert_eq!(parse(&quoted).unwrap().to_value(), Value::Text(text));
    }

    #[test]
    fn whole_numbers_are_exact(number in any::<i128>()) {
        let hex = format!("{}0x{:x}", if number < 0 { "-" } else { "" }, number.unsigned_abs());
        for text in [number.to_string(), hex] {
            prop_assert_eq!(parse(&text).unwrap().to_value(), Value::Int(number.to_string()));
        }
    }
}

#[test]
fn a_tab_that_is_refused_is_named() {
    for text in ["a:\n\t- b\n", "a:\n\tb: c\n"] {
        let said = parse(text).unwrap_err().to_string();
        assert!(said.ends_with("; write spaces instead of the tab"), "{said}");
        assert!(said.starts_with("line 2"), "{said}");
    }
    let said = parse("a: [b\n").unwrap_err().to_string();
    assert!(!said.contains("tab"), "{said}");
}
