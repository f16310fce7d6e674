//! The token budget of a reply.

use muster_core::token_estimate;

use super::arguments::MetaArguments;

/// The smallest budget that holds a reply.
pub(in crate::surface) const LEAST: usize = 300;

/// The largest budget. A longer reply would be held in memory as a whole, and no model reads it.
pub(in crate::surface) const MOST: usize = 1_000_000;

/// A number of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::surface) struct Budget(pub(in crate::surface) usize);

impl Budget {
    /// The budget that the caller set, or the default. The error is a message for the caller.
    pub(in crate::surface) fn of(
        given: &MetaArguments<'_>,
        default: usize,
    ) -> Result<Self, String> {
        Ok(Self(given.count("max_tokens", LEAST)?.unwrap_or(default).min(MOST)))
    }

    /// Whether a text fits.
    pub(in crate::surface) fn holds(self, text: &str) -> bool {
        !token_estimate::exceeds(text, self.0)
    }
}
