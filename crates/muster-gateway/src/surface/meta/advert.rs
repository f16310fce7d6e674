//! The line in the description of `filter_tools` that names the servers and CLIs behind it.
//!
//! **Invariant:** it depends on what is configured, not on what is connected, so that it does not change
//! when a server comes or goes.

use muster_core::catalog::CatalogSource;

use crate::dispatch::{CORE_BACKEND, GatewaySnapshot};

/// The longest line, in bytes.
const LONGEST: usize = 150;
/// The longest description of one source, in characters.
const MAX_WORDS: usize = 40;

/// ` Behind it: files (Local files), github (Issues), and 3 more.` Bundled CLIs come last, and descriptions
/// only if there is room for all.
pub(super) fn line(state: &GatewaySnapshot) -> String {
    let sources = state.catalog.sources().filter(|one| one.backend.as_str() != CORE_BACKEND);
    let mut sources: Vec<&CatalogSource> = sources.collect();
    sources.sort_by(|a, b| (a.is_bundled, &a.info.title).cmp(&(b.is_bundled, &b.info.title)));
    let line = |names: &[String], more: usize| match (names.join(", "), more) {
        (names, _) if names.is_empty() => String::new(),
        (names, 0) => format!(" Behind it: {names}."),
        (names, more) => format!(" Behind it: {names}, and {more} more."),
    };
    let whole = line(&sources.iter().map(|source| said(source)).collect::<Vec<_>>(), 0);
    if whole.len() <= LONGEST {
        return whole;
    }
    let mut names: Vec<String> = sources.iter().map(|source| title(source)).collect();
    while line(&names, sources.len() - names.len()).len() > LONGEST {
        names.pop();
    }
    line(&names, sources.len() - names.len())
}

fn title(source: &CatalogSource) -> String {
    source.info.title.chars().take(MAX_WORDS).collect()
}

fn said(source: &CatalogSource) -> String {
    let title = title(source);
    let words = source.info.description.trim();
    let words = words.split(['\n', '.', ';', '(']).next().unwrap_or_default().trim();
    match words.char_indices().nth(MAX_WORDS) {
        _ if words.is_empty() => title,
        Some((end, _)) => {
            let cut = words.get(..end).unwrap_or_default();
            let cut = cut.rsplit_once(' ').map_or(cut, |(before, _)| before);
            format!("{title} ({cut}…)")
        }
        None => format!("{title} ({words})"),
    }
}
