//! The line in the description of `filter_tools` that names the servers and CLIs behind it.
//!
//! **Invariant:** it depends on what is configured, not on what is connected, so that it does not change
//! when a server comes or goes.

use muster_core::catalog::CatalogSource;

use crate::dispatch::GatewaySnapshot;

/// The longest line, in characters.
const LONGEST: usize = 320;
/// The longest description of one source, in characters.
const MAX_WORDS: usize = 40;

/// ` Behind it: files (Local files), github (Issues), and 3 more.`
pub(super) fn line(state: &GatewaySnapshot) -> String {
    let mut sources: Vec<&CatalogSource> = state.catalog.sources().collect();
    sources.sort_by(|a, b| a.info.title.cmp(&b.info.title));
    let mut line = String::new();
    for (at, source) in sources.iter().enumerate() {
        let said = said(source);
        if line.chars().count() + said.chars().count() > LONGEST {
            let more = sources.len() - at;
            return format!(" Behind it: {line}, and {more} more.");
        }
        if at > 0 {
            line.push_str(", ");
        }
        line.push_str(&said);
    }
    if line.is_empty() { line } else { format!(" Behind it: {line}.") }
}

fn said(source: &CatalogSource) -> String {
    let title: String = source.info.title.chars().take(MAX_WORDS).collect();
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
