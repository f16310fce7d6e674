//! Lists and values as the REPL prints them.

use muster_client::remote::tool_response::{ContentBlock, ToolResponse};
use serde_json::Value;

/// The longest description in a list.
const DESCRIPTION: usize = 60;

/// One line of a numbered list.
pub(super) fn item(number: usize, name: &str, width: usize, description: &str) -> String {
    format!("  {number}. {name:<width$} - {description}")
}

/// The beginning of a description, on one line.
pub(super) fn brief(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= DESCRIPTION {
        return line;
    }
    let kept: String = line.chars().take(DESCRIPTION - 3).collect();
    format!("{kept}...")
}

/// Text that is JSON with its levels shown; other text as it is.
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

/// What a tool answered.
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
