//! Validation of arguments against JSON Schema.

use std::{fmt, sync::OnceLock};

use serde_json::value::RawValue;

use crate::arguments::{ArgumentProblem, InvalidArguments};

/// The maximum number of problems reported.
const MAX_PROBLEMS: usize = 5;

/// Validates arguments against one schema, compiled at the first call. A schema that is invalid or
/// refers to the network validates nothing, and the backend decides.
#[derive(Default)]
pub struct Validator {
    compiled: OnceLock<Option<jsonschema::Validator>>,
}

impl fmt::Debug for Validator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Validator").finish_non_exhaustive()
    }
}

impl Validator {
    /// A validator that accepts everything: the tool reports invalid arguments itself.
    pub fn unchecked() -> Self {
        Self { compiled: OnceLock::from(None) }
    }

    /// Validates `arguments` against `schema`, which must be the same at every call.
    pub fn check(&self, schema: &RawValue, arguments: &RawValue) -> Result<(), InvalidArguments> {
        let compiled = self.compiled.get_or_init(|| {
            let schema = serde_json::from_str(schema.get()).ok()?;
            jsonschema::draft202012::new(&schema).ok()
        });
        let Some(validator) = compiled else { return Ok(()) };
        let Ok(arguments) = serde_json::from_str(arguments.get()) else { return Ok(()) };
        if validator.is_valid(&arguments) {
            return Ok(());
        }
        let problems = validator.iter_errors(&arguments).take(MAX_PROBLEMS).map(|error| {
            let at = error.instance_path().to_string();
            let location = if at.is_empty() { String::new() } else { format!(" (at `{at}`)") };
            ArgumentProblem::Schema { message: format!("{error}{location}") }
        });
        Err(InvalidArguments { problems: problems.collect(), unknown: Vec::new() })
    }
}
