//! JSON Schema 2020-12: compiled schemas, and the violations of values.
//!
//! A crate of its own because `jsonschema` is generic over its values: it is compiled again, a megabyte of code, into every
//! crate that uses it and is optimised for speed. None of it is exposed here.

use jsonschema::{PatternOptions, ValidationError, Validator, error::ValidationErrorKind};
use serde_json::Value;

/// Limits of the patterns of a schema.
#[derive(Debug, Clone, Copy)]
pub struct PatternLimits {
    /// How often a pattern may backtrack; a value for which it would have to do so more often violates it.
    pub backtracks: usize,
    /// The size of a compiled pattern, in bytes.
    pub size: usize,
}

/// A compiled schema.
#[derive(Debug)]
pub struct CompiledSchema(Validator);

impl CompiledSchema {
    /// Compiles a schema; `None` if it is invalid or refers to something outside of it.
    pub fn compile(schema: &Value, patterns: PatternLimits) -> Option<Self> {
        let patterns = PatternOptions::fancy_regex()
            .backtrack_limit(patterns.backtracks)
            .size_limit(patterns.size);
        let options = jsonschema::draft202012::options().with_pattern_options(patterns);
        options.build(schema).ok().map(Self)
    }

    /// Whether a value is valid.
    pub fn is_valid(&self, value: &Value) -> bool {
        self.0.is_valid(value)
    }

    /// The first violation of a value, for which its other parts are not evaluated.
    pub fn first_violation(&self, value: &Value) -> Option<Violation> {
        self.0.validate(value).err().map(|error| Violation::of(&error))
    }

    /// The violations of a value, at most `limit`. All of the value is evaluated.
    pub fn violations(&self, value: &Value, limit: usize) -> Vec<Violation> {
        self.0.iter_errors(value).take(limit).map(|error| Violation::of(&error)).collect()
    }
}

/// What is wrong with a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Where, as a JSON pointer: empty for the value itself.
    pub pointer: String,
    /// What, as a sentence that quotes the value.
    pub message: String,
    /// Which keyword it violates, where the fix is known.
    pub kind: ViolationKind,
}

/// A kind of violation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ViolationKind {
    /// A required property is missing.
    Missing(String),
    /// Properties that the schema does not allow.
    Unexpected(Vec<String>),
    /// The type of the value is another one.
    Type,
    /// Something else.
    Other,
}

impl Violation {
    fn of(error: &ValidationError<'_>) -> Self {
        let kind = match error.kind() {
            ValidationErrorKind::Required { property } => {
                ViolationKind::Missing(property.as_str().unwrap_or_default().to_owned())
            }
            ValidationErrorKind::AdditionalProperties { unexpected }
            | ValidationErrorKind::UnevaluatedProperties { unexpected } => {
                ViolationKind::Unexpected(unexpected.clone())
            }
            ValidationErrorKind::Type { .. } => ViolationKind::Type,
            _ => ViolationKind::Other,
        };
        Self { pointer: error.instance_path().to_string(), message: error.to_string(), kind }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{CompiledSchema, PatternLimits, ViolationKind};

    fn compile(schema: &Value) -> Option<CompiledSchema> {
        CompiledSchema::compile(schema, PatternLimits { backtracks: 10_000, size: 1 << 20 })
    }

    #[test]
    fn a_violation_has_a_place_a_sentence_and_a_kind() {
        let schema = json!({
            "properties": {
                "a": {"type": "string"},
                "b": {"properties": {"c": {}}, "required": ["c"], "additionalProperties": false},
                "f": {"maximum": 1},
            },
        });
        let schema = compile(&schema).unwrap();
        assert!(schema.is_valid(&json!({"a": "x"})));
        let value = json!({"a": 1, "b": {"d": 2, "e": 3}, "f": 2});
        let found = schema.violations(&value, 10);
        let expected = [
            ("/a", "1 is not of type \"string\"", ViolationKind::Type),
            (
                "/b",
                "Additional properties are not allowed ('d', 'e' were unexpected)",
                ViolationKind::Unexpected(vec!["d".to_owned(), "e".to_owned()]),
            ),
            ("/b", "\"c\" is a required property", ViolationKind::Missing("c".to_owned())),
            ("/f", "2 is greater than the maximum of 1", ViolationKind::Other),
        ];
        let found = found.iter().map(|one| (&*one.pointer, &*one.message, one.kind.clone()));
        assert_eq!(found.collect::<Vec<_>>(), expected);
        assert_eq!(schema.violations(&value, 2).len(), 2);
        assert_eq!(schema.first_violation(&value).unwrap().pointer, "/a");
    }

    #[test]
    fn schemas_that_refer_to_the_network_are_not_compiled() {
        assert!(compile(&json!({"$ref": "https://example.com/schema.json"})).is_none());
        assert!(compile(&json!({"type": 5})).is_none());
    }
}
