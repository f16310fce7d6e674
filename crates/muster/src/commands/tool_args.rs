//! Tool arguments on the command line: `key=value`, `--key=value`, `--key value`.

use clap::{Args as _, FromArgMatches as _, parser::ValueSource};
use muster_core::json::{Raw, raw};
use serde_json::{Map, Value};

use super::gateway_args::GatewayArgs;
use crate::error::CommandError;

/// The arguments of a tool, and the flags of the command found among them.
#[derive(Debug, Default)]
pub(crate) struct ToolArgs {
    /// The arguments in order.
    pub(crate) pairs: Vec<(String, String)>,
    /// The arguments of `--json`.
    pub(crate) json: Option<Map<String, Value>>,
    /// The flags, merged with those before the name of the tool.
    pub(crate) gateway: GatewayArgs,
}

impl ToolArgs {
    /// Parses the words. `--` ends the flags of the command; the rest is for the tool.
    pub(crate) fn read(words: &[String], gateway: &GatewayArgs) -> Result<Self, CommandError> {
        let (ours, theirs) = split(words);
        let mut read = Self { gateway: merged(gateway, ours)?, ..Self::default() };
        let mut theirs = theirs.into_iter().peekable();
        while let Some(word) = theirs.next() {
            let (key, value) = match (word.strip_prefix("--"), word.split_once('=')) {
                (Some(flag), _) => match flag.split_once('=') {
                    Some((key, value)) => (key.to_owned(), value.to_owned()),
                    None => {
                        let value = theirs.next_if(|next| !next.starts_with("--"));
                        (flag.to_owned(), value.unwrap_or_else(|| "true".to_owned()))
                    }
                },
                (None, Some((key, value))) => (key.to_owned(), value.to_owned()),
                (None, None) => return Err(stray(&word)),
            };
            if key.is_empty() {
                return Err(stray(&word));
            }
            if key == "json" {
                read.json = Some(whole(&value)?);
            } else {
                read.pairs.push((key, value));
            }
        }
        Ok(read)
    }

    /// Converts the arguments to the types of the input schema.
    pub(crate) fn typed(&self, schema: &Value) -> Raw {
        let mut object = self.json.clone().unwrap_or_default();
        for (key, text) in &self.pairs {
            let wanted = schema.get("properties").and_then(|members| members.get(key));
            let value =
                wanted.map_or_else(|| Value::from(text.as_str()), |wanted| convert(wanted, text));
            match (object.get_mut(key), value) {
                (Some(Value::Array(all)), Value::Array(more)) => all.extend(more),
                (_, value) => drop(object.insert(key.clone(), value)),
            }
        }
        raw(&object)
    }
}

fn stray(word: &str) -> CommandError {
    CommandError::new(format!("unexpected argument `{word}`"))
        .hint("write arguments as key=value or --key=value")
}

fn whole(text: &str) -> Result<Map<String, Value>, CommandError> {
    let wrong = |why: String| {
        CommandError::new(format!("--json expects a JSON object: {why}"))
            .hint("quote it for the shell: --json '{\"key\": \"value\"}'")
    };
    match serde_json::from_str(text) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(wrong("the value is not an object".to_owned())),
        Err(err) => Err(wrong(err.to_string())),
    }
}

/// Separates the flags of the command from everything else.
pub(crate) fn split(words: &[String]) -> (Vec<String>, Vec<String>) {
    let known = GatewayArgs::augment_args(clap::Command::new("muster"));
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if word == "--" {
            theirs.extend(words.cloned());
            break;
        }
        let name = word.split('=').next().unwrap_or(word);
        let found = known.get_arguments().find(|arg| {
            let long = arg.get_long().is_some_and(|long| name.strip_prefix("--") == Some(long));
            let short = name.strip_prefix('-').and_then(|rest| rest.chars().next());
            long || short.is_some_and(|short| arg.get_short() == Some(short))
        });
        let Some(found) = found else {
            theirs.push(word.clone());
            continue;
        };
        ours.push(word.clone());
        let takes_next = found.get_action().takes_values() && !word.contains('=');
        // A short flag may include its value, as in `-ojson`.
        let is_whole = !word.starts_with("--") && word.chars().count() > 2;
        if takes_next && !is_whole {
            ours.extend(words.next().cloned());
        }
    }
    (ours, theirs)
}

fn merged(before: &GatewayArgs, words: Vec<String>) -> Result<GatewayArgs, CommandError> {
    let parser = GatewayArgs::augment_args(clap::Command::new("muster")).no_binary_name(true);
    let wrong = |err: clap::Error| {
        let text = err.to_string();
        let line = text.lines().next().unwrap_or_default();
        CommandError::new(line.trim_start_matches("error: "))
    };
    let matches = parser.try_get_matches_from(words).map_err(wrong)?;
    let mut gateway = GatewayArgs::from_arg_matches(&matches).map_err(wrong)?;
    if matches.value_source("output") != Some(ValueSource::CommandLine) {
        gateway.output.clone_from(&before.output);
    }
    gateway.no_headers |= before.no_headers;
    gateway.quiet |= before.quiet;
    gateway.debug |= before.debug;
    gateway.config_path = gateway.config_path.or_else(|| before.config_path.clone());
    gateway.endpoint = gateway.endpoint.or_else(|| before.endpoint.clone());
    gateway.context = gateway.context.or_else(|| before.context.clone());
    gateway.auth = gateway.auth.or_else(|| before.auth.clone());
    Ok(gateway)
}

