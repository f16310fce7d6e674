//! The tools that a client may find, in the order they are listed: core tools, then the others, each
//! by name. Made once for each state, and the index over it when someone first searches.

use std::sync::{Arc, OnceLock};

use muster_core::{
    catalog::Entry,
    rank::{Hit, Index},
};

use crate::dispatch::State;

/// The longest summary, in letters.
const LONGEST_SUMMARY: usize = 120;

/// The tools in order.
#[derive(Debug, Default)]
pub(super) struct Shelf {
    tools: Vec<Shown>,
    index: OnceLock<Index>,
}

/// A tool, with the words that describe it under the policy.
#[derive(Debug)]
pub(super) struct Shown {
    pub(super) entry: Arc<Entry>,
    /// What the policy says in place of the tool's own description.
    instead: Option<Arc<str>>,
    /// The description in small letters, made when someone first looks for a text in it.
    small: OnceLock<Box<str>>,
}

impl Shelf {
    /// What a state has to show.
    pub(super) fn of(state: &State) -> Self {
        let shown = |entry: &&Arc<Entry>| state.policy.shows(entry);
        let (mut tools, others): (Vec<Shown>, Vec<Shown>) = state
            .catalog
            .sorted()
            .filter(shown)
            .map(|entry| Shown::of(state, entry))
            .partition(|shown| shown.name().starts_with("core_"));
        tools.extend(others);
        Self { tools, index: OnceLock::new() }
    }

    /// The tools in order.
    pub(super) fn tools(&self) -> &[Shown] {
        &self.tools
    }

    /// The tool at a place.
    pub(super) fn at(&self, place: usize) -> Option<&Shown> {
        self.tools.get(place)
    }

    /// The places of the tools that a query is about.
    pub(super) fn search(&self, query: &str) -> Vec<Hit> {
        let index = || {
            let tools = self.tools.iter();
            Index::new(tools.map(|shown| (shown.name(), first_line(shown.description()))))
        };
        self.index.get_or_init(index).search(query)
    }
}

impl Shown {
    /// A tool under the policy of a state.
    pub(super) fn of(state: &State, entry: &Arc<Entry>) -> Self {
        let words = state.policy.description(entry);
        let instead = (*words != *entry.description).then(|| Arc::from(words));
        Self { entry: Arc::clone(entry), instead, small: OnceLock::new() }
    }

    /// The name that agents see.
    pub(super) fn name(&self) -> &str {
        self.entry.name.as_str()
    }

    /// What it does.
    pub(super) fn description(&self) -> &str {
        self.instead.as_deref().unwrap_or(&self.entry.description)
    }

    /// The same in small letters.
    pub(super) fn small_description(&self) -> &str {
        self.small.get_or_init(|| self.description().to_lowercase().into())
    }
}

/// The first line of a description, cut where it becomes long.
pub(super) fn summary(description: &str) -> String {
    let line = first_line(description);
    match line.char_indices().nth(LONGEST_SUMMARY) {
        Some((end, _)) => line.get(..end).unwrap_or_default().trim_end().to_owned() + "...",
        None => line.to_owned(),
    }
}

fn first_line(description: &str) -> &str {
    description.trim().lines().next().unwrap_or_default().trim()
}

#[cfg(test)]
mod tests {
    use super::summary;

    #[test]
    fn a_summary_is_one_short_line() {
        assert_eq!(summary("\n  Reads a file. \n\nMore."), "Reads a file.");
        assert_eq!(summary(""), "");
        assert_eq!(summary(&"ä".repeat(120)), "ä".repeat(120));
        assert_eq!(summary(&"ä".repeat(121)), "ä".repeat(120) + "...");
    }
}
