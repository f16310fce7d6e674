//! The arguments of a call, as the history keeps them.

use muster_core::{
    json::{Raw, raw},
    secret_text::{REDACTED, is_secret_name, is_secret_value, without_embedded},
};
use serde_json::Value;

/// The longest text of a value.
const MAX_TEXT: usize = 1_000;
/// How deep JSON documents inside texts are followed. Beyond it a text is redacted: each document may be nested as deep as
/// the parser allows, and their depths add up.
const MAX_NESTED: usize = 3;
/// The longest arguments.
const MAX_LENGTH: usize = 16 * 1024;

/// How much of the arguments of calls, and of the texts of errors, is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KeptArguments {
    /// Nothing but their length.
    #[default]
    Nothing,
    /// Without values that look like secrets, and with long texts shortened.
    Redacted,
    /// Everything.
    Full,
}

impl KeptArguments {
    /// The arguments to store; empty if they are not kept.
    pub(super) fn of(self, arguments: Option<&Raw>) -> String {
        let Some(arguments) = arguments else { return String::new() };
        let text = match self {
            Self::Nothing => return String::new(),
            Self::Full => arguments.get().to_owned(),
            Self::Redacted => match serde_json::from_str(arguments.get()) {
                Ok(value) => raw(&redacted(value, 0)).get().to_owned(),
                Err(_) => return String::new(),
            },
        };
        if text.len() > MAX_LENGTH { String::new() } else { text }
    }

    /// The text of an error to store; errors may repeat arguments.
    pub(super) fn error(self, error: Option<&str>) -> String {
        let error = error.unwrap_or_default();
        match self {
            Self::Nothing => String::new(),
            Self::Redacted => {
                shortened(without_embedded(error).unwrap_or_else(|| error.to_owned()))
            }
            Self::Full => shortened(error.to_owned()),
        }
    }
}

fn redacted(value: Value, nesting: usize) -> Value {
    match value {
        Value::Object(members) => {
            let members = members.into_iter().map(|(name, value)| {
                let is_secret = is_secret_name(&name) && !value.is_null() && !value.is_boolean();
                let value = if is_secret { REDACTED.into() } else { redacted(value, nesting) };
                (name, value)
            });
            Value::Object(members.collect())
        }
        Value::Array(items) => items.into_iter().map(|item| redacted(item, nesting)).collect(),
        Value::String(text) if is_secret_value(&text) => REDACTED.into(),
        Value::String(text) if text.trim_start().starts_with(['{', '[']) => {
            nested(&text, nesting).into()
        }
        Value::String(text) => shortened(without_embedded(&text).unwrap_or(text)).into(),
        value @ (Value::Null | Value::Bool(_) | Value::Number(_)) => value,
    }
}

/// A text that holds a JSON document, such as the config file of a client. One that cannot be parsed may hold secrets that
/// cannot be found.
fn nested(text: &str, nesting: usize) -> String {
    if nesting >= MAX_NESTED {
        return REDACTED.to_owned();
    }
    match serde_json::from_str(text) {
        // Never the text itself: it may hold what the parser dropped, such as a repeated key.
        Ok(document) => shortened(redacted(document, nesting + 1).to_string()),
        Err(_) => REDACTED.to_owned(),
    }
}

/// Whether the history cut a text of an argument.
pub fn is_shortened(text: &str) -> bool {
    text.len() >= MAX_TEXT && text.ends_with('…')
}

fn shortened(mut text: String) -> String {
    if text.len() > MAX_TEXT {
        let end = (0..=MAX_TEXT).rev().find(|at| text.is_char_boundary(*at));
        text.truncate(end.unwrap_or_default());
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use muster_core::json::raw;
    use serde_json::json;

    use super::{KeptArguments, is_shortened};

    #[test]
    fn secrets_in_a_text_of_json_are_redacted() {
        for (text, expected) in [
            (r#"{"env":{"API_KEY":"abc"}}"#, r#"{"env":{"API_KEY":"[REDACTED]"}}"#),
            (r#" [{"args": {"password": "abc"}}]"#, r#"[{"args":{"password":"[REDACTED]"}}]"#),
            (r#"["{\"token\":\"abc\"}"]"#, r#"["{\"token\":\"[REDACTED]\"}"]"#),
            (r#"{ "n": [1, 2] }"#, r#"{"n":[1,2]}"#),
            (r#"{"password":"abc","password":null}"#, r#"{"password":null}"#),
            ("{\"token\": \"abc\", // mine\n}", "[REDACTED]"),
            ("1 {x}", "1 {x}"),
        ] {
            let kept = KeptArguments::Redacted.of(Some(&raw(&json!({"config": text}))));
            assert_eq!(kept, json!({"config": expected}).to_string(), "{text}");
        }
    }

    #[test]
    fn documents_in_documents_are_followed_for_some_levels() {
        let mut text = json!({"n": 1}).to_string();
        for _ in 0..10 {
            text = json!([text]).to_string();
        }
        let kept = KeptArguments::Redacted.of(Some(&raw(&json!({"config": text}))));
        assert!(kept.contains("[REDACTED]") && !kept.contains("n\\"), "{kept}");
    }

    #[test]
    fn cut_texts_are_recognized() {
        let text = format!("a{}", "😀".repeat(300));
        let kept = KeptArguments::Redacted.of(Some(&raw(&json!({"text": text}))));
        let kept: serde_json::Value = serde_json::from_str(&kept).unwrap();
        assert!(is_shortened(kept["text"].as_str().unwrap()));
    }

    #[test]
    fn secrets_are_kept_only_on_request() {
        let arguments = raw(&json!({
            "token": "abc", "list": [{"password": 7}, "ghp_0123456789abcdef"], "on": true,
            "url": "https://u:p@h/x", "text": "x".repeat(2_000),
        }));
        let kept = |kept: KeptArguments| kept.of(Some(&arguments));
        assert_eq!(kept(KeptArguments::Nothing), "");
        assert_eq!(kept(KeptArguments::Full), arguments.get());
        let short = format!("{}…", "x".repeat(1_000));
        assert!(is_shortened(&short) && !is_shortened("x…"));
        let expected = json!({
            "token": "[REDACTED]", "list": [{"password": "[REDACTED]"}, "[REDACTED]"], "on": true,
            "url": "https://[REDACTED]@h/x", "text": short,
        });
        assert_eq!(kept(KeptArguments::Redacted), expected.to_string());
        assert_eq!(KeptArguments::Nothing.error(Some("x")), "");
        assert_eq!(
            KeptArguments::Redacted.error(Some("at https://u:p@h")),
            "at https://[REDACTED]@h"
        );
    }
}
