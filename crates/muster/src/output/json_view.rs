//! Formats JSON of any shape for people. It is used for replies without a known type.

use serde_json::Value;

use super::{
    format::{OutputFormat, OutputStyle},
    properties,
    table::{Table, one_line},
};

/// The maximum number of columns and length of a cell in characters, unless the table is wide.
const MAX_COLUMNS: usize = 6;
const MAX_CELL: usize = 50;

/// Formats a list of objects as a table, an object as its members, and everything else as text.
pub fn show(value: &Value, style: OutputStyle) -> String {
    match value {
        Value::Array(items) => list(items, style),
        Value::Object(members) => {
            let is_list = |value: &Value| {
                let items = value.as_array().filter(|items| !items.is_empty());
                items.is_some_and(|items| items.iter().all(Value::is_object))
            };
            let mut lists = members.iter().filter(|(_, member)| is_list(member));
            // For an object with exactly one list, show the list as a table below the other members.
            let (Some((key, Value::Array(items))), None) = (lists.next(), lists.next()) else {
                return properties::table(value, &[], style);
            };
            let mut rest = members.clone();
            rest.shift_remove(key);
            match properties::rows(&rest) {
                rows if rows.is_empty() => list(items, style),
                rows => {
                    let rest = properties::of_rows(["property", "value"], rows, style);
                    format!("{rest}\n\n{}", list(items, style))
                }
            }
        }
        value => properties::text(value),
    }
}

fn list(items: &[Value], style: OutputStyle) -> String {
    if items.is_empty() {
        return "No items found".to_owned();
    }
    let is_wide = style.format == OutputFormat::Wide;
    let (columns, limit) = if is_wide { (usize::MAX, usize::MAX) } else { (MAX_COLUMNS, MAX_CELL) };
    let mut keys: Vec<&str> = Vec::new();
    for key in items.iter().filter_map(Value::as_object).flat_map(|object| object.keys()) {
        if !keys.contains(&key.as_str()) && keys.len() < columns {
            keys.push(key);
        }
    }
    if keys.is_empty() {
        return items.iter().map(properties::text).collect::<Vec<_>>().join("\n");
    }
    let mut table = Table::new(keys.iter().copied(), style);
    for item in items {
        table.row(keys.iter().map(|key| {
            let cell = item.get(key).map(properties::text).unwrap_or_default();
            if cell.is_empty() { "-".to_owned() } else { one_line(&cell, limit) }
        }));
    }
    table.text()
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::{Value, json};

    use super::{OutputFormat, OutputStyle, show};

    #[expect(clippy::needless_pass_by_value, reason = "a table reads better without ampersands")]
    #[track_caller]
    fn check(value: Value, expect: Expect) {
        let style = OutputStyle { format: OutputFormat::Table, headings: true };
        expect.assert_eq(&show(&value, style));
    }

    #[test]
    fn any_json() {
        check(json!([]), expect!["No items found"]);
        check(json!(["a", 2]), expect!["a\n2"]);
        check(json!("done"), expect!["done"]);
        check(
            json!([{"id": 1, "x": null}, {"id": 2, "y": {"z": "w".repeat(60)}}]),
            expect![[r#"
                ID   X   Y
                1    -   -
                2    -   {"z":"wwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwww..."#]],
        );
        check(
            json!({"total": 1, "pods": [{"name": "a"}]}),
            expect![[r"
                PROPERTY   VALUE
                total      1

                NAME
                a"]],
        );
        check(
            json!({"name": "k", "tools": 2}),
            expect![[r"
                PROPERTY   VALUE
                name       k
                tools      2"]],
        );
    }
}
