//! Call arguments: parsing, conversion and checks.

use std::sync::Arc;

use serde_json::value::RawValue;
use thiserror::Error;

use crate::{
    cli::{Param, ParamType},
    json::RawObject,
    python, suggest,
    text::shortened,
    value::Value,
};

/// The number of unknown names that a rejection explains.
const MAX_UNKNOWN: usize = 20;

/// Argument values in request order, each name once.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Arguments {
    values: Vec<(Arc<str>, Value)>,
}

impl Arguments {
    /// Reads a JSON object; any other value is read as no arguments.
    pub fn from_json(raw: &RawValue) -> Self {
        let members = RawObject::parse(raw).map(RawObject::deduplicated).unwrap_or_default();
        let values = members.into_iter().map(|(name, raw)| (name.into(), Value::from_json(&raw)));
        Self { values: values.collect() }
    }

    /// The value of `name`.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.values.iter().find(|(key, _)| **key == *name).map(|(_, value)| value)
    }

    /// The names and values in request order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.values.iter().map(|(name, value)| (&**name, value))
    }

    /// Removes the arguments whose names `wanted` rejects.
    pub(crate) fn retain(&mut self, wanted: impl Fn(&str) -> bool) {
        self.values.retain(|(name, _)| wanted(name));
    }
}

/// A problem with the arguments. Its text is a contract.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ArgumentProblem {
    /// A required argument is missing.
    #[error("Missing required argument '{name}'")]
    Missing {
        /// The argument.
        name: String,
    },
    /// A value has the wrong type and cannot be converted.
    #[error("Argument '{name}': cannot convert '{value}' to {}", kind.as_str())]
    Inconvertible {
        /// The argument.
        name: String,
        /// The value as text.
        value: String,
        /// The expected type.
        kind: ParamType,
    },
    /// A value is not one of the choices.
    #[error("Argument '{name}' must be one of: {}", choices.join(", "))]
    NotAllowed {
        /// The argument.
        name: String,
        /// The choices.
        choices: Vec<String>,
    },
    /// A value would be read as an option of the program.
    #[error(
        "Argument '{name}': a value that begins with '-' would be read as an option; write a path as './-...'"
    )]
    LeadingDash {
        /// The argument.
        name: String,
    },
    /// A value does not match the pattern of its definition.
    #[error("Argument '{name}' must match the pattern {pattern}")]
    Mismatch {
        /// The argument.
        name: String,
        /// The pattern.
        pattern: String,
    },
    /// The arguments violate the input schema.
    #[error("Input validation error: {message}")]
    Schema {
        /// The violation.
        message: String,
    },
}

/// Arguments that were rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidArguments {
    /// The problems, in the order to report.
    pub problems: Vec<ArgumentProblem>,
    /// Unknown argument names, each with the nearest known one.
    pub unknown: Vec<(String, Option<String>)>,
}

/// Checks required arguments, converts unambiguous values, and checks choices, patterns and leading
/// dashes.
///
/// If several parameters share a name, each is checked for being required and the last determines
/// the type. Unknown names are ignored; they only explain a rejection.
pub fn coerce(params: &[Param], given: Arguments) -> Result<Arguments, InvalidArguments> {
    let unknown = unknown(params, &given);
    let mut problems: Vec<ArgumentProblem> = params
        .iter()
        .filter(|param| param.required && given.get(&param.name).is_none())
        .map(|param| ArgumentProblem::Missing { name: param.name.clone() })
        .collect();
    let mut values = Vec::new();
    for (name, value) in given.values {
        let Some(param) = definition(params, &name) else { continue };
        let value =
            convert(param, value).and_then(|value| match unsafe_value(params, &name, &value) {
                None => Ok(value),
                Some(problem) => Err(problem),
            });
        match value {
            Ok(value) => values.push((name, value)),
            Err(problem) => problems.push(problem),
        }
    }
    if problems.is_empty() {
        Ok(Arguments { values })
    } else {
        Err(InvalidArguments { problems, unknown })
    }
}

