//! Parses the arguments of REPL commands.

use serde_json::{Map, Value};

/// Arguments that are not valid JSON.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BadJson {
    /// The byte offset of the error.
    pub(crate) position: usize,
    pub(crate) reason: String,
}

/// Splits text at white space, except within quotes.
pub(crate) fn split(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut quote: Option<char> = None;
    for letter in text.chars() {
        match quote {
            Some(open) if letter == open => {
                quote = None;
                word.push(letter);
            }
            Some(_) => word.push(letter),
            None if letter.is_whitespace() => {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
            }
            None => {
                if matches!(letter, '"' | '\'') && word.ends_with('=') {
                    quote = Some(letter);
                }
                word.push(letter);
            }
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

/// Parses arguments given as `key=value` words or as one JSON object.
pub(crate) fn arguments(text: &str) -> Result<Map<String, Value>, BadJson> {
    let text = text.trim();
    if text.starts_with('{') {
        return serde_json::from_str(text).map_err(|err| BadJson {
            position: offset(text, err.line(), err.column()),
            reason: err.to_string(),
        });
    }
    let pairs = split(text).into_iter().filter_map(|word| {
        let (key, value) = word.split_once('=')?;
        Some((key.to_owned(), value_of(unquoted(value))))
    });
    Ok(pairs.collect())
}

/// Parses arguments given as `key=value` words, with values as text.
pub(crate) fn texts(text: &str) -> Map<String, Value> {
    let pairs = split(text).into_iter().filter_map(|word| {
        let (key, value) = word.split_once('=')?;
        Some((key.to_owned(), Value::String(value.to_owned())))
    });
    pairs.collect()
}

/// Parses a word as JSON, or takes it as text if it is not JSON.
fn value_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

pub(crate) fn unquoted(value: &str) -> &str {
    ['"', '\'']
        .into_iter()
        .find_map(|quote| value.strip_prefix(quote)?.strip_suffix(quote))
        .unwrap_or(value)
}

fn offset(text: &str, line: usize, column: usize) -> usize {
    let before: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    before + column
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{arguments, split, texts};

    #[track_caller]
    fn check(text: &str, expect: &Value) {
        assert_eq!(&Value::Object(arguments(text).unwrap()), expect, "{text}");
    }

    #[test]
    fn values_are_json_where_they_can_be() {
        check("", &json!({}));
        check("a=1 b=true c=[1] d=x", &json!({"a": 1, "b": true, "c": [1], "d": "x"}));
        check(r#"a="3" b='y z' c="#, &json!({"a": 3, "b": "y z", "c": ""}));
        check("a=b=c ignored", &json!({"a": "b=c"}));
        check(r#"{"a": {"b": 1.0}}"#, &json!({"a": {"b": 1.0}}));
    }

    #[test]
    fn broken_json_is_told_with_its_place() {
        let bad = arguments(r#"{"a": }"#).unwrap_err();
        assert_eq!((bad.position, bad.reason.contains("expected value")), (7, true));
    }

    #[test]
    fn workflows_take_text_as_typed() {
        assert_eq!(Value::Object(texts("a=1 b=\"x\"")), json!({"a": "1", "b": "\"x\""}));
    }

    #[test]
    fn blanks_split_words_outside_of_quoted_values() {
        assert_eq!(
            split("  call  t a=\"b c\" don't stop"),
            ["call", "t", "a=\"b c\"", "don't", "stop"]
        );
    }
}
