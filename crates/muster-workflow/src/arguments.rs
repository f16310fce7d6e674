//! The arguments of a workflow: their declarations, checked against a call.

use serde_json::{Value as Json, json};
use thiserror::Error;

use super::{JsonObject, WorkflowArg, WorkflowSpec};

/// Why arguments are invalid. The texts are a contract.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InvalidInput {
    /// A required argument is missing.
    #[error("input validation failed: required field '{0}' is missing")]
    Missing(String),
    /// An argument has the wrong type.
    #[error("input validation failed: field '{name}' has wrong type, expected {kind}")]
    Type {
        /// Its name.
        name: String,
        /// The declared type.
        kind: String,
    },
}

/// The arguments as the steps see them, with defaults. Undeclared arguments are passed on unchanged.
pub fn with_defaults(
    spec: &WorkflowSpec,
    mut given: JsonObject,
) -> Result<JsonObject, InvalidInput> {
    for (name, arg) in &spec.args {
        match (given.get(name), &arg.default) {
            (Some(value), _) if !matches_type(value, &arg.kind) => {
                return Err(InvalidInput::Type { name: name.clone(), kind: arg.kind.clone() });
            }
            (Some(_), _) => (),
            (None, Some(default)) => drop(given.insert(name.clone(), default.clone())),
            (None, None) if arg.required => return Err(InvalidInput::Missing(name.clone())),
            (None, None) => (),
        }
    }
    Ok(given)
}

/// Whether a value has the declared type. Nothing is converted; an unknown type permits everything.
fn matches_type(value: &Json, kind: &str) -> bool {
    match kind {
        "string" => value.is_string(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => true,
    }
}

/// The JSON Schema of a workflow's tool.
pub fn schema(spec: &WorkflowSpec) -> Json {
    let property = |arg: &WorkflowArg| {
        let mut property = json!({"type": arg.kind});
        if let Json::Object(property) = &mut property {
            if !ARG_TYPES.contains(&arg.kind.as_str()) {
                property.remove("type");
            }
            if !arg.description.is_empty() {
                property.insert("description".to_owned(), arg.description.as_str().into());
            }
            if let Some(default) = &arg.default {
                property.insert("default".to_owned(), default.clone());
            }
        }
        property
    };
    let properties: JsonObject =
        spec.args.iter().map(|(name, arg)| (name.clone(), property(arg))).collect();
    let required: Vec<&str> = spec
        .args
        .iter()
        .filter(|(_, arg)| arg.required && arg.default.is_none())
        .map(|(name, _)| name.as_str())
        .collect();
    let mut schema = json!({"type": "object", "properties": properties});
    if let Json::Object(schema) = &mut schema
        && !required.is_empty()
    {
        schema.insert("required".to_owned(), required.into());
    }
    schema
}

/// The types that an argument may have.
pub const ARG_TYPES: [&str; 6] = ["string", "integer", "boolean", "number", "object", "array"];

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::{schema, with_defaults};
    use crate::{WorkflowSpec, definition::read};

    fn spec() -> WorkflowSpec {
        let args = json!({
            "s": {"type": "string", "required": true, "description": "a text"},
            "n": {"type": "number", "default": 4},
            "i": {"type": "integer"},
            "b": "boolean",
            "l": {"type": "array"},
            "r": {"type": "object", "required": true, "default": {}},
        });
        read(&json!({"args": args, "steps": []})).unwrap().spec
    }

    #[track_caller]
    fn check(given: Json, expect: &str) {
        let Json::Object(given) = given else { panic!("not an object") };
        let said = match with_defaults(&spec(), given) {
            Ok(filled) => Json::Object(filled).to_string(),
            Err(unfit) => unfit.to_string(),
        };
        assert_eq!(said, expect);
    }

    #[test]
    fn arguments_are_checked_and_filled() {
        check(json!({"s": "x"}), r#"{"s":"x","n":4,"r":{}}"#);
        check(json!({"s": "x", "n": 1.5, "more": [1]}), r#"{"s":"x","n":1.5,"more":[1],"r":{}}"#);
        check(
            json!({"s": "x", "i": "not one", "b": true}),
            r#"{"s":"x","i":"not one","b":true,"n":4,"r":{}}"#,
        );
        check(json!({}), "input validation failed: required field 's' is missing");
        let wrong = |name: &str, kind: &str| {
            format!("input validation failed: field '{name}' has wrong type, expected {kind}")
        };
        check(json!({"s": 1}), &wrong("s", "string"));
        check(json!({"s": null}), &wrong("s", "string"));
        check(json!({"s": "x", "n": "3"}), &wrong("n", "number"));
        check(json!({"s": "x", "b": "true"}), &wrong("b", "boolean"));
        check(json!({"s": "x", "l": {}}), &wrong("l", "array"));
        check(json!({"s": "x", "r": []}), &wrong("r", "object"));
    }

    #[test]
    fn the_schema_says_what_is_taken() {
        assert_eq!(
            schema(&spec()),
            json!({"type": "object", "required": ["s"], "properties": {
                "s": {"type": "string", "description": "a text"},
                "n": {"type": "number", "default": 4},
                "i": {"type": "integer"},
                "b": {"type": "boolean"},
                "l": {"type": "array"},
                "r": {"type": "object", "default": {}},
            }})
        );
    }
}
