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
    write_pairs(&mut text, pairs, 0);
    text
}

fn write_pairs(text: &mut String, pairs: &[(Value, Value)], depth: usize) {
    for (index, (key, value)) in pairs.iter().enumerate() {
        if index > 0 {
            indent(text, depth);
        }
        text.push_str(&scalar(key));
        text.push(':');
        write_value(text, value, depth);
    }
}

/// Writes the value after a `key:` or a `-`, with its line end.
fn write_value(text: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Map(pairs) if !pairs.is_empty() => {
            text.push('\n');
            indent(text, depth + 1);
            write_pairs(text, pairs, depth + 1);
        }
        Value::List(items) if !items.is_empty() => {
            text.push('\n');
            for item in items {
                indent(text, depth + 1);
                text.push('-');
                match item {
                    Value::Map(pairs) if !pairs.is_empty() => {
                        text.push(' ');
                        write_pairs(text, pairs, depth + 2);
                    }
                    item => write_value(text, item, depth + 1),
                }
            }
        }
        value => {
            text.push(' ');
            text.push_str(&scalar(value));
            text.push('\n');
        }
    }
}

fn indent(text: &mut String, depth: usize) {
    for _ in 0..depth {
        text.push_str("  ");
    }
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

/// Whether text needs no quotes: every YAML reader takes it for text.
fn is_plain(text: &str) -> bool {
    let usual = |letter: char| letter.is_ascii_alphanumeric() || " _./@+=,:-".contains(letter);
    text.starts_with(|letter: char| letter.is_ascii_alphanumeric() || letter == '/')
        && !text.ends_with([' ', ':'])
        && text.chars().all(usual)
        && yaml::parse(text).is_ok_and(|node| node.as_text() == Some(text))
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

    use super::document;
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
              -
                - null
            when: "2026-02-04T10:00:00Z"
        "#]]
        .assert_eq(&document(&value));
        assert_eq!(yaml::parse(&document(&value)).unwrap().to_value(), Value::Map(value));
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::Bool),
            any::<i64>().prop_map(|number| Value::Int(number.to_string())),
            proptest::num::f64::NORMAL.prop_map(Value::Float),
            any::<String>().prop_map(Value::Text),
            "[ -~]{0,12}".prop_map(Value::Text),
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
    }
}
