//! The token budget of a reply.

use std::borrow::Cow;

use muster_core::{json::raw, token_estimate};

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

    /// As much of a text as fits in a JSON string, with an ellipsis if that is not all.
    pub(super) fn cut(self, text: &str) -> Cow<'_, str> {
        let fits = |text: &str| self.holds(raw(text).get());
        if self.holds(text) && fits(text) {
            return Cow::Borrowed(text);
        }
        let mut room = self.0;
        loop {
            let cut = format!("{}…", token_estimate::prefix(text, room));
            if room == 0 || fits(&cut) {
                return Cow::Owned(cut);
            }
            // Escapes make it longer.
            room -= room.div_ceil(8);
        }
    }

    /// Whether a text fits.
    pub(in crate::surface) fn holds(self, text: &str) -> bool {
        !token_estimate::exceeds(text, self.0)
    }
}

#[cfg(test)]
mod tests {
    use muster_core::{json::raw, token_estimate};

    use super::Budget;

    #[test]
    fn a_text_is_cut_to_what_fits_with_its_escapes() {
        let budget = Budget(100);
        assert_eq!(budget.cut("a short text"), "a short text");
        for unit in ["word ", "\"\\\n", "\u{1}", "\u{e9}\u{6f22}"] {
            let cut = budget.cut(&unit.repeat(1_000)).into_owned();
            let cost = token_estimate::estimate(raw(&*cut).get());
            assert!(cut.ends_with('\u{2026}') && (70..=100).contains(&cost), "{cost}: {cut}");
        }
    }
}
