//! Lists and values as the REPL prints them.

use muster_client::remote::tool_response::{ContentBlock, ToolResponse};
use serde_json::Value;

use crate::output::table::one_line;

/// The longest description in a list, in characters.
const MAX_DESCRIPTION: usize = 60;

/// One line of a numbered list.
pub(super) fn item(number: usize, name: &str, width: usize, description: &str) -> String {
    format!("  {number}. {name:<width$} - {description}")
}

/// The start of a description, on one line.
pub(super) fn brief(text: &str) -> String {
    one_line(text, MAX_DESCRIPTION)
}

/// JSON text indented; other text unchanged.
pub(super) fn pretty(text: &str) -> String {
    match serde_json::from_str::<Value>(text) {
        Ok(value @ (Value::Object(_) | Value::Array(_))) => {
            serde_json::to_string_pretty(&value).unwrap_or_else(|_| text.to_owned())
        }
        _ => text.to_owned(),
    }
}

/// A value as JSON.
pub(super) fn json(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

/// The response of a tool.
pub(super) fn answer(answer: &ToolResponse) -> String {
    if answer.failed {
        let texts = answer.texts();
        let texts = texts.iter().flat_map(|text| text.lines()).map(|line| format!("  {line}"));
        let lines = std::iter::once("Tool returned an error:".to_owned()).chain(texts);
        return lines.collect::<Vec<_>>().join("\n");
    }
    let mut lines = vec!["Result:".to_owned()];
    if answer.content.is_empty() {
        lines.push("  (no output returned)".to_owned());
    }
    lines.extend(answer.content.iter().map(|content| match content {
        ContentBlock::Text(text) => pretty(text),
        other => other.shown(),
    }));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::{brief, item, pretty};

    #[test]
    fn lists_are_aligned_and_short() {
        assert_eq!(item(3, "a", 5, "what"), "  3. a     - what");
        assert_eq!(brief("one\n two"), "one two");
        assert_eq!(brief(&"x".repeat(61)), format!("{}...", "x".repeat(57)));
        assert_eq!(brief(&"ü".repeat(60)), "ü".repeat(60));
    }

    #[test]
    fn json_is_laid_out_and_text_is_not() {
        assert_eq!(pretty(r#"{"a":1.0}"#), "{\n  \"a\": 1.0\n}");
        assert_eq!(pretty("12"), "12");
        assert_eq!(pretty("a { b"), "a { b");
    }
}
