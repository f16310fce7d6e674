//! Input schemas of CLI tools: generation and validation.
//!
//! Error messages are those of Python's `jsonschema`, which CLImax uses; like it, only one error is
//! reported at a time.

mod cost;
pub mod signature;
pub mod validator;

use indexmap::{IndexMap, IndexSet};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::{
    arguments::{self, ArgumentProblem, Arguments, InvalidArguments},
    cli::Param,
    json::{self, Raw},
    python,
    value::Value,
};

/// The input schema of a tool with these parameters.
///
/// The last of several parameters with one name is used, at the position of the first.
pub fn input_schema(params: &[Param]) -> Raw {
    let properties = params.iter().map(|param| (param.name.as_str(), Property::of(param)));
    let required = params.iter().filter(|param| param.required).map(|param| param.name.as_str());
    json::raw(&Schema {
        kind: "object",
        properties: properties.collect(),
        required: required.collect(),
    })
}

/// A value as JSON. Infinities and NaN become `null`.
pub fn to_json(value: &Value) -> Raw {
    json::raw(&Json(value))
}

/// Validates arguments against the input schema, without conversion.
pub fn check(params: &[Param], mut given: Arguments) -> Result<Arguments, InvalidArguments> {
    let required = params.iter().filter(|param| param.required).map(|param| param.name.as_str());
    let message = missing(required, &given).or_else(|| {
        last_error(&given, |name, value| {
            let param = arguments::definition(params, name)?;
            type_error(value, param.kind.as_str())
                .or_else(|| choice_error(value, &param.choices))
                .or_else(|| Some(arguments::unsafe_value(params, name, value)?.to_string()))
        })
    });
    if let Some(message) = message {
        let unknown = arguments::unknown(params, &given);
        return Err(InvalidArguments {
            problems: vec![ArgumentProblem::Schema { message }],
            unknown,
        });
    }
    given.retain(|name| arguments::definition(params, name).is_some());
    Ok(given)
}

/// Validates arguments against a list of name, JSON type and whether it is required: the error, if
/// there is one. Unknown names are ignored.
pub fn check_shape(shape: &[(&str, &str, bool)], given: &Arguments) -> Option<String> {
    let required = shape.iter().filter(|(_, _, required)| *required).map(|(name, _, _)| *name);
    missing(required, given).or_else(|| {
        last_error(given, |name, value| {
            let (_, kind, _) = shape.iter().rfind(|(known, _, _)| *known == name)?;
            type_error(value, kind)
        })
    })
}

fn missing<'a>(mut required: impl Iterator<Item = &'a str>, given: &Arguments) -> Option<String> {
    let name = required.find(|name| given.get(name).is_none())?;
    Some(format!("{} is a required property", quoted(name)))
}

/// The error for the argument that sorts last by name among those with an error.
fn last_error(given: &Arguments, error: impl Fn(&str, &Value) -> Option<String>) -> Option<String> {
    let errors = given.iter().filter_map(|(name, value)| Some((name, error(name, value)?)));
    errors.max_by_key(|(name, _)| *name).map(|(_, message)| message)
}

/// The error for a value that is not of a JSON type.
fn type_error(value: &Value, kind: &str) -> Option<String> {
    let fits = match kind {
        "string" => matches!(value, Value::Text(_)),
        "integer" => match value {
            Value::Int(_) => true,
            Value::Float(float) => float.is_finite() && float.fract() == 0.0,
            _ => false,
        },
        "number" => matches!(value, Value::Int(_) | Value::Float(_)),
        "boolean" => matches!(value, Value::Bool(_)),
        "object" => matches!(value, Value::Map(_)),
        "array" => matches!(value, Value::List(_)),
        "null" => matches!(value, Value::Null),
        _ => true,
    };
    (!fits).then(|| format!("{} is not of type {}", python::repr(value), quoted(kind)))
}

/// The error for a value that is not one of the choices. Choices are text, so other values never
/// are.
fn choice_error(value: &Value, choices: &[String]) -> Option<String> {
    if choices.is_empty() || choices.iter().any(|choice| value.as_text() == Some(choice)) {
        return None;
    }
    let choices = choices.iter().map(|choice| Value::Text(choice.clone())).collect();
    Some(format!("{} is not one of {}", python::repr(value), python::repr(&Value::List(choices))))
}

