//! The options of `filter tools`, by position or as `key=value`.

use muster_client::inventory::MAX_TOKENS;
use serde_json::{Map, Value, json};

use super::{
    ReplError,
    arguments::{split, texts, unquoted},
};

/// The number of tools that are shown without `limit`.
const LIMIT: u64 = 1000;
/// The options by position. `""` stands for none.
const BY_POSITION: [&str; 4] = ["pattern", "description", "case_sensitive", "detailed"];

/// What `filter tools` looks for.
#[derive(Debug)]
pub(super) struct ToolFilter {
    /// The arguments of `filter_tools`.
    pub(super) arguments: Map<String, Value>,
    /// The filters, with their labels.
    pub(super) shown: Vec<(&'static str, String)>,
    /// Whether whole descriptions and schemas are shown.
    pub(super) is_detailed: bool,
}

impl ToolFilter {
    pub(super) fn parse(text: &str) -> Result<Self, ReplError> {
        let arguments = json!({
            "case_sensitive": false, "include_schema": false, "limit": LIMIT, "max_tokens": MAX_TOKENS});
        let arguments = arguments.as_object().cloned().unwrap_or_default();
        let mut filter = Self { arguments, shown: Vec::new(), is_detailed: false };
        let mut places = BY_POSITION.iter();
        for word in split(text) {
            match word.split_once('=') {
                Some((key, value)) => filter.set(key, unquoted(value))?,
                None => match places.next() {
                    Some(_) if word == "\"\"" => (),
                    Some(key @ (&"pattern" | &"description")) => filter.set(key, &word)?,
                    // Any other word by position always meant `false`.
                    Some(key) if word == "true" => filter.set(key, &word)?,
                    Some(_) | None => (),
                },
            }
        }
        let is_exact = filter.arguments.get("case_sensitive") == Some(&Value::Bool(true));
        filter.shown.push(("Case sensitive", is_exact.to_string()));
        Ok(filter)
    }

    fn set(&mut self, option: &str, value: &str) -> Result<(), ReplError> {
        let wrong = |expected: &str| {
            ReplError::new(format!("invalid value \"{value}\" for {option}: expected {expected}"))
        };
        let boolean = || value.parse::<bool>().map_err(|_| wrong("true or false"));
        let number = || value.parse::<u64>().map_err(|_| wrong("a whole number"));
        let (argument, set) = match option {
            "pattern" => ("pattern", self.text("Pattern", value)),
            "description" => ("description_filter", self.text("Description filter", value)),
            "query" => ("query", self.text("Query", value)),
            "labels" => {
                self.text("Labels", value);
                ("labels", Value::Object(texts(&value.replace(',', " "))))
            }
            "case_sensitive" => ("case_sensitive", json!(boolean()?)),
            "detailed" | "include_schema" => {
                self.is_detailed = boolean()?;
                ("include_schema", json!(self.is_detailed))
            }
            "limit" => ("limit", json!(number()?)),
            "offset" => ("offset", json!(number()?)),
            _ => {
                return Err(ReplError::new(format!(
                    "unknown filter option \"{option}\": valid options are pattern, description, query, \
                     labels, case_sensitive, detailed, limit and offset"
                )));
            }
        };
        self.arguments.insert(argument.to_owned(), set);
        Ok(())
    }

    fn text(&mut self, label: &'static str, value: &str) -> Value {
        self.shown.push((label, value.to_owned()));
        json!(value)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::ToolFilter;

    fn arguments(text: &str) -> Value {
        let mut arguments = ToolFilter::parse(text).unwrap().arguments;
        arguments.remove("max_tokens");
        Value::Object(arguments)
    }

    #[test]
    fn options_by_position_and_by_name() {
        let with = |more: Value| {
            let mut all = json!({"case_sensitive": false, "include_schema": false, "limit": 1000});
            all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            all
        };
        for (text, expected) in [
            ("", json!({})),
            ("x_*", json!({"pattern": "x_*"})),
            (
                "x_* pod true true",
                json!({"pattern": "x_*", "description_filter": "pod", "case_sensitive": true, "include_schema": true}),
            ),
            ("\"\" pod no", json!({"description_filter": "pod"})),
            ("x_* limit=5 offset=10", json!({"pattern": "x_*", "limit": 5, "offset": 10})),
            (
                "query=\"list pods\" detailed=true",
                json!({"query": "list pods", "include_schema": true}),
            ),
            (
                "labels=team=a,env=prod case_sensitive=true",
                json!({"labels": {"team": "a", "env": "prod"}, "case_sensitive": true}),
            ),
            ("include_schema=false description=x", json!({"description_filter": "x"})),
        ] {
            assert_eq!(arguments(text), with(expected), "{text}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (text, expected) in [
            (
                "zz=1",
                "unknown filter option \"zz\": valid options are pattern, description, query, labels, case_sensitive, detailed, limit and offset",
            ),
            ("limit=many", "invalid value \"many\" for limit: expected a whole number"),
            ("detailed=5", "invalid value \"5\" for detailed: expected true or false"),
        ] {
            assert_eq!(ToolFilter::parse(text).unwrap_err().to_string(), expected);
        }
    }
}