/// The parameter that applies to `name`: the last with that name.
pub(crate) fn definition<'a>(params: &'a [Param], name: &str) -> Option<&'a Param> {
    params.iter().rfind(|param| param.name == name)
}

/// The first argument names that no parameter has, each with the nearest known one.
pub(crate) fn unknown(params: &[Param], given: &Arguments) -> Vec<(String, Option<String>)> {
    let nearest = |name| {
        let names = params.iter().map(|param| param.name.as_str());
        suggest::similar(name, names).first().map(|&near| near.to_owned())
    };
    given
        .iter()
        .filter(|(name, _)| definition(params, name).is_none())
        .take(MAX_UNKNOWN)
        .map(|(name, _)| (shortened(name).into_owned(), nearest(name)))
        .collect()
}

/// Returns the problem with a value that has a valid type and choice, but is unsafe to pass to the program as a
/// parameter of this name.
pub(crate) fn unsafe_value(params: &[Param], name: &str, value: &Value) -> Option<ArgumentProblem> {
    let text = python::text(value);
    // Every parameter with this name passes the value, not only the last one.
    params.iter().filter(|param| param.name == name).find_map(|param| {
        let name = || param.name.clone();
        if param.is_read_as_option(&text) {
            return Some(ArgumentProblem::LeadingDash { name: name() });
        }
        // If the pattern cannot be evaluated on the value, the value does not match.
        let pattern = param.pattern.as_ref()?;
        let matches = pattern.matches(&text).unwrap_or(false);
        let pattern = || pattern.as_str().to_owned();
        (!matches).then(|| ArgumentProblem::Mismatch { name: name(), pattern: pattern() })
    })
}

fn convert(param: &Param, value: Value) -> Result<Value, ArgumentProblem> {
    let name = || param.name.clone();
    let value = converted(param.kind, value).map_err(|value| ArgumentProblem::Inconvertible {
        name: name(),
        value: python::text(&value),
        kind: param.kind,
    })?;
    if param.choices.is_empty() || param.choices.contains(&python::text(&value)) {
        return Ok(value);
    }
    Err(ArgumentProblem::NotAllowed { name: name(), choices: param.choices.clone() })
}

/// Converts a value to a type, or returns it unchanged as the error.
fn converted(kind: ParamType, value: Value) -> Result<Value, Value> {
    match kind {
        ParamType::String => Ok(Value::Text(match value {
            Value::Text(text) => text,
            other => python::text(&other),
        })),
        ParamType::Integer => integer(value),
        ParamType::Number => number(value),
        ParamType::Boolean => boolean(value),
    }
}

fn integer(value: Value) -> Result<Value, Value> {
    match value {
        Value::Int(_) => Ok(value),
        Value::Bool(truth) => Ok(Value::integer(if truth { "1" } else { "0" })),
        Value::Float(float) if float.is_finite() => {
            Ok(Value::integer(&format!("{:.0}", float.trunc())))
        }
        Value::Text(ref text) => python::parse_int(text).ok_or(value),
        other => Err(other),
    }
}

fn number(value: Value) -> Result<Value, Value> {
    match value {
        Value::Int(_) | Value::Float(_) => Ok(value),
        Value::Bool(truth) => Ok(Value::Float(f64::from(u8::from(truth)))),
        Value::Text(ref text) => python::parse_float(text).map(Value::Float).ok_or(value),
        other => Err(other),
    }
}