fn quoted(text: &str) -> String {
    python::repr(&Value::Text(text.to_owned()))
}

#[derive(Serialize)]
struct Schema<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    properties: IndexMap<&'a str, Property<'a>>,
    #[serde(skip_serializing_if = "IndexSet::is_empty")]
    required: IndexSet<&'a str>,
}

#[derive(Serialize)]
struct Property<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    default: Option<Json<'a>>,
    #[serde(rename = "enum", skip_serializing_if = "<[String]>::is_empty")]
    choices: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    pattern: Option<String>,
}

impl<'a> Property<'a> {
    fn of(param: &'a Param) -> Self {
        Self {
            kind: param.kind.as_str(),
            description: &param.description,
            default: param.default.as_ref().map(Json),
            choices: &param.choices,
            // A schema's pattern matches anywhere in the value unless it is anchored.
            pattern: param.pattern.as_ref().map(|pattern| format!("^(?:{})$", pattern.as_str())),
        }
    }
}

/// Serializes a value as JSON.
struct Json<'a>(&'a Value);

impl Serialize for Json<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Null => serializer.serialize_unit(),
            Value::Bool(truth) => serializer.serialize_bool(*truth),
            Value::Int(digits) => verbatim(digits.clone()).serialize(serializer),
            Value::Float(float) if float.is_finite() => {
                verbatim(python::float_text(*float)).serialize(serializer)
            }
            Value::Float(_) => serializer.serialize_unit(),
            Value::Text(text) => serializer.serialize_str(text),
            Value::Timestamp(stamp) => serializer.serialize_str(&stamp.iso),
            Value::List(items) => serializer.collect_seq(items.iter().map(Json)),
            Value::Map(members) => serializer
                .collect_map(members.iter().map(|(key, value)| (key_text(key), Json(value)))),
        }
    }
}

