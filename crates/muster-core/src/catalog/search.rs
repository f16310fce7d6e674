//! The substring search of CLImax: literal, in load order, filters combined with AND.

use std::sync::Arc;

use super::{About, Entry, Snapshot, Source};

/// What to look for. An absent filter lets everything through.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    query: Option<String>,
    category: Option<String>,
    title: Option<String>,
}

impl Filter {
    /// A filter from what a caller gave. Case does not matter; blanks do.
    pub fn new(query: Option<&str>, category: Option<&str>, title: Option<&str>) -> Self {
        // An empty filter is one that was given, but it keeps nothing back.
        let lower =
            |text: Option<&str>| text.filter(|text| !text.is_empty()).map(str::to_lowercase);
        Self { query: lower(query), category: lower(category), title: lower(title) }
    }

    /// Whether the tools of a source may pass.
    pub fn takes_source(&self, source: &Source) -> bool {
        let same = |wanted: &Option<String>, got: Option<&str>| {
            wanted
                .as_ref()
                .is_none_or(|wanted| got.is_some_and(|got| got.to_lowercase() == *wanted))
        };
        same(&self.category, source.about.category.as_deref())
            && same(&self.title, Some(&source.about.title))
    }

    fn takes_text(&self, haystack: &str) -> bool {
        self.query.as_ref().is_none_or(|query| haystack.contains(query.as_str()))
    }
}

impl Snapshot {
    /// The tools that pass `filter`, in load order.
    pub fn search<'a>(
        &'a self,
        filter: &Filter,
    ) -> impl Iterator<Item = (&'a Source, &'a Arc<Entry>)> {
        self.sources()
            .filter(|source| filter.takes_source(source))
            .flat_map(|source| {
                source.entries.iter().zip(&source.haystacks).map(move |pair| (source, pair))
            })
            .filter(|(_, (_, haystack))| filter.takes_text(haystack))
            .map(|(source, (entry, _))| (source, entry))
            .filter(|(_, entry)| self.survives(entry))
    }
}

/// The text in which a query is looked for. Fields are joined by one blank, so a query may span two
/// neighbours.
pub(super) fn haystack(about: &About, entry: &Entry) -> String {
    let mut text = format!("{} {} {}", entry.name, entry.description, about.title);
    let category = about.category.as_deref().filter(|category| !category.is_empty());
    for word in category.into_iter().chain(about.tags.iter().map(String::as_str)) {
        text.push(' ');
        text.push_str(word);
    }
    text.to_lowercase()
}

#[cfg(test)]
mod tests;
