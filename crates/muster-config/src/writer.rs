//! The YAML writer: values in block style, so that people can edit the files that muster writes.
//!
//! **Invariant:** the output reads back as the same value.

use std::fmt::Write as _;

use muster_core::value::Value;

use crate::{resource, yaml};

/// Writes a serializable struct or map as a document.
pub fn object(value: &impl serde::Serialize) -> String {
    document(&resource::pairs(value))
}

/// Writes a mapping as a document.
pub fn document(pairs: &[(Value, Value)]) -> String {
    let mut text = String::new();
    FILE.write_pairs(&mut text, pairs, 0);
    text
}

/// Writes a value for people to read: keys sorted, texts of several lines as blocks, four spaces for each level.
pub fn page(value: &Value) -> String {
    let mut text = String::new();
    match value {
        Value::Map(pairs) if !pairs.is_empty() => PAGE.write_pairs(&mut text, pairs, 0),
        Value::List(items) if !items.is_empty() => PAGE.write_items(&mut text, items, 0),
        scalar => text.push_str(&self::scalar(scalar)),
    }
    text.trim_end().to_owned()
}

/// The layout of a document.
struct Layout {
    /// Spaces for each level.
    step: usize,
    /// Whether keys are sorted and texts of several lines are blocks.
    for_people: bool,
}

const FILE: Layout = Layout { step: 2, for_people: false };
const PAGE: Layout = Layout { step: 4, for_people: true };

impl Layout {
    /// The column of the next level. The members of an item start two columns after its dash.
    const fn below(&self, column: usize) -> usize {
        (column + self.step) / self.step * self.step
    }

    fn write_pairs(&self, text: &mut String, pairs: &[(Value, Value)], column: usize) {
        let mut pairs: Vec<(String, &Value)> =
            pairs.iter().map(|(key, value)| (scalar(key), value)).collect();
        if self.for_people {
            pairs.sort_by(|(one, _), (other, _)| one.cmp(other));
        }
        for (index, (key, value)) in pairs.into_iter().enumerate() {
            if index > 0 {
                indent(text, column);
            }
            text.push_str(&key);
            text.push(':');
            match value {
                Value::Map(pairs) if !pairs.is_empty() => {
                    text.push('\n');
                    indent(text, self.below(column));
                    self.write_pairs(text, pairs, self.below(column));
                }
                Value::List(items) if !items.is_empty() => {
                    text.push('\n');
                    indent(text, self.below(column));
                    self.write_items(text, items, self.below(column));
                }
                scalar => {
                    text.push(' ');
                    self.write_scalar(text, scalar, self.below(column));
                }
            }
        }
    }

    fn write_items(&self, text: &mut String, items: &[Value], column: usize) {
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                indent(text, column);
            }
            text.push_str("- ");
            match item {
                Value::Map(pairs) if !pairs.is_empty() => {
                    self.write_pairs(text, pairs, column + 2);
                }
                Value::List(items) if !items.is_empty() => {
                    self.write_items(text, items, column + 2);
                }
                scalar => self.write_scalar(text, scalar, self.below(column)),
            }
        }
    }

    fn write_scalar(&self, text: &mut String, value: &Value, column: usize) {
        match value {
            Value::Text(block) if self.for_people && fits_a_block(block) => {
                text.push_str(if block.ends_with('\n') { "|\n" } else { "|-\n" });
                for line in block.lines() {
                    if !line.is_empty() {
                        indent(text, column);
                        text.push_str(line);
                    }
                    text.push('\n');
                }
            }
            value => {
                text.push_str(&scalar(value));
                text.push('\n');
            }
        }
    }
}

/// Whether text of several lines can be written as it is.
fn fits_a_block(text: &str) -> bool {
    let printable = |letter: char| letter == '\n' || !letter.is_control();
    text.contains('\n')
        && !text.ends_with("\n\n")
        && !text.starts_with([' ', '\n'])
        && text.lines().all(|line| !line.ends_with(' '))
        && text.chars().all(printable)
}

fn indent(text: &mut String, column: usize) {
    text.extend(std::iter::repeat_n(' ', column));
}

/// Writes a scalar or an empty collection on one line.
pub fn scalar(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(truth) => truth.to_string(),
        Value::Int(digits) => digits.clone(),
        Value::Float(float) if float.is_nan() => ".nan".to_owned(),
        Value::Float(float) if float.is_infinite() && *float > 0.0 => ".inf".to_owned(),
        Value::Float(float) if float.is_infinite() => "-.inf".to_owned(),
        Value::Float(float) => plain_float(*float),
        Value::Text(text) if is_plain(text) => text.clone(),
        Value::Text(text) => quoted(text),
        Value::Timestamp(stamp) => stamp.text.clone(),
        Value::List(_) => "[]".to_owned(),
        Value::Map(_) => "{}".to_owned(),
    }
}

/// YAML 1.1 requires a point in a number with an exponent, and a sign on the exponent.
fn plain_float(float: f64) -> String {
    let text = format!("{float:?}");
    match text.split_once('e') {
        Some((digits, exponent)) => {
            let digits =
                if digits.contains('.') { digits.to_owned() } else { format!("{digits}.0") };
            let sign = if exponent.starts_with('-') { "" } else { "+" };
            format!("{digits}e{sign}{exponent}")
        }
        None => text,
    }
}

