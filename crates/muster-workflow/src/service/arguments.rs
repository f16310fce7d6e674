//! The arguments of a service, checked against its class.

use indexmap::IndexMap;
use serde_json::{Map, Value as Json};
use thiserror::Error;

use super::class::ClassArg;
use crate::go_type::go_type;

/// Why arguments are invalid for a class.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InvalidServiceArgs {
    /// A required argument is missing.
    #[error("missing required argument: {0}")]
    Missing(String),
    /// An argument has the wrong type.
    #[error("invalid type for argument '{name}': expected {expected}, got {found}")]
    Type {
        /// Its name.
        name: String,
        /// The declared type.
        expected: &'static str,
        /// The type of the given value.
        found: &'static str,
    },
    /// The class declares an unknown type.
    #[error("unknown argument type '{kind}' for argument '{name}'")]
    UnknownType {
        /// Its name.
        name: String,
        /// The type.
        kind: String,
    },
    /// The class has no such argument.
    #[error("unknown argument: {0}")]
    Unknown(String),
}

/// The arguments with the class's defaults. A class without arguments accepts any.
pub fn with_defaults(
    takes: &IndexMap<String, ClassArg>,
    mut given: Map<String, Json>,
) -> Result<Map<String, Json>, InvalidServiceArgs> {
    if takes.is_empty() {
        return Ok(given);
    }
    for (name, spec) in takes {
        match (given.get(name), &spec.default) {
            (Some(value), _) => check_type(name, &spec.kind, value)?,
            (None, Some(default)) => drop(given.insert(name.clone(), default.clone())),
            (None, None) if spec.required => return Err(InvalidServiceArgs::Missing(name.clone())),
            (None, None) => (),
        }
    }
    match given.keys().find(|name| !takes.contains_key(*name)) {
        Some(unknown) => Err(InvalidServiceArgs::Unknown(unknown.clone())),
        None => Ok(given),
    }
}

fn check_type(name: &str, kind: &str, value: &Json) -> Result<(), InvalidServiceArgs> {
    let whole = |value: &Json| value.as_f64().is_some_and(|number| number.fract() == 0.0);
    let (expected, fits) = match kind {
        "string" => ("string", value.is_string()),
        "integer" => ("integer", whole(value)),
        "number" => ("number", value.is_number()),
        "boolean" => ("boolean", value.is_boolean()),
        "object" => ("object", value.is_object()),
        "array" => ("array", value.is_array()),
        _ => {
            return Err(InvalidServiceArgs::UnknownType {
                name: name.to_owned(),
                kind: kind.to_owned(),
            });
        }
    };
    if fits {
        return Ok(());
    }
    let found = match value {
        Json::Number(_) if expected == "integer" => "float",
        value => go_type(value),
    };
    Err(InvalidServiceArgs::Type { name: name.to_owned(), expected, found })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::with_defaults;

    #[track_caller]
    fn check(takes: Json, given: Json, expect: &str) {
        let takes = serde_json::from_value(takes).unwrap();
        let Json::Object(given) = given else { panic!("not an object") };
        let said = match with_defaults(&takes, given) {
            Ok(args) => Json::Object(args).to_string(),
            Err(unfit) => unfit.to_string(),
        };
        assert_eq!(said, expect);
    }

    #[test]
    fn arguments_are_completed_or_refused() {
        check(json!({}), json!({"any": 1}), r#"{"any":1}"#);
        let one = |kind: &str| json!({"a": {"type": kind}});
        check(
            json!({"a": {"type": "string", "required": true}}),
            json!({}),
            "missing required argument: a",
        );
        check(
            json!({"a": {"type": "integer", "required": true, "default": "raw"}}),
            json!({}),
            r#"{"a":"raw"}"#,
        );
        check(one("string"), json!({"b": 1}), "unknown argument: b");
        check(one("string"), json!({"a": "x"}), r#"{"a":"x"}"#);
        check(one("integer"), json!({"a": 5.0}), r#"{"a":5.0}"#);
        check(one("object"), json!({"a": {}}), r#"{"a":{}}"#);
        check(one("array"), json!({"a": []}), r#"{"a":[]}"#);
        let refused = |kind: &str, value: Json, found: &str| {
            let expect = format!("invalid type for argument 'a': expected {kind}, got {found}");
            check(one(kind), json!({"a": value}), &expect);
        };
        refused("string", json!(1), "float64");
        refused("string", json!(null), "<nil>");
        refused("integer", json!("1"), "string");
        refused("integer", json!(1.5), "float");
        refused("boolean", json!("true"), "string");
        refused("number", json!([]), "[]interface {}");
        refused("number", json!({}), "map[string]interface {}");
        refused("string", json!(true), "bool");
        check(one("date"), json!({"a": "x"}), "unknown argument type 'date' for argument 'a'");
    }
}
