//! JSON as YAML for people: keys in order of the alphabet, four blanks for each level.

use muster_config::writer;
use muster_core::value::Value;
use serde_json::value::RawValue;

/// Writes a JSON value as a YAML document, without the last line end.
pub fn document(json: &RawValue) -> String {
    let mut text = String::new();
    match Value::from_json(json) {
        Value::Map(pairs) if !pairs.is_empty() => write_map(&mut text, &pairs, 0),
        Value::List(items) if !items.is_empty() => write_list(&mut text, &items, 0),
        scalar => text.push_str(&writer::scalar(&scalar)),
    }
    text.trim_end().to_owned()
}

const STEP: usize = 4;

/// Where the next level begins: the items of a list stand two blanks in, everything else at fours.
const fn below(depth: usize) -> usize {
    (depth + STEP) / STEP * STEP
}

fn write_map(text: &mut String, pairs: &[(Value, Value)], depth: usize) {
    let mut sorted: Vec<(String, &Value)> =
        pairs.iter().map(|(key, value)| (writer::scalar(key), value)).collect();
    sorted.sort_by(|(one, _), (other, _)| one.cmp(other));
    for (index, (key, value)) in sorted.into_iter().enumerate() {
        if index > 0 {
            indent(text, depth);
        }
        text.push_str(&key);
        text.push(':');
        match value {
            Value::Map(pairs) if !pairs.is_empty() => {
                text.push('\n');
                indent(text, below(depth));
                write_map(text, pairs, below(depth));
            }
            Value::List(items) if !items.is_empty() => {
                text.push('\n');
                indent(text, below(depth));
                write_list(text, items, below(depth));
            }
            scalar => {
                text.push(' ');
                write_scalar(text, scalar, below(depth));
            }
        }
    }
}

fn write_list(text: &mut String, items: &[Value], depth: usize) {
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            indent(text, depth);
        }
        text.push_str("- ");
        match item {
            Value::Map(pairs) if !pairs.is_empty() => write_map(text, pairs, depth + 2),
            Value::List(items) if !items.is_empty() => write_list(text, items, depth + 2),
            scalar => write_scalar(text, scalar, below(depth)),
        }
    }
}

/// Several lines stay several lines, where they can be written as they are.
fn write_scalar(text: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Text(block) if fits_a_block(block) => {
            text.push_str(if block.ends_with('\n') { "|\n" } else { "|-\n" });
            for line in block.lines() {
                if !line.is_empty() {
                    indent(text, depth);
                    text.push_str(line);
                }
                text.push('\n');
            }
        }
        value => {
            text.push_str(&writer::scalar(value));
            text.push('\n');
        }
    }
}

fn fits_a_block(text: &str) -> bool {
    let printable = |letter: char| letter == '\n' || !letter.is_control();
    text.contains('\n')
        && !text.ends_with("\n\n")
        && !text.starts_with([' ', '\n'])
        && text.lines().all(|line| !line.ends_with(' '))
        && text.chars().all(printable)
}

fn indent(text: &mut String, depth: usize) {
    text.extend(std::iter::repeat_n(' ', depth));
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use muster_config::yaml;
    use muster_core::json::raw;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::document;

    #[test]
    fn people_can_read_it() {
        let value = json!({
            "services": [{"name": "b", "args": ["-y", "no"], "note": "one\ntwo"}, {"n": 12}],
            "a": {"empty": {}, "none": null, "list": []},
        });
        expect![[r#"
            a:
                empty: {}
                list: []
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
        .assert_eq(&document(&raw(&value)));
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "[ -~\n]{0,12}".prop_map(Value::from),
            "[a-z:#]{0,6}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-z ]{0,4}", inner, 0..4)
                    .prop_map(|map| map.into_iter().collect()),
            ]
        })
    }

    proptest! {
        #[test]
        fn it_reads_back_as_the_same_value(value in values()) {
            let text = document(&raw(&value));
            let mut read = yaml::parse(&format!("{text}\n")).unwrap().to_value();
            let mut meant = muster_core::value::Value::from_json(&raw(&value));
            sort(&mut read);
            sort(&mut meant);
            prop_assert_eq!(read, meant, "{}", text);
        }
    }

    fn sort(value: &mut muster_core::value::Value) {
        match value {
            muster_core::value::Value::Map(pairs) => {
                pairs.sort_by_key(|(key, _)| format!("{key:?}"));
                pairs.iter_mut().for_each(|(_, value)| sort(value));
            }
            muster_core::value::Value::List(items) => items.iter_mut().for_each(sort),
            _ => (),
        }
    }
}
