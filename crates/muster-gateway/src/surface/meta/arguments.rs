//! The arguments of a meta-tool. What is not there, or makes no sense, counts as not given; only what
//! a tool cannot do without is insisted on.

use muster_core::json::RawObject;
use serde_json::value::RawValue;

/// What was given.
pub(in crate::surface) struct MetaArguments<'a> {
    members: RawObject<'a>,
}

impl<'a> MetaArguments<'a> {
    /// Reads the arguments.
    pub(in crate::surface) fn read(arguments: &'a RawValue) -> Self {
        Self { members: RawObject::parse(arguments).unwrap_or_default() }
    }

    /// A text that is not empty.
    pub(in crate::surface) fn text(&self, key: &str) -> Option<String> {
        self.members.get_text(key).filter(|text| !text.is_empty())
    }

    /// Texts in a list; one by itself is a list of one.
    pub(super) fn texts(&self, key: &str) -> Vec<String> {
        let list = || serde_json::from_str(self.members.get(key)?.get()).ok();
        list().unwrap_or_else(|| self.text(key).into_iter().collect())
    }

    /// A text that a tool cannot do without, or what is said if it is missing.
    pub(super) fn required(&self, key: &str) -> Result<String, String> {
        self.text(key).ok_or_else(|| format!("{key} argument is required"))
    }

    /// The name of a tool, which agents also give under other names.
    pub(super) fn tool(&self) -> Result<String, String> {
        let others = ["tool_name", "toolName", "tool"];
        let other = || others.into_iter().find_map(|key| self.text(key));
        self.required("name").or_else(|missing| other().ok_or(missing))
    }

    /// A yes or no, as such or in words.
    pub(super) fn flag(&self, key: &str) -> Option<bool> {
        match self.members.get(key)?.get() {
            "true" | r#""true""# => Some(true),
            "false" | r#""false""# => Some(false),
            _ => None,
        }
    }

    /// A number that is at least `least`, or what is said if it is not.
    pub(super) fn count(&self, key: &str, least: usize) -> Result<Option<usize>, String> {
        let given = self.members.get(key).map(RawValue::get).filter(|text| *text != "null");
        let Some(given) = given else { return Ok(None) };
        let digits = given.trim_matches('"');
        let number: f64 =
            serde_json::from_str(digits).map_err(|_| format!("{key} must be a number"))?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "saturates, which is what a count wants"
        )]
        let count = number as usize;
        if number < 0.0 || count < least {
            return Err(format!("{key} must be at least {least}"));
        }
        Ok(Some(count))
    }

    /// An argument as it was written.
    pub(in crate::surface) fn raw(&self, key: &str) -> Option<&RawValue> {
        self.members.get(key)
    }
}
