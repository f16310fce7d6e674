//! Pages of resources and prompts, sorted by name without duplicates.
//!
//! The list is a plain array, so remarks about a page follow it as a separate text.

use std::collections::BTreeMap;

use muster_core::{
    call::Outcome,
    catalog::CatalogItem,
    json::{Raw, RawObject, raw},
};

use super::{
    arguments::MetaArguments,
    budget::Budget,
    envelope::Text,
    page::{Bounds, Page},
    tool_index::summary,
};

const DEFAULT_LIMIT: usize = 100;

/// Sorts items by name. Of duplicates, the first one is kept.
pub(super) fn by_name<'a>(listed: impl Iterator<Item = &'a CatalogItem>) -> Vec<&'a CatalogItem> {
    let mut names: BTreeMap<&str, &CatalogItem> = BTreeMap::new();
    for one in listed {
        names.entry(&one.name).or_insert(one);
    }
    names.into_values().collect()
}

/// A page of a list, written with `item`; `empty` if there are no items.
pub(super) fn answer<T>(
    (given, budget): (&MetaArguments<'_>, Budget),
    listed: &[T],
    (what, empty): (&str, &str),
    item: impl Fn(&T) -> Raw,
) -> Outcome {
    if listed.is_empty() {
        return Outcome::text(empty);
    }
    let bounds = match Bounds::of(given, DEFAULT_LIMIT) {
        Ok(bounds) => bounds,
        Err(problem) => return Outcome::failure(problem),
    };
    let rest = listed.iter().skip(bounds.offset);
    let page = Page::of(rest, listed.len(), bounds, budget, |one| item(one), |one| item(one));
    let text = raw(&page.items);
    let Some(note) = page.note(what, "") else { return Outcome::text(text.get()) };
    let mut result = RawObject::new();
    result.set_value("content", &[Text::of(text.get()), Text::of(&note)]);
    result.set_value("isError", &false);
    Outcome::Raw(result.to_raw())
}

/// The first line of the description, or the name.
pub(super) fn described(definition: &RawObject<'_>) -> String {
    let text = |key| definition.get_text(key).filter(|text| !text.trim().is_empty());
    summary(&text("description").or_else(|| text("name")).unwrap_or_default())
}
