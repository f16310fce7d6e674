//! Resolves results of earlier steps in the expectations of a step.

use muster_template::simple::SubstitutionError;
use serde_json::{Map, Value};

use crate::{go_format, scenario::Expected, template};

impl Expected {
    /// Replaces `{{ step-id.field }}` in every expected text.
    pub(crate) fn resolved(
        &self,
        variables: &Map<String, Value>,
    ) -> Result<Self, SubstitutionError> {
        let text = |text: &String| {
            let value = template::expectation(&Value::String(text.clone()), variables)?;
            Ok(match value {
                Value::String(text) => text,
                other => go_format::display(&other),
            })
        };
        let texts = |list: &[String]| list.iter().map(text).collect::<Result<Vec<_>, _>>();
        let mut resolved = self.clone();
        resolved.error_contains = texts(&self.error_contains)?;
        resolved.contains = texts(&self.contains)?;
        resolved.not_contains = texts(&self.not_contains)?;
        for (_, wanted) in &mut resolved.json_path {
            *wanted = template::expectation(wanted, variables)?;
        }
        for notification in &mut resolved.notifications {
            notification.contains = texts(&notification.contains)?;
        }
        Ok(resolved)
    }
}