/// A number with all its digits.
fn verbatim(number: String) -> Raw {
    RawValue::from_string(number).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// A mapping key as JSON text.
fn key_text(key: &Value) -> String {
    match key {
        Value::Bool(true) => "true".to_owned(),
        Value::Bool(false) => "false".to_owned(),
        Value::Timestamp(stamp) => stamp.iso.clone(),
        _ => python::text(key),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::{check_shape, input_schema, to_json};
    use crate::{
        arguments::Arguments,
        cli::{Param, ParamType, Placement},
        python,
        value::{Value, YamlTimestamp},
    };

    fn param(name: &str, kind: ParamType) -> Param {
        Param {
            name: name.to_owned(),
            description: String::new(),
            kind,
            required: false,
            default: None,
            placement: Placement::Positional,
            choices: Vec::new(),
            pattern: None,
            allow_leading_dash: true,
            recursive: false,
        }
    }

    fn required(name: &str, kind: ParamType) -> Param {
        Param { required: true, ..param(name, kind) }
    }

    fn with_default(name: &str, kind: ParamType, default: Value) -> Param {
        Param { default: Some(default), ..param(name, kind) }
    }

    fn arguments(json: &str) -> Arguments {
        Arguments::from_json(&serde_json::from_str::<Box<RawValue>>(json).unwrap())
    }

    fn text(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    fn int(digits: &str) -> Value {
        Value::Int(digits.to_owned())
    }

    #[test]
    fn schemas_omit_absent_fields() {
        #[track_caller]
        fn check(params: &[Param], expect: &str) {
            assert_eq!(input_schema(params).get(), expect);
        }
        check(&[], r#"{"type":"object","properties":{}}"#);
        check(
            &[
                Param {
                    description: "a \"string\"".to_owned(),
                    ..required("z", ParamType::String)
                },
                with_default("i", ParamType::Integer, int("0")),
                required("a", ParamType::Number),
                with_default("b", ParamType::Boolean, Value::Bool(false)),
                Param {
                    choices: vec!["é".to_owned(), "y".to_owned()],
                    ..with_default("e", ParamType::String, text(""))
                },
            ],
            r#"{"type":"object","properties":{"z":{"type":"string","description":"a \"string\""},"i":{"type":"integer","default":0},"a":{"type":"number"},"b":{"type":"boolean","default":false},"e":{"type":"string","default":"","enum":["é","y"]}},"required":["z","a"]}"#,
        );
    }

    #[test]
    fn the_last_of_equal_names_is_used_at_the_first_position() {
        let params = [
            required("a", ParamType::String),
            param("b", ParamType::String),
            with_default("a", ParamType::Integer, int("1")),
            required("a", ParamType::Integer),
        ];
        assert_eq!(
            input_schema(&params).get(),
            r#"{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"}},"required":["a"]}"#
        );
    }

    #[test]
    fn values_as_json() {
        #[track_caller]
        fn check(value: &Value, expect: &str) {
            assert_eq!(to_json(value).get(), expect);
        }
        let date = Value::Timestamp(YamlTimestamp {
            text: "2024-01-02 03:04:05".to_owned(),
            iso: "2024-01-02T03:04:05".to_owned(),
            date_only: false,
        });
        check(&Value::Null, "null");
        check(&int("123456789012345678901234567890"), "123456789012345678901234567890");
        check(&Value::Float(1.0), "1.0");
        check(&Value::Float(1e20), "1e+20");
        check(&Value::Float(-0.0), "-0.0");
        check(&Value::Float(f64::INFINITY), "null");
        check(&Value::Float(f64::NAN), "null");
        check(&text("a\n\"é\u{2028}"), "\"a\\n\\\"é\u{2028}\"");
        check(&date, r#""2024-01-02T03:04:05""#);
        check(&Value::List(vec![text("a"), int("1"), Value::Null]), r#"["a",1,null]"#);
        check(
            &Value::Map(vec![
                (text("k"), Value::Map(vec![])),
                (int("1"), Value::Bool(true)),
                (Value::Bool(true), Value::List(vec![])),
                (Value::Null, text("n")),
                (Value::Float(1.5), text("f")),
                (date, text("d")),
            ]),
            r#"{"k":{},"1":true,"true":[],"None":"n","1.5":"f","2024-01-02T03:04:05":"d"}"#,
        );
    }

    #[track_caller]
    fn check_strict(json: &str, expect: &str) {
        let params = [
            required("a", ParamType::Integer),
            param("b", ParamType::String),
            Param {
                choices: vec!["x".to_owned(), "y'z".to_owned()],
                ..param("e", ParamType::String)
            },
            param("n", ParamType::Number),
            param("f", ParamType::Boolean),
            param("r2", ParamType::Number),
            param("r2", ParamType::String),
            Param { choices: vec!["1".to_owned()], ..param("ei", ParamType::Integer) },
        ];
        let found = match super::check(&params, arguments(json)) {
            Ok(given) => {
                let shown =
                    given.iter().map(|(name, value)| format!("{name}={}", python::repr(value)));
                shown.collect::<Vec<_>>().join(" ")
            }
            Err(mismatch) => {
                let message =
                    mismatch.problems.first().map(ToString::to_string).unwrap_or_default();
                assert_eq!(mismatch.problems.len(), 1);
                message.strip_prefix("Input validation error: ").unwrap().to_owned()
            }
        };
        assert_eq!(found, expect, "{json}");
    }

    #[test]
    fn nothing_is_converted() {
        check_strict(
            r#"{"a": 1, "b": "B", "e": "y'z", "n": 2.5, "f": true}"#,
            r#"a=1 b='B' e="y'z" n=2.5 f=True"#,
        );
        check_strict(r#"{"a": 1.0, "n": 5, "zzz": [1]}"#, "a=1.0 n=5");
        check_strict(r#"{"a": 1e22}"#, "a=1e+22");
        check_strict(r#"{"a": "5"}"#, "'5' is not of type 'integer'");
        check_strict(r#"{"a": 1.5}"#, "1.5 is not of type 'integer'");
        check_strict(r#"{"a": true}"#, "True is not of type 'integer'");
        check_strict(r#"{"a": []}"#, "[] is not of type 'integer'");
        check_strict(r#"{"a": "x'y"}"#, r#""x'y" is not of type 'integer'"#);
        check_strict(r#"{"a": 1, "n": "5"}"#, "'5' is not of type 'number'");
        check_strict(r#"{"a": 1, "n": true}"#, "True is not of type 'number'");
        check_strict(r#"{"a": 1, "f": 1}"#, "1 is not of type 'boolean'");
        check_strict(r#"{"a": 1, "b": null}"#, "None is not of type 'string'");
        check_strict(
            r#"{"a": 1, "b": ["it's", "q\"q", "both'\"", "tab\té"]}"#,
            r#"["it's", 'q"q', 'both\'"', 'tab\té'] is not of type 'string'"#,
        );
        check_strict(
            r#"{"a": 1, "b": {"k": true, "z": 1e20, "n": null}}"#,
            "{'k': True, 'z': 1e+20, 'n': None} is not of type 'string'",
        );
    }

    #[test]
    fn choices_are_text() {
        check_strict(r#"{"a": 1, "e": "no"}"#, r#"'no' is not one of ['x', "y'z"]"#);
        check_strict(r#"{"a": 1, "e": 5}"#, "5 is not of type 'string'");
        check_strict(r#"{"a": 1, "ei": 1}"#, "1 is not one of ['1']");
    }

    #[test]
    fn one_error_is_reported() {
        check_strict(r#"{"b": 5, "n": "q"}"#, "'a' is a required property");
        check_strict(r#"{"a": "x", "b": 5, "n": "q"}"#, "'q' is not of type 'number'");
        check_strict(r#"{"n": "q", "b": 5, "a": "x"}"#, "'q' is not of type 'number'");
        check_strict(r#"{"a": "x", "r2": 1}"#, "1 is not of type 'string'");
    }

    #[test]
    fn an_error_lists_unknown_names() {
        let params = [required("message", ParamType::String)];
        let mismatch = super::check(&params, arguments(r#"{"mesage": "x"}"#)).unwrap_err();
        assert_eq!(mismatch.unknown, [("mesage".to_owned(), Some("message".to_owned()))]);
    }

    #[test]
    fn check_shape_reports_one_error() {
        const SEARCH: &[(&str, &str, bool)] = &[
            ("query", "string", false),
            ("category", "string", false),
            ("cli", "string", false),
            ("limit", "integer", false),
        ];
        const CALL: &[(&str, &str, bool)] =
            &[("tool_name", "string", true), ("args", "object", false)];

        #[track_caller]
        fn check(shape: &[(&str, &str, bool)], json: &str, expect: Option<&str>) {
            assert_eq!(check_shape(shape, &arguments(json)).as_deref(), expect, "{json}");
        }
        check(SEARCH, "{}", None);
        check(SEARCH, r#"{"query": "", "limit": 2.0, "other": []}"#, None);
        check(SEARCH, r#"{"limit": "2"}"#, Some("'2' is not of type 'integer'"));
        check(SEARCH, r#"{"limit": true}"#, Some("True is not of type 'integer'"));
        check(SEARCH, r#"{"limit": 2.5}"#, Some("2.5 is not of type 'integer'"));
        check(SEARCH, r#"{"limit": {}}"#, Some("{} is not of type 'integer'"));
        check(SEARCH, r#"{"query": null}"#, Some("None is not of type 'string'"));
        check(SEARCH, r#"{"category": ["vcs"]}"#, Some("['vcs'] is not of type 'string'"));
        check(
            SEARCH,
            r#"{"query": 5, "cli": 6, "category": 7}"#,
            Some("5 is not of type 'string'"),
        );
        check(SEARCH, r#"{"limit": "x", "query": 1}"#, Some("1 is not of type 'string'"));
        check(CALL, r#"{"tool_name": "t", "args": {}, "x": 1}"#, None);
        check(CALL, r#"{"args": 5}"#, Some("'tool_name' is a required property"));
        check(CALL, r#"{"tool_name": null}"#, Some("None is not of type 'string'"));
        check(CALL, r#"{"tool_name": "t", "args": "x"}"#, Some("'x' is not of type 'object'"));
        check(CALL, r#"{"tool_name": "t", "args": []}"#, Some("[] is not of type 'object'"));
    }
}
