//! The text of a tool's answer, in the format that was asked for.

use muster_core::json::Raw;
use serde_json::Value;

use super::{
    format::{OutputFormat, OutputStyle},
    object_page, yaml,
};
use crate::error::CommandError;

/// Formats the text of a tool. Text that is not JSON is printed unchanged and cannot be converted to YAML.
pub fn text(text: &str, style: OutputStyle) -> Result<String, CommandError> {
    let json: Result<Value, _> = serde_json::from_str(text);
    match (style.format, json) {
        (OutputFormat::Json, _) => Ok(text.to_owned()),
        (OutputFormat::Yaml, Err(err)) => {
            Err(CommandError::new(format!("failed to parse JSON: {err}"))
                .hint("the result is not JSON; use --output table or json to print it unchanged"))
        }
        (OutputFormat::Yaml, Ok(value)) => match value.get("yaml").and_then(Value::as_str) {
            Some(document) => Ok(document.trim_end().to_owned()),
            None => {
                let raw: Raw = serde_json::from_str(text).unwrap_or_default();
                Ok(yaml::document(&raw))
            }
        },
        (OutputFormat::Table | OutputFormat::Wide, Ok(value)) => {
            Ok(object_page::show(&value, style))
        }
        (OutputFormat::Table | OutputFormat::Wide, Err(_)) => Ok(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::{OutputFormat, OutputStyle, text};

    #[test]
    fn layouts() {
        let shown = |format, json: &str| {
            text(json, OutputStyle { format, headings: true }).map_err(|err| err.to_string())
        };
        assert_eq!(shown(OutputFormat::Json, "{ \"a\":1 }").unwrap(), "{ \"a\":1 }");
        assert_eq!(
            shown(OutputFormat::Yaml, "{\"b\":1,\"a\":12345678901234567890}").unwrap(),
            "a: 12345678901234567890\nb: 1"
        );
        assert_eq!(shown(OutputFormat::Yaml, "{\"yaml\":\"x: 1\\n\"}").unwrap(), "x: 1");
        assert!(
            shown(OutputFormat::Yaml, "done").unwrap_err().starts_with("failed to parse JSON: ")
        );
        assert_eq!(shown(OutputFormat::Table, "done").unwrap(), "done");
    }
}
