//! Validation of arguments against JSON Schema, within limits of time and memory.

use std::{
    fmt,
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use muster_schema::{CompiledSchema, PatternLimits, Violation};
use serde_json::{Value, value::RawValue};

use crate::{
    arguments::{ArgumentProblem, InvalidArguments},
    schema::cost::CostModel,
};

/// The maximum number of problems reported.
const MAX_PROBLEMS: usize = 5;
/// The longest arguments, in bytes, whose every problem is collected.
const MAX_EXPLAINED: usize = 64 * 1024;
/// The longest problem, in bytes: it may quote the arguments.
const MAX_PROBLEM: usize = 4 * 1024;
/// The longest schema, in bytes.
const MAX_SCHEMA: usize = 1024 * 1024;
/// The length of a schema that takes a noticeable time to compile.
const SLOW_SCHEMA: usize = 64 * 1024;
/// The limits of patterns.
const PATTERNS: PatternLimits = PatternLimits { backtracks: 10_000, size: 4 * 1024 * 1024 };

/// Validates arguments against one schema, compiled at the first call. A schema that is invalid, too
/// complex, or refers to the network validates nothing, and the backend decides.
#[derive(Default)]
pub struct Validator {
    compiled: OnceLock<Option<BoundedSchema>>,
    /// Whether a validation was skipped.
    skipped: AtomicBool,
    /// Whether the skip was reported.
    reported: AtomicBool,
}

impl fmt::Debug for Validator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Validator").finish_non_exhaustive()
    }
}

impl Validator {
    /// A validator that accepts everything: the tool reports invalid arguments itself.
    pub fn unchecked() -> Self {
        Self { compiled: OnceLock::from(None), ..Self::default() }
    }

    /// Validates `arguments` against `schema`, which must be the same at every call.
    pub fn check(&self, schema: &RawValue, arguments: &RawValue) -> Result<(), InvalidArguments> {
        let compiled = self.compiled.get_or_init(|| {
            let compiled = BoundedSchema::parse(schema);
            self.skipped.store(compiled.is_none(), Ordering::Relaxed);
            compiled
        });
        let Some(validator) = compiled else { return Ok(()) };
        let length = arguments.get().len();
        let Ok(arguments) = serde_json::from_str(arguments.get()) else { return Ok(()) };
        match validator.is_valid(&arguments, length) {
            Some(true) => Ok(()),
            None => {
                self.skipped.store(true, Ordering::Relaxed);
                Ok(())
            }
            Some(false) => {
                let problems = validator.violations(&arguments, length, MAX_PROBLEMS);
                let problems = problems.into_iter().map(problem).collect();
                Err(InvalidArguments { problems, unknown: Vec::new() })
            }
        }
    }

    /// Whether a check may take long enough to delay others: the schema is long and not compiled
    /// yet, or both the schema and the arguments are long.
    pub fn is_slow(&self, schema: &RawValue, arguments: &RawValue) -> bool {
        match self.compiled.get() {
            None => schema.get().len() > SLOW_SCHEMA || arguments.get().len() > SLOW_SCHEMA,
            Some(None) => false,
            Some(Some(validator)) => !validator.cost.is_cheap(arguments.get().len()),
        }
    }

    /// Whether a check was skipped because it would be too complex. True only once, so that it is logged once.
    pub fn report_skipped(&self) -> bool {
        self.skipped.load(Ordering::Relaxed) && !self.reported.swap(true, Ordering::Relaxed)
    }
}

/// A compiled schema with the cost of validating against it.
pub(crate) struct BoundedSchema {
    schema: CompiledSchema,
    cost: CostModel,
}

impl BoundedSchema {
    fn parse(schema: &RawValue) -> Option<Self> {
        if schema.get().len() > MAX_SCHEMA {
            return None;
        }
        Self::compile(&serde_json::from_str(schema.get()).ok()?)
    }

    /// Compiles a schema; `None` if it is invalid or too complex.
    pub(crate) fn compile(schema: &Value) -> Option<Self> {
        let cost = CostModel::of(schema).ok()?;
        Some(Self { schema: CompiledSchema::compile(schema, PATTERNS)?, cost })
    }

    /// Whether arguments of a length are valid; `None` if that would cost too much.
    fn is_valid(&self, arguments: &Value, length: usize) -> Option<bool> {
        if !self.cost.is_cheap(length) {
            self.cost.of_value(arguments)?;
        }
        Some(self.schema.is_valid(arguments))
    }

