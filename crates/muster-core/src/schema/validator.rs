//! Arguments held against a JSON Schema, before anything is sent.

use std::{fmt, sync::OnceLock};

use serde_json::value::RawValue;

use crate::arguments::{ArgumentProblem, InvalidArguments};

/// At most this many problems are told; the rest would only repeat them.
const MOST_TOLD: usize = 5;

/// Checks arguments against one schema. The schema is compiled at the first call and never fetched
/// from anywhere: one that refers to the network, or that is broken, checks nothing, and the backend
/// has its say.
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
    /// One that checks nothing: the tool words what is wrong with its arguments itself.
    pub fn unchecked() -> Self {
        Self { compiled: OnceLock::from(None) }
    }

    /// Holds `arguments` against `schema`, which must be the same at every call.
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
        let problems = validator.iter_errors(&arguments).take(MOST_TOLD).map(|error| {
            let at = error.instance_path().to_string();
            let place = if at.is_empty() { String::new() } else { format!(" (at `{at}`)") };
            ArgumentProblem::Schema { message: format!("{error}{place}") }
        });
        Err(InvalidArguments { problems: problems.collect(), unknown: Vec::new() })
    }
}
