//! How many tokens an answer may cost.

use muster_core::token_estimate;

use super::arguments::MetaArguments;

/// Fewer than this hold no answer.
pub(in crate::surface) const LEAST: usize = 300;

/// What an answer may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::surface) struct Budget(pub(in crate::surface) usize);

impl Budget {
    /// As asked for, or what is said if that makes no sense.
    pub(in crate::surface) fn of(
        given: &MetaArguments<'_>,
        default: usize,
    ) -> Result<Self, String> {
        Ok(Self(given.count("max_tokens", LEAST)?.unwrap_or(default)))
    }

    /// Whether a text is within it.
    pub(in crate::surface) fn holds(self, text: &str) -> bool {
        !token_estimate::exceeds(text, self.0)
    }
}
