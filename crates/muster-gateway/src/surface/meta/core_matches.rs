//! The gateway's own tools among the matches of an operator's search.
//!
//! Their words (list, create, status) occur in almost every query, so other callers find them by name only.

use muster_core::catalog::ranked::{RankedTool, RankedTools};
use muster_search::verdict::{MatchStrength, SearchVerdict};

/// Adds the gateway's own tools if the search found them; a mere resemblance is not a match. Each is inserted among the
/// first `chunk` tools, behind those that match at least as well. Where the query has other words than theirs, they may
/// be meant at most, unless those words name a server.
pub(super) fn add<'a>(
    ranked: &mut RankedTools<'a>,
    core: RankedTools<'a>,
    chunk: usize,
    is_server: impl Fn(&str) -> bool,
) {
    if core.verdict != SearchVerdict::Found {
        return;
    }
    let is_whole = core.unmatched_terms.iter().all(|word| is_server(word));
    let limit = if is_whole { MatchStrength::Strong } else { MatchStrength::Possible };
    let best = |found: &[RankedTool<'_>]| found.iter().map(|one| one.score).fold(0.0, f32::max);
    // Scores of two searches cannot be compared, so both are scaled to the same best score.
    let (best_other, best_core) = (best(&ranked.found), best(&core.found));
    let scale = if best_other > 0.0 && best_core > 0.0 { best_other / best_core } else { 1.0 };
    let (mut place, mut end) = (0, ranked.found.len().min(chunk));
    for mut one in core.found {
        if !one.is_named {
            one.strength = one.strength.min(limit);
        }
        let others = ranked.found.get(place..end).unwrap_or_default();
        let strength = shown_strength(&one, best_core);
        let weaker = others.iter().position(|other| shown_strength(other, best_other) < strength);
        place = weaker.map_or(end, |weaker| place + weaker);
        ranked.found.insert(place, RankedTool { score: one.score * scale, ..one });
        (place, end) = (place + 1, end + 1);
    }
    if ranked.verdict != SearchVerdict::Found {
        ranked.verdict = if is_whole { SearchVerdict::Found } else { SearchVerdict::Unsure };
    }
    ranked.unmatched_terms.retain(|word| core.unmatched_terms.contains(word));
    ranked.absent_products.retain(|name| core.absent_products.contains(name));
    ranked.total += core.total;
}

/// The strength of a match that is shown beside the best one.
pub(super) fn shown_strength(found: &RankedTool<'_>, best: f32) -> MatchStrength {
    match found.is_named {
        true => found.strength,
        false => found.strength.beside_best(found.score, best),
    }
}
