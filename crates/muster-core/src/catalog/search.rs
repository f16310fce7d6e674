//! CLImax's substring search: literal, in load order, filters combined with AND.

use std::sync::Arc;

use super::{BackendInfo, CatalogSnapshot, CatalogSource, ToolEntry};

/// A filter over tools. An absent criterion accepts everything.
#[derive(Debug, Clone, Default)]
pub struct ToolFilter {
    query: Option<String>,
    category: Option<String>,
    title: Option<String>,
}

impl ToolFilter {
    /// Creates a filter. Case is ignored, white space is significant.
    pub fn new(query: Option<&str>, category: Option<&str>, title: Option<&str>) -> Self {
        // An empty criterion accepts everything.
        let lower =
            |text: Option<&str>| text.filter(|text| !text.is_empty()).map(str::to_lowercase);
        Self { query: lower(query), category: lower(category), title: lower(title) }
    }

    /// Whether the tools of a source are candidates.
    pub fn matches_source(&self, source: &CatalogSource) -> bool {
        let same = |wanted: &Option<String>, got: Option<&str>| {
            wanted
                .as_ref()
                .is_none_or(|wanted| got.is_some_and(|got| got.to_lowercase() == *wanted))
        };
        same(&self.category, source.info.category.as_deref())
            && same(&self.title, Some(&source.info.title))
    }

    fn matches_text(&self, haystack: &str) -> bool {
        self.query.as_ref().is_none_or(|query| haystack.contains(query.as_str()))
    }
}

impl CatalogSnapshot {
    /// The tools that match `filter`, in load order.
    pub fn search<'a>(
        &'a self,
        filter: &ToolFilter,
    ) -> impl Iterator<Item = (&'a CatalogSource, &'a Arc<ToolEntry>)> {
        self.sources()
            .filter(|source| filter.matches_source(source))
            .flat_map(|source| {
                source.entries.iter().zip(&source.haystacks).map(move |pair| (source, pair))
            })
            .filter(|(_, (_, haystack))| filter.matches_text(haystack))
            .map(|(source, (entry, _))| (source, entry))
            .filter(|(_, entry)| self.is_callable(entry))
    }
}

/// The text that a query is matched against. Fields are joined by one space, so a query may span
/// two of them.
pub(super) fn haystack(info: &BackendInfo, entry: &ToolEntry) -> String {
    let mut text = format!("{} {} {}", entry.name, entry.description, info.title);
    let category = info.category.as_deref().filter(|category| !category.is_empty());
    for word in category.into_iter().chain(info.tags.iter().map(String::as_str)) {
        text.push(' ');
        text.push_str(word);
    }
    text.to_lowercase()
}

#[cfg(test)]
mod tests;
