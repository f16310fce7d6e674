//! A piece of a list, bounded in number and in bytes.

use muster_core::json::Raw;

use super::given::Given;

/// The most bytes of all items of a page. With what stands around them, an answer stays below 64 KiB.
const MOST_BYTES: usize = 56 * 1024;
/// The most bytes of the caller's own words that are repeated in an answer.
const MOST_ECHO: usize = 200;

/// Where a page begins and how many items it may have.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) offset: usize,
    pub(super) limit: usize,
}

impl Bounds {
    /// As asked for, or what is said if that makes no sense.
    pub(super) fn of(given: &Given<'_>, default: usize) -> Result<Self, String> {
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
    /// Takes items until one of the bounds is reached. An item that is too long for any page is
    /// written `short`, and left out if even that is too long.
    pub(super) fn of<T>(
        items: &[T],
        bounds: Bounds,
        full: impl Fn(&T) -> Raw,
        short: impl Fn(&T) -> Raw,
    ) -> Self {
        let Bounds { offset, limit } = bounds;
        let mut page = Self { items: Vec::new(), total: items.len(), next: None };
        let mut bytes = 0;
        for (at, item) in items.iter().enumerate().skip(offset) {
            if page.items.len() == limit {
                page.next = Some(at);
                break;
            }
            let fitting = Some(full(item)).filter(|item| item.get().len() <= MOST_BYTES);
            let item = fitting.unwrap_or_else(|| short(item));
            if item.get().len() > MOST_BYTES {
                continue;
            }
            bytes += item.get().len();
            if bytes > MOST_BYTES {
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
    let end = (0..=MOST_ECHO.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    end.and_then(|end| text.get(..end)).unwrap_or_default()
}
