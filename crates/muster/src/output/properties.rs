//! Formats values as rows of names and values. Nested members are named by their paths, and only empty values are left
//! out.

use serde::Serialize;
use serde_json::Value;

use super::{format::OutputStyle, table::Table};

/// Formats all members of a value as a table, those in `first` before the others.
pub fn table(value: &impl Serialize, first: &[&str], style: OutputStyle) -> String {
    let mut rows = rows(value);
    let place = |name: &str| first.iter().position(|known| *known == name).unwrap_or(first.len());
    rows.sort_by_key(|(name, _)| place(name));
    of_rows(["property", "value"], rows, style)
}

/// Formats rows of names and values under two headings.
pub fn of_rows(
    headings: [&str; 2],
    rows: impl IntoIterator<Item = (String, String)>,
    style: OutputStyle,
) -> String {
    let mut table = Table::new(headings, style);
    rows.into_iter().for_each(|(name, value)| table.row([name, value]));
    table.text()
}

/// The members of a value by their paths, in order.
pub fn rows(value: &impl Serialize) -> Vec<(String, String)> {
    let mut rows = Vec::new();
    match serde_json::to_value(value) {
        Ok(value) => flatten("", &value, &mut rows),
        Err(error) => rows.push(("error".to_owned(), error.to_string())),
    }
    rows
}

fn flatten(path: &str, value: &Value, rows: &mut Vec<(String, String)>) {
    let below =
        |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    match value {
        Value::Object(members) => {
            members.iter().for_each(|(name, member)| flatten(&below(name), member, rows));
        }
        Value::Array(items) if items.iter().any(|item| item.is_object() || item.is_array()) => {
            let items = items.iter().enumerate();
            items.for_each(|(index, item)| flatten(&below(&index.to_string()), item, rows));
        }
        value => {
            let text = text(value);
            if !text.is_empty() {
                rows.push((path.to_owned(), text));
            }
        }
    }
}

/// Formats a value as text: a list with commas, an object as JSON.
pub fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.trim_end().to_owned(),
        Value::Array(items) if !items.iter().any(|item| item.is_object() || item.is_array()) => {
            items.iter().map(text).collect::<Vec<_>>().join(", ")
        }
        value => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::{super::format::OutputFormat, OutputStyle, table};

    #[test]
    fn everything_is_shown() {
        let value = json!({
            "b": {"c": [1, "x"], "d": {"e": "two\nlines\n"}, "none": null, "empty": {}},
            "list": [{"n": 1}, {"n": 2}], "yes": true, "name": "it",
        });
        let style = OutputStyle { format: OutputFormat::Table, headings: true };
        expect![[r"
            PROPERTY   VALUE
            name       it
            b.c        1, x
            b.d.e      two
                       lines
            list.0.n   1
            list.1.n   2
            yes        true"]]
        .assert_eq(&table(&value, &["name"], style));
    }
}
