//! The arguments of a meta-tool. An argument of the wrong type counts as missing; only required ones are
//! errors.

use muster_core::json::RawObject;
use serde_json::value::RawValue;

use super::unknown_arguments::NAME_KEYS;

/// The arguments of one call.
pub(in crate::surface) struct MetaArguments<'a> {
    members: RawObject<'a>,
}

impl<'a> MetaArguments<'a> {
    /// Reads the arguments.
    pub(in crate::surface) fn read(arguments: &'a RawValue) -> Self {
        Self { members: RawObject::parse(arguments).unwrap_or_default() }
    }

    /// All of them, as they were written.
    pub(super) fn into_members(self) -> RawObject<'a> {
        self.members
    }

    /// A text that is not empty.
    pub(in crate::surface) fn text(&self, key: &str) -> Option<String> {
        self.members.get_text(key).filter(|text| !text.is_empty())
    }

    /// A text, or the error if it is anything else.
    pub(in crate::surface) fn text_only(&self, key: &str) -> Result<Option<String>, String> {
        let text = self.text(key);
        let is_text = |value: &RawValue| value.get().starts_with('"');
        match self.has(key) && !self.members.get(key).is_some_and(is_text) {
            true => Err(format!("{key} must be text")),
            false => Ok(text),
        }
    }

    /// A list of texts; a single text is a list of one.
    pub(super) fn texts(&self, key: &str) -> Vec<String> {
        let list = || serde_json::from_str(self.members.get(key)?.get()).ok();
        list().unwrap_or_else(|| self.text(key).into_iter().collect())
    }

    /// A required text, or the error.
    pub(super) fn required(&self, key: &str) -> Result<String, String> {
        self.text(key).ok_or_else(|| format!("{key} argument is required"))
    }

    /// The name of a tool, also under the keys that agents confuse it with.
    pub(super) fn tool(&self) -> Result<String, String> {
        let other = || NAME_KEYS.into_iter().find_map(|key| self.text(key));
        self.required("name").or_else(|missing| other().ok_or(missing))
    }

    /// A boolean, also as text, or the error if it is anything else.
    pub(super) fn flag_only(&self, key: &str) -> Result<bool, String> {
        match self.flag(key) {
            None if self.has(key) => Err(format!("{key} must be true or false")),
            flag => Ok(flag.unwrap_or(false)),
        }
    }

    /// A boolean, also as text.
    pub(super) fn flag(&self, key: &str) -> Option<bool> {
        match self.members.get(key)?.get() {
            "true" | r#""true""# => Some(true),
            "false" | r#""false""# => Some(false),
            _ => None,
        }
    }

    /// A number of at least `least`, or the error.
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

    /// Whether an argument is given. `null` counts as missing.
    pub(super) fn has(&self, key: &str) -> bool {
        self.members.get(key).is_some_and(|value| value.get() != "null")
    }

    /// An argument as it was written.
    pub(in crate::surface) fn raw(&self, key: &str) -> Option<&RawValue> {
        self.members.get(key)
    }
}
