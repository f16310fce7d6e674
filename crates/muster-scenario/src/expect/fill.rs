//! Results of earlier steps inside what a step expects.

use serde_json::{Map, Value};

use crate::{
    goform,
    scenario::Expected,
    template::{self, Unrendered},
};

impl Expected {
    /// The same, with `{{ step-id.field }}` replaced wherever a text is expected.
    pub(crate) fn filled(&self, variables: &Map<String, Value>) -> Result<Self, Unrendered> {
        let text = |text: &String| {
            let value = template::expectation(&Value::String(text.clone()), variables)?;
            Ok(match value {
                Value::String(text) => text,
                other => goform::default(&other),
            })
        };
        let texts = |list: &[String]| list.iter().map(text).collect::<Result<Vec<_>, _>>();
        let mut filled = self.clone();
        filled.error_contains = texts(&self.error_contains)?;
        filled.contains = texts(&self.contains)?;
        filled.not_contains = texts(&self.not_contains)?;
        for (_, wanted) in &mut filled.json_path {
            *wanted = template::expectation(wanted, variables)?;
        }
        for notification in &mut filled.notifications {
            notification.contains = texts(&notification.contains)?;
        }
        Ok(filled)
    }
}