/// Converts a text to the type of a schema. Returns it as text if that is not possible.
fn convert(wanted: &Value, text: &str) -> Value {
    let kinds: Vec<&str> = match wanted.get("type") {
        Some(Value::String(kind)) => vec![kind],
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    if kinds.contains(&"string") && kinds.len() == 1 {
        return text.into();
    }
    let parsed: Option<Value> = serde_json::from_str(text).ok();
    for kind in &kinds {
        match (*kind, &parsed) {
            ("integer", Some(value)) if value.is_i64() || value.is_u64() => return value.clone(),
            ("number", Some(value)) if value.is_number() => return value.clone(),
            ("boolean", Some(value)) if value.is_boolean() => return value.clone(),
            ("object", Some(value)) if value.is_object() => return value.clone(),
            ("array", Some(value)) if value.is_array() => return value.clone(),
            ("null", Some(Value::Null)) => return Value::Null,
            ("array", _) => {
                let inner = wanted.get("items").unwrap_or(&Value::Null);
                return Value::Array(vec![convert(inner, text)]);
            }
            _ => (),
        }
    }
    text.into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{GatewayArgs, ToolArgs, Value};

    fn read(words: &str) -> Result<ToolArgs, String> {
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        ToolArgs::read(&words, &GatewayArgs::default()).map_err(|err| err.to_string())
    }

    #[track_caller]
    fn check(words: &str, expect: &str) {
        let seen =
            read(words).map_or_else(|err| err, |words| words.typed(&Value::Null).get().to_owned());
        assert_eq!(seen, expect, "{words}");
    }

    #[test]
    fn argument_syntax() {
        check("a=1 --b=x=y --c z --d --e f", r#"{"a":"1","b":"x=y","c":"z","d":"true","e":"f"}"#);
        check("--d --e", r#"{"d":"true","e":"true"}"#);
        check("-- --output=x", r#"{"output":"x"}"#);
        check("a=1 a=2", r#"{"a":"2"}"#);
        check("loose", "unexpected argument `loose`");
        check("--=x", "unexpected argument `--=x`");
        check("--json [1]", "--json expects a JSON object: the value is not an object");
    }

    #[test]
    fn command_flags_are_accepted_anywhere() {
        let words = read("a=1 -o json --quiet --endpoint http://h b=2 --context=lab").unwrap();
        assert_eq!(words.typed(&Value::Null).get(), r#"{"a":"1","b":"2"}"#);
        let GatewayArgs { output, quiet, endpoint, context, .. } = words.gateway;
        assert_eq!((&*output, quiet), ("json", true));
        assert_eq!((endpoint.as_deref(), context.as_deref()), (Some("http://h"), Some("lab")));
        assert_eq!(read("-ojson").unwrap().gateway.output, "json");
        let before =
            GatewayArgs { output: "yaml".to_owned(), quiet: true, ..GatewayArgs::default() };
        let after = ToolArgs::read(&["a=1".to_owned()], &before).unwrap().gateway;
        assert_eq!((&*after.output, after.quiet), ("yaml", true));
    }

    #[test]
    fn values_are_converted_by_the_schema() {
        let schema = json!({"properties": {
            "i": {"type": "integer"}, "n": {"type": "number"}, "b": {"type": "boolean"},
            "s": {"type": "string"}, "a": {"type": "array", "items": {"type": "integer"}},
            "o": {"type": "object"}, "u": {"type": ["null", "integer", "string"]},
        }});
        let typed_args = |words: &str| read(words).unwrap().typed(&schema).get().to_owned();
        assert_eq!(typed_args("i=3 n=1.5 b=true s=7"), r#"{"i":3,"n":1.5,"b":true,"s":"7"}"#);
        assert_eq!(typed_args("i=x b=yes x=1"), r#"{"i":"x","b":"yes","x":"1"}"#);
        assert_eq!(typed_args("a=1 a=2"), r#"{"a":[1,2]}"#);
        assert_eq!(typed_args("a=[1,2]"), r#"{"a":[1,2]}"#);
        assert_eq!(typed_args(r#"o={"x":1} u=null"#), r#"{"o":{"x":1},"u":null}"#);
        assert_eq!(typed_args("u=word"), r#"{"u":"word"}"#);
        assert_eq!(typed_args(r#"--json {"i":1,"z":2} i=5"#), r#"{"i":5,"z":2}"#);
    }
}