/// Whether text needs no quotes: every YAML parser reads it as text.
fn is_plain(text: &str) -> bool {
    let usual = |letter: char| letter.is_ascii_alphanumeric() || " _./@+=,:-".contains(letter);
    text.starts_with(|letter: char| letter.is_ascii_alphanumeric() || letter == '/')
        && !text.ends_with([' ', ':'])
        && text.chars().all(usual)
        && !is_number_of_yaml_1_2(text)
        && yaml::parse(text).is_ok_and(|node| node.as_text() == Some(text))
}

/// Whether text that begins with a letter or digit is a number of YAML 1.2, though not of 1.1: `12e34`, `0o17`.
fn is_number_of_yaml_1_2(text: &str) -> bool {
    let is_float =
        || text.starts_with(|first: char| first.is_ascii_digit()) && text.parse::<f64>().is_ok();
    text.starts_with("0o") || is_float()
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            // Characters that are not printable in YAML, and invisible ones.
            '\u{7f}'..='\u{9f}'
            | '\u{200b}'
            | '\u{200e}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{fffe}'..='\u{ffff}'
            | ..'\u{20}' => drop(write!(quoted, "\\U{:08X}", u32::from(letter))),
            _ => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use muster_core::value::Value;
    use proptest::prelude::*;

    use super::{document, page};
    use crate::yaml;

    fn text(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    #[test]
    fn people_can_read_it() {
        let value = vec![
            (text("name"), text("github")),
            (text("args"), Value::List(vec![text("-y"), text("a b"), text("10"), text("no")])),
            (
                text("env"),
                Value::Map(vec![
                    (text("URL"), text("https://host:1/x?y=z")),
                    (text("NOTE"), text("two\nlines: \"…\"")),
                    (text("on"), Value::Bool(true)),
                ]),
            ),
            (text("none"), Value::List(Vec::new())),
            (text("empty"), Value::Map(Vec::new())),
            (
                text("list"),
                Value::List(vec![
                    Value::Map(vec![(text("a"), Value::Int("1".to_owned()))]),
                    Value::List(vec![Value::Null]),
                ]),
            ),
            (text("when"), text("2026-02-04T10:00:00Z")),
        ];
        expect![[r#"
            name: github
            args:
              - "-y"
              - a b
              - "10"
              - "no"
            env:
              URL: "https://host:1/x?y=z"
              NOTE: "two\nlines: \"…\""
              "on": true
            none: []
            empty: {}
            list:
              - a: 1
              - - null
            when: "2026-02-04T10:00:00Z"
        "#]]
        .assert_eq(&document(&value));
        assert_eq!(yaml::parse(&document(&value)).unwrap().to_value(), Value::Map(value));
    }

    #[test]
    fn text_stays_text_for_readers_of_every_version() {
        for number in ["12e34", "0o17", "1.e3", "12", "0x1f", "1_000"] {
            let written = document(&[(text("v"), text(number))]);
            assert_eq!(written, format!("v: \"{number}\"\n"));
        }
        for plain in ["nan", "inf", "12e", "0a", "1.2.3"] {
            assert_eq!(document(&[(text("v"), text(plain))]), format!("v: {plain}\n"));
        }
    }

    #[test]
    fn pages_are_sorted_and_have_blocks() {
        let value = Value::Map(vec![
            (
                text("services"),
                Value::List(vec![
                    Value::Map(vec![
                        (text("name"), text("b")),
                        (text("args"), Value::List(vec![text("-y"), text("no")])),
                        (text("note"), text("one\ntwo")),
                    ]),
                    Value::Map(vec![(text("n"), Value::Int("12".to_owned()))]),
                ]),
            ),
            (
                text("a"),
                Value::Map(vec![
                    (text("none"), Value::Null),
                    (text("empty"), Value::Map(Vec::new())),
                ]),
            ),
        ]);
        expect![[r#"
            a:
                empty: {}
                none: null
            services:
                - args:
                    - "-y"
                    - "no"
                  name: b
                  note: |-
                    one
                    two
                - n: 12"#]]
        .assert_eq(&page(&value));
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::Bool),
            any::<i64>().prop_map(|number| Value::Int(number.to_string())),
            proptest::num::f64::NORMAL.prop_map(Value::Float),
            any::<String>().prop_map(Value::Text),
            "[ -~\n]{0,12}".prop_map(Value::Text),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::List),
                proptest::collection::btree_map("[ -~]{1,8}", inner, 0..4).prop_map(|pairs| {
                    Value::Map(pairs.into_iter().map(|(key, value)| (text(&key), value)).collect())
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(
            pairs in proptest::collection::btree_map("[ -~]{1,8}", any_value(), 1..4),
        ) {
            let pairs: Vec<_> =
                pairs.into_iter().map(|(key, value)| (text(&key), value)).collect();
            let written = document(&pairs);
            let read = yaml::parse(&written).map(|node| node.to_value());
            prop_assert_eq!(read, Ok(Value::Map(pairs)), "{}", written);
        }

        #[test]
        fn pages_read_back(value in any_value()) {
            let written = page(&value);
            let mut read = yaml::parse(&format!("{written}\n")).unwrap().to_value();
            let mut meant = value;
            sort(&mut read);
            sort(&mut meant);
            prop_assert_eq!(read, meant, "{}", written);
        }
    }

    fn sort(value: &mut Value) {
        match value {
            Value::Map(pairs) => {
                pairs.sort_by_key(|(key, _)| format!("{key:?}"));
                pairs.iter_mut().for_each(|(_, value)| sort(value));
            }
            Value::List(items) => items.iter_mut().for_each(sort),
            _ => (),
        }
    }
}
