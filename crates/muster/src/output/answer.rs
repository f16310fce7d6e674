//! The text of a tool's answer, in the layout that was asked for.

use muster_core::json::Raw;
use serde_json::Value;

use super::{
    detail,
    layout::{Layout, Manner},
    yaml,
};
use crate::error::CommandError;

/// A text as it is printed. Text that is no JSON is shown as it is, but cannot become YAML.
pub fn text(text: &str, manner: Manner) -> Result<String, CommandError> {
    let json: Result<Value, _> = serde_json::from_str(text);
    match (manner.layout, json) {
        (Layout::Json, _) => Ok(text.to_owned()),
        (Layout::Yaml, Err(err)) => Err(CommandError::new(format!("failed to parse JSON: {err}"))
            .hint("the answer is no JSON; use --output table or json to see it as it is")),
        (Layout::Yaml, Ok(value)) => match value.get("yaml").and_then(Value::as_str) {
            Some(document) => Ok(document.trim_end().to_owned()),
            None => {
                let raw: Raw = serde_json::from_str(text).unwrap_or_default();
                Ok(yaml::document(&raw))
            }
        },
        (Layout::Table | Layout::Wide, Ok(value)) => Ok(detail::show(&value, manner)),
        (Layout::Table | Layout::Wide, Err(_)) => Ok(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::{Layout, Manner, text};

    #[test]
    fn layouts() {
        let shown = |layout, json: &str| {
            text(json, Manner { layout, headings: true }).map_err(|err| err.to_string())
        };
        assert_eq!(shown(Layout::Json, "{ \"a\":1 }").unwrap(), "{ \"a\":1 }");
        assert_eq!(
            shown(Layout::Yaml, "{\"b\":1,\"a\":12345678901234567890}").unwrap(),
            "a: 12345678901234567890\nb: 1"
        );
        assert_eq!(shown(Layout::Yaml, "{\"yaml\":\"x: 1\\n\"}").unwrap(), "x: 1");
        assert!(shown(Layout::Yaml, "done").unwrap_err().starts_with("failed to parse JSON: "));
        assert_eq!(shown(Layout::Table, "done").unwrap(), "done");
    }
}
