//! A piece of a list, bounded in number and in what it costs.

use muster_core::{json::Raw, token_estimate};

use super::{arguments::MetaArguments, budget::Budget};

/// The most bytes of the caller's own words that are repeated in an answer.
const MOST_ECHO: usize = 200;
/// What stands around the items costs no more than this, beside what is repeated of the caller's words.
const AROUND: usize = 110;

/// Where a page begins and how many items it may have.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) offset: usize,
    pub(super) limit: usize,
}

impl Bounds {
    /// As asked for, or what is said if that makes no sense.
    pub(super) fn of(given: &MetaArguments<'_>, default: usize) -> Result<Self, String> {
        let limit = given.count("limit", 1)?.unwrap_or(default);
        let offset = given.count("offset", 0)?.unwrap_or(0);
        Ok(Self { offset, limit })
    }
}

/// A page.
#[derive(Debug)]
pub(super) struct Page {
    /// The items, written.
    pub(super) items: Vec<Raw>,
    /// How many items there are on all pages.
    pub(super) total: usize,
    /// Where the next page begins, if there is one.
    pub(super) next: Option<usize>,
}

impl Page {
    /// Takes items until one of the bounds is reached. `items` begin with the first of the page, and
    /// there are `total` on all pages. An item that is too long for any page is written `short`, and
    /// left out if even that is too long.
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
        let mut page = Self { items: Vec::new(), total, next: None };
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
            // A comma stands between two.
            cost += token_estimate::estimate(item.get()) + 1;
            if cost > room {
                page.next = Some(at);
                break;
            }
            page.items.push(item);
        }
        page
    }

    /// How to get the rest, if there is one.
    pub(super) fn note(&self, what: &str, narrower: &str) -> Option<String> {
        let next = self.next?;
        let (shown, total) = (self.items.len(), self.total);
        Some(format!("{shown} of {total} {what}; for the next ones pass offset={next}{narrower}"))
    }
}

/// The beginning of what a caller said.
pub(super) fn echo(text: &str) -> &str {
    shortened(text, MOST_ECHO)
}

/// The same, of at most so many bytes.
pub(super) fn shortened(text: &str, most: usize) -> &str {
    let most = most.min(MOST_ECHO).min(text.len());
    let end = (0..=most).rev().find(|at| text.is_char_boundary(*at));
    end.and_then(|end| text.get(..end)).unwrap_or_default()
}