fn boolean(value: Value) -> Result<Value, Value> {
    match value {
        Value::Bool(_) => Ok(value),
        Value::Int(digits) => Ok(Value::Bool(digits != "0")),
        Value::Text(text) if text == "true" => Ok(Value::Bool(true)),
        Value::Text(text) if text == "false" => Ok(Value::Bool(false)),
        other => Err(other),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::value::RawValue;

    use super::{ArgumentProblem, Arguments, InvalidArguments, coerce};
    use crate::{
        cli::{Param, ParamType, Placement},
        policy::pattern::Pattern,
        python,
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

    fn required(name: &str) -> Param {
        Param { required: true, ..param(name, ParamType::String) }
    }

    fn choice(kind: ParamType, choices: &[&str]) -> Param {
        let choices = choices.iter().map(|&choice| choice.to_owned()).collect();
        Param { choices, ..param("v", kind) }
    }

    fn arguments(json: &str) -> Arguments {
        Arguments::from_json(&serde_json::from_str::<Box<RawValue>>(json).unwrap())
    }

    /// Checks the converted arguments as Python literals, or the problems, one per line.
    #[track_caller]
    fn check(params: &[Param], json: &str, expect: &str) {
        let found = match coerce(params, arguments(json)) {
            Ok(arguments) => arguments
                .iter()
                .map(|(name, value)| format!("{name}={}", python::repr(value)))
                .collect::<Vec<_>>()
                .join(" "),
            Err(InvalidArguments { problems, .. }) => {
                problems.iter().map(ArgumentProblem::to_string).collect::<Vec<_>>().join("\n")
            }
        };
        assert_eq!(found, expect, "{json}");
    }

    /// Checks one value; `None` expects a failed conversion.
    #[track_caller]
    fn check_value(kind: ParamType, json: &str, expect: Option<&str>) {
        let given = format!(r#"{{"v": {json}}}"#);
        let params = [param("v", kind)];
        match expect {
            Some(repr) => check(&params, &given, &format!("v={repr}")),
            None => {
                let value = python::text(arguments(&given).get("v").unwrap());
                let kind = kind.as_str();
                check(
                    &params,
                    &given,
                    &format!("Argument 'v': cannot convert '{value}' to {kind}"),
                );
            }
        }
    }

    #[test]
    fn any_value_converts_to_a_string() {
        let string = |json, repr| check_value(ParamType::String, json, Some(repr));
        string(r#""as is ""#, "'as is '");
        string("5", "'5'");
        string("-0", "'0'");
        string("9007199254740993", "'9007199254740993'");
        string("1.10", "'1.1'");
        string("1E5", "'100000.0'");
        string("-0.0", "'-0.0'");
        string("1e22", "'1e+22'");
        string("1e400", "'None'");
        string("true", "'True'");
        string("false", "'False'");
        string("null", "'None'");
        string("[]", "'[]'");
        string(r#"["a", null, true, 1.5]"#, r#""['a', None, True, 1.5]""#);
        string(r#"{"a": 1, "b": {}, "a": 2}"#, r#""{'a': 2, 'b': {}}""#);
    }

    #[test]
    fn conversion_to_an_integer() {
        let integer = |json, repr| check_value(ParamType::Integer, json, repr);
        integer("42", Some("42"));
        integer("123456789012345678901234567890", Some("123456789012345678901234567890"));
        integer(r#"" +4_2\n""#, Some("42"));
        integer(r#""007""#, Some("7"));
        integer(r#""٣""#, Some("3"));
        integer("3.7", Some("3"));
        integer("-1.9", Some("-1"));
        integer("-0.5", Some("0"));
        integer("1e22", Some("10000000000000000000000"));
        integer("true", Some("1"));
        integer("false", Some("0"));
        for bad in [
            r#""1.0""#,
            r#""1e3""#,
            r#""0x10""#,
            r#""""#,
            r#""1__0""#,
            r#""true""#,
            "null",
            "[1]",
            r#"{"a": 1}"#,
        ] {
            integer(bad, None);
        }
    }

    #[test]
    fn conversion_to_a_number() {
        let number = |json, repr| check_value(ParamType::Number, json, repr);
        number("5", Some("5"));
        number("5.0", Some("5.0"));
        number("-0.0", Some("-0.0"));
        number(r#""5""#, Some("5.0"));
        number(r#"".5""#, Some("0.5"));
        number(r#""1e3""#, Some("1000.0"));
        number(r#""Infinity""#, Some("inf"));
        number(r#""nan""#, Some("nan"));
        number(r#""1e400""#, Some("inf"));
        number("true", Some("1.0"));
        number("false", Some("0.0"));
        for bad in [r#""""#, r#""1,5""#, r#""0x10""#, "null", "1e400", "[]", "{}"] {
            number(bad, None);
        }
    }

    #[test]
    fn conversion_to_a_boolean() {
        let boolean = |json: &str, repr| check_value(ParamType::Boolean, json, repr);
        boolean("true", Some("True"));
        boolean("false", Some("False"));
        boolean(r#""true""#, Some("True"));
        boolean(r#""false""#, Some("False"));
        boolean("0", Some("False"));
        boolean("-0", Some("False"));
        boolean("7", Some("True"));
        boolean("-1", Some("True"));
        for bad in ["True", "TRUE", "False", " true", "yes", "no", "on", "1", "0", "t", ""] {
            boolean(&format!("{bad:?}"), None);
        }
        for bad in ["1.0", "0.0", "null", "[]", "{}"] {
            boolean(bad, None);
        }
    }

    #[test]
    fn choices_are_compared_as_text_after_conversion() {
        let refused = "Argument 'v' must be one of: 1, 2";
        let integer = [choice(ParamType::Integer, &["1", "2"])];
        check(&integer, r#"{"v": "02"}"#, "v=2");
        check(&integer, r#"{"v": 2.9}"#, "v=2");
        check(&integer, r#"{"v": true}"#, "v=1");
        check(&integer, r#"{"v": 3}"#, refused);
        check(&integer, r#"{"v": "x"}"#, "Argument 'v': cannot convert 'x' to integer");
        let number = [choice(ParamType::Number, &["5"])];
        check(&number, r#"{"v": 5}"#, "v=5");
        check(&number, r#"{"v": "5"}"#, "Argument 'v' must be one of: 5");
        let boolean = [choice(ParamType::Boolean, &["true", "True"])];
        check(&boolean, r#"{"v": "true"}"#, "v=True");
        check(&boolean, r#"{"v": false}"#, "Argument 'v' must be one of: true, True");
        let string = [choice(ParamType::String, &["1", "None", "True"])];
        check(&string, r#"{"v": null}"#, "v='None'");
        check(&string, r#"{"v": "none"}"#, "Argument 'v' must be one of: 1, None, True");
        check(&[choice(ParamType::String, &[])], r#"{"v": "any"}"#, "v='any'");
    }

    #[test]
    fn missing_arguments_come_first_then_request_order() {
        let params = [
            param("a", ParamType::Integer),
            required("d"),
            param("b", ParamType::Number),
            Param { choices: vec!["x".to_owned()], ..param("c", ParamType::String) },
            Param { default: Some(crate::value::Value::Null), ..required("e") },
        ];
        check(
            &params,
            r#"{"c": "no", "b": "bad", "a": "bad"}"#,
            "Missing required argument 'd'\nMissing required argument 'e'\n\
             Argument 'c' must be one of: x\nArgument 'b': cannot convert 'bad' to number\n\
             Argument 'a': cannot convert 'bad' to integer",
        );
        check(&params, r#"{"e": null, "d": "", "zzz": [1]}"#, "e='None' d=''");
    }

    #[test]
    fn the_last_of_equal_names_decides_and_each_is_required() {
        let params = [required("a"), Param { required: true, ..param("a", ParamType::Integer) }];
        check(&params, r#"{"a": "5"}"#, "a=5");
        check(&params, r#"{"a": "x"}"#, "Argument 'a': cannot convert 'x' to integer");
        check(&params, "{}", "Missing required argument 'a'\nMissing required argument 'a'");
    }

    #[test]
    fn a_value_is_never_read_as_an_option() {
        let dash = "Argument 'v': a value that begins with '-' would be read as an option; \
                    write a path as './-...'";
        let guarded = |placement| Param {
            placement,
            allow_leading_dash: false,
            ..param("v", ParamType::String)
        };
        let refused = |placement: Placement| {
            for value in ["-delete", "--eval=x", "--", "-1", "-\u{e9}"] {
                let json = serde_json::json!({ "v": value }).to_string();
                check(&[guarded(placement.clone())], &json, dash);
            }
            check(&[guarded(placement)], r#"{"v": -1}"#, dash);
        };
        refused(Placement::Positional);
        refused(Placement::Flag("name".to_owned()));
        for value in ["-", "", "a-b", "./-x", " -x"] {
            let json = serde_json::json!({ "v": value }).to_string();
            check(&[guarded(Placement::Positional)], &json, &format!("v='{value}'"));
        }
        let typed = |kind| [Param { kind, ..guarded(Placement::Positional) }];
        // `-7` is an option of many programs, too.
        for kind in [ParamType::Integer, ParamType::Number] {
            check(&typed(kind), r#"{"v": -7}"#, dash);
            check(&typed(kind), r#"{"v": "-7"}"#, dash);
        }
        for number in [r#"{"v": -0.5}"#, r#"{"v": "-inf"}"#, r#"{"v": -1e-9}"#] {
            check(&typed(ParamType::Number), number, dash);
        }
        let declared = [Param { allow_leading_dash: true, ..param("v", ParamType::Integer) }];
        check(&declared, r#"{"v": -7}"#, "v=-7");
        for placement in [
            Placement::Flag("--flag".to_owned()),
            Placement::Flag("--".to_owned()),
            Placement::Joined("key=".to_owned()),
            Placement::Stdin,
            Placement::WorkingDir,
        ] {
            check(&[guarded(placement)], r#"{"v": "-x"}"#, "v='-x'");
        }
        check(&[param("v", ParamType::String)], r#"{"v": "-x"}"#, "v='-x'");
    }

    #[test]
    fn every_parameter_of_a_name_is_checked() {
        let positional = Param { allow_leading_dash: false, ..param("v", ParamType::String) };
        let flag =
            Param { placement: Placement::Flag("--v".to_owned()), ..param("v", ParamType::String) };
        let found = coerce(&[positional, flag], arguments(r#"{"v": "-x"}"#)).unwrap_err();
        assert_eq!(found.problems, [ArgumentProblem::LeadingDash { name: "v".to_owned() }]);
    }

    #[test]
    fn a_pattern_matches_the_whole_value() {
        let url =
            Param { pattern: Some(Pattern::new("https?://.+")), ..param("v", ParamType::String) };
        let params = [url];
        check(&params, r#"{"v": "https://a"}"#, "v='https://a'");
        let refused = "Argument 'v' must match the pattern https?://.+";
        for bad in ["file:///etc/passwd", "x https://a", "https://a\nb", ""] {
            check(&params, &serde_json::json!({ "v": bad }).to_string(), refused);
        }
    }

    #[test]
    fn unknown_names_have_suggestions() {
        let params = [required("message"), param("all", ParamType::Boolean)];
        let mismatch = coerce(&params, arguments(r#"{"mesage": "hi", "zzz": 1}"#)).unwrap_err();
        assert_eq!(
            mismatch.unknown,
            [("mesage".to_owned(), Some("message".to_owned())), ("zzz".to_owned(), None)]
        );
    }

    fn json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            any::<f64>().prop_map(Into::into),
            any::<String>().prop_map(Into::into),
            "[ +-]?[0-9_.e]{0,6}".prop_map(Into::into),
        ];
        leaf.prop_recursive(3, 16, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
                proptest::collection::btree_map(any::<String>(), inner, 0..4)
                    .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn coercion_never_panics_and_settles(value in json()) {
            for kind in [ParamType::String, ParamType::Integer, ParamType::Number, ParamType::Boolean] {
                let params = [param("v", kind)];
                let given = arguments(&serde_json::json!({ "v": value }).to_string());
                if let Ok(once) = coerce(&params, given) {
                    let again = coerce(&params, once.clone()).unwrap();
                    let (once, again) = (once.get("v").unwrap(), again.get("v").unwrap());
                    prop_assert_eq!(python::repr(once), python::repr(again));
                }
            }
        }
    }
}