    /// The violations of invalid arguments, at most `limit`; of long ones only the first.
    pub(crate) fn violations(
        &self,
        arguments: &Value,
        length: usize,
        limit: usize,
    ) -> Vec<Violation> {
        // Finding all of them repeats the evaluation of every branch that failed.
        const MAX_EXPLAINED_COST: u64 = 100_000;
        let cost = self.cost.of_value(arguments);
        if cost.is_some_and(|cost| cost <= MAX_EXPLAINED_COST) && length <= MAX_EXPLAINED {
            return self.schema.violations(arguments, limit);
        }
        match cost {
            Some(_) => self.schema.first_violation(arguments).into_iter().collect(),
            None => Vec::new(),
        }
    }
}

fn problem(violation: Violation) -> ArgumentProblem {
    let Violation { pointer: at, mut message, kind: _ } = violation;
    let location = if at.is_empty() { String::new() } else { format!(" (at `{at}`)") };
    if message.len() > MAX_PROBLEM {
        let end = (0..=MAX_PROBLEM).rev().find(|end| message.is_char_boundary(*end)).unwrap_or(0);
        message.truncate(end);
        message.push('…');
    }
    ArgumentProblem::Schema { message: message + &location }
}

#[cfg(test)]
mod tests {
    use serde_json::{json, value::RawValue};

    use super::Validator;
    use crate::json::{Raw, raw};

    fn check(schema: &serde_json::Value, arguments: &serde_json::Value) -> (bool, bool) {
        let (schema, arguments): (Raw, Raw) = (raw(schema), raw(arguments));
        let validator = Validator::default();
        let accepted = validator.check(&schema, &arguments).is_ok();
        (accepted, validator.report_skipped())
    }

    #[test]
    fn schemas_that_are_too_complex_are_not_checked() {
        let mut defs = serde_json::Map::new();
        defs.insert("d0".to_owned(), json!({"type": "string"}));
        for number in 1..40 {
            let before = json!({"$ref": format!("#/$defs/d{}", number - 1)});
            defs.insert(format!("d{number}"), json!({"anyOf": [before, before]}));
        }
        let bomb = json!({"properties": {"a": {"$ref": "#/$defs/d39"}}, "$defs": defs});
        assert_eq!(check(&bomb, &json!({"a": 5})), (true, true));
        assert_eq!(check(&json!({"$ref": "#"}), &json!({})), (true, true));
        let tree = json!({"properties": {"x": {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}}});
        let deep = (0..60).fold(json!(5), |inner, _| json!({"x": inner}));
        assert_eq!(check(&tree, &deep), (true, true));
    }

    #[test]
    fn ordinary_schemas_are_checked() {
        let schema = json!({
            "properties": {"kids": {"items": {"$ref": "#"}}, "name": {"pattern": "^[a-z]+$"}},
            "required": ["name"],
        });
        assert_eq!(check(&schema, &json!({"name": "a", "kids": [{"name": "b"}]})), (true, false));
        assert_eq!(check(&schema, &json!({"name": "a", "kids": [{"name": "B"}]})), (false, false));
        let list: Vec<_> = (0..1000).map(|_| json!({"name": "b"})).collect();
        assert_eq!(check(&schema, &json!({"name": "a", "kids": list})), (true, false));
    }

    #[test]
    fn patterns_that_backtrack_without_end_refuse_the_value() {
        let schema = json!({"properties": {"a": {"pattern": r"^(a|a)*\1b$"}}});
        assert_eq!(check(&schema, &json!({"a": "a".repeat(40)})), (false, false));
    }

    #[test]
    fn problems_are_few_and_short() {
        let schema = raw(&json!({"items": {"type": "string"}}));
        let items: Vec<u32> = (0..100_000).collect();
        let arguments: Raw = raw(&items);
        let invalid = Validator::default().check(&schema, &arguments).unwrap_err();
        assert_eq!(invalid.problems.len(), 1);
        let schema =
            RawValue::from_string(r#"{"items":{"type":"number"},"maxItems":1}"#.to_owned());
        let long = raw(&json!(["x".repeat(60_000), 1]));
        let invalid = Validator::default().check(&schema.unwrap(), &long).unwrap_err();
        assert_eq!(invalid.problems.len(), 2);
        assert!(invalid.problems.iter().all(|problem| problem.to_string().len() < 5000));
    }
}
