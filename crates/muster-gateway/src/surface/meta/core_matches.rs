//! The gateway's own tools among the matches of an operator's search.
//!
//! Their words (list, create, status) occur in almost every query, so other callers find them by name only. To an operator
//! they are matches if the query is about the gateway, and weak ones otherwise: "create a calendar event" asks for a
//! calendar, not for the events of the gateway.

use std::collections::BTreeSet;

use muster_core::catalog::ranked::{RankedTool, RankedTools};
use muster_search::{
    field::DocumentField,
    query::How,
    search::Match,
    verdict::{MatchStrength, SearchVerdict},
};

/// Words that ask to look at something, whatever it is.
const LOOKING: [&str; 8] = ["list", "show", "get", "see", "view", "find", "search", "display"];
/// Words for what the gateway is about, besides the nouns in the names of its tools.
const SUBJECTS: [&str; 3] = ["gateway", "mcp", "server"];
/// The verbs in the names of its tools that the tools of servers have as well.
const VERBS: [&str; 12] = [
    "check", "create", "delete", "draft", "end", "get", "import", "list", "revoke", "save",
    "update", "validate",
];
/// The verbs in the names of its tools that ask for the gateway where the query names a server.
const OF_SERVERS: [&str; 6] = ["approve", "reload", "restart", "start", "status", "stop"];

/// Adds the gateway's own tools if the search found them; a mere resemblance is not a match. Each is inserted among the
/// first `chunk` tools, behind those that match at least as well.
pub(super) fn add<'a>(
    ranked: &mut RankedTools<'a>,
    core: RankedTools<'a>,
    chunk: usize,
    is_server: impl Fn(&str) -> bool,
) {
    if core.verdict != SearchVerdict::Found {
        return;
    }
    let asked = Asked::of(&core, is_server);
    let best = |found: &[RankedTool<'_>]| found.iter().map(|one| one.score).fold(0.0, f32::max);
    // Scores of two searches cannot be compared, so both are scaled to the same best score.
    let (best_other, best_core) = (best(&ranked.found), best(&core.found));
    let scale = if best_other > 0.0 && best_core > 0.0 { best_other / best_core } else { 1.0 };
    let (mut place, mut end) = (0, ranked.found.len().min(chunk));
    let (meant, mut others): (Vec<RankedTool<'_>>, Vec<RankedTool<'_>>) =
        core.found.into_iter().partition(|one| one.is_named || asked.is_about(one));
    others.iter_mut().for_each(|one| one.strength = MatchStrength::Weak);
    let is_any_meant = !meant.is_empty();
    for one in meant.into_iter().chain(others) {
        let others = ranked.found.get(place..end).unwrap_or_default();
        let strength = shown_strength(&one, best_core);
        let weaker = others.iter().position(|other| shown_strength(other, best_other) < strength);
        place = weaker.map_or(end, |weaker| place + weaker);
        ranked.found.insert(place, RankedTool { score: one.score * scale, ..one });
        (place, end) = (place + 1, end + 1);
    }
    ranked.total += core.total;
    if is_any_meant {
        ranked.verdict = SearchVerdict::Found;
        ranked.unmatched_terms.retain(|word| core.unmatched_terms.contains(word));
        ranked.absent_products.retain(|name| core.absent_products.contains(name));
    }
}

/// The words that a query asks for.
struct Asked {
    /// Those that a core tool has to have.
    wanted: BTreeSet<String>,
    /// Whether a word names a server.
    names_server: bool,
}

impl Asked {
    /// The words of a search for core tools: those that one has, and those that none has.
    fn of(core: &RankedTools<'_>, is_server: impl Fn(&str) -> bool) -> Self {
        let found = core.found.iter().flat_map(|one| &one.matches).map(|one| &one.word);
        let words: BTreeSet<&String> = found.chain(&core.unmatched_terms).collect();
        let (servers, others): (Vec<&String>, Vec<&String>) =
            words.into_iter().partition(|word| is_server(word));
        let is_telling = |word: &&String| !LOOKING.contains(&word.as_str());
        Self {
            wanted: others.into_iter().filter(is_telling).cloned().collect(),
            names_server: !servers.is_empty(),
        }
    }

    /// Whether the query is about a core tool: the tool has its words rather than related ones, and one of them is
    /// something of the gateway.
    fn is_about(&self, tool: &RankedTool<'_>) -> bool {
        let own: Vec<&Match> = tool.matches.iter().filter(|one| one.how != How::Synonym).collect();
        let has = |word: &String| own.iter().any(|one| one.word == *word);
        own.iter().any(|one| self.is_subject(one, tool)) && self.wanted.iter().all(has)
    }

    /// Whether a word is something of the gateway, or what it does with a server that the query names.
    fn is_subject(&self, found: &Match, tool: &RankedTool<'_>) -> bool {
        if SUBJECTS.contains(&found.term.as_str()) {
            return true;
        }
        let mut parts = tool.entry.name.as_str().split('_').skip(1);
        let verb = parts.find(|part| {
            part.starts_with(&found.term) && (VERBS.contains(part) || OF_SERVERS.contains(part))
        });
        match verb {
            Some(verb) => self.names_server && OF_SERVERS.contains(&verb),
            None => {
                let is_noun = found.fields.contains(&DocumentField::Name);
                is_noun || self.names_server && self.wanted.contains(&found.word)
            }
        }
    }
}

/// The strength of a match that is shown beside the best one.
pub(super) fn shown_strength(found: &RankedTool<'_>, best: f32) -> MatchStrength {
    match found.is_named {
        true => found.strength,
        false => found.strength.beside_best(found.score, best),
    }
}
