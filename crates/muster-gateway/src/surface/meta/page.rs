//! Pagination: a page of a list, bounded in number and token cost.

use muster_core::{json::Raw, token_estimate};

use super::{arguments::MetaArguments, budget::Budget};

/// The longest quotation of a caller, in bytes.
const MOST_ECHO: usize = 200;
/// The cost of everything around the items, quotations aside.
const AROUND: usize = 110;

/// The offset and the size of a page.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) offset: usize,
    pub(super) limit: usize,
}

impl Bounds {
    /// The page that the caller requests. The error is a message for the caller.
    pub(super) fn of(given: &MetaArguments<'_>, default: usize) -> Result<Self, String> {
        let limit = given.count("limit", 1)?.unwrap_or(default);
        let offset = given.count("offset", 0)?.unwrap_or(0);
        Ok(Self { offset, limit })
    }
}

/// A page.
#[derive(Debug)]
pub(super) struct Page {
    /// The items as JSON.
    pub(super) items: Vec<Raw>,
    /// The number of items on all pages.
    pub(super) total: usize,
    /// The offset of the next page, if there is one.
    pub(super) next: Option<usize>,
    /// Whether the budget ended the page before the limit did.
    pub(super) is_cut: bool,
}

impl Page {
    /// Takes items until a bound is reached. `items` start at the page's offset, and there are `total` on all
    /// pages. An item that is too long for any page is written `short`, and skipped if even that is too long.
    pub(super) fn of<T>(
        items: impl Iterator<Item = T>,
        total: usize,
        bounds: Bounds,
        budget: Budget,
        full: impl Fn(&T) -> Raw,
        short: impl Fn(&T) -> Raw,
    ) -> Self {
        let Bounds { offset, limit } = bounds;
        let room = budget.0.saturating_sub(AROUND);
        let mut page = Self { items: Vec::new(), total, next: None, is_cut: false };
        let mut cost = 0;
        for (at, item) in (offset..).zip(items) {
            if page.items.len() == limit {
                page.next = Some(at);
                break;
            }
            let fitting =
                Some(full(&item)).filter(|item| !token_estimate::exceeds(item.get(), room));
            let item = fitting.unwrap_or_else(|| short(&item));
            if token_estimate::exceeds(item.get(), room) {
                continue;
            }
            // Items are separated by a comma.
            cost += token_estimate::estimate(item.get()) + 1;
            if cost > room {
                page.next = Some(at);
                page.is_cut = true;
                break;
            }
            page.items.push(item);
        }
        page
    }

    /// How to get the next page, if there is one.
    pub(super) fn note(&self, what: &str, narrower: &str) -> Option<String> {
        let next = self.next?;
        let (shown, total) = (self.items.len(), self.total);
        let cut = if self.is_cut { " (as many as max_tokens allows)" } else { "" };
        Some(format!(
            "{shown} of {total} {what}{cut}; for the next ones pass offset={next}{narrower}"
        ))
    }
}

/// A quotation of the caller, cut to the limit.
pub(super) fn echo(text: &str) -> &str {
    shortened(text, MOST_ECHO)
}

/// A quotation of the caller, cut to at most `most` bytes.
pub(super) fn shortened(text: &str, most: usize) -> &str {
    let most = most.min(MOST_ECHO).min(text.len());
    let end = (0..=most).rev().find(|at| text.is_char_boundary(*at));
    end.and_then(|end| text.get(..end)).unwrap_or_default()
}
