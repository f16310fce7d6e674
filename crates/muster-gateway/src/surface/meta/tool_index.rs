//! The index of the tools that a caller may call, and of the last known ones of servers that are lost. Lists
//! and search indexes are made on first use.

use std::{
    collections::BTreeSet,
    sync::{Arc, OnceLock},
};

use muster_core::{
    call::Role,
    catalog::{
        CatalogSnapshot, CatalogSource, ToolEntry,
        indexed::CatalogIndex,
        ranked::{RankedTool, RankedTools, ToolVector},
    },
    effect::Effect,
    name::BackendName,
    schema::signature,
};
use muster_search::{document_set::DocumentSet, meaning::QueryMeaning};
use muster_workflow::TOOL_PREFIX;

use super::core_matches;
use crate::{dispatch::GatewaySnapshot, embeddings::EmbeddingSnapshot as Embeddings};

/// The longest summary, in characters.
const MAX_SUMMARY: usize = 120;
/// The longest signature, in characters.
pub(in crate::surface) const MAX_SIGNATURE: usize = 100;

/// The tools of a snapshot.
#[derive(Debug, Default)]
pub(super) struct ToolIndex {
    /// The catalog with the last known tools of absent servers.
    listed: OnceLock<CatalogSnapshot>,
    tools: OnceLock<Vec<Shown>>,
    /// The number of tools that the policy shows.
    count: OnceLock<usize>,
    /// A search index over the policy's own descriptions, if it sets any.
    index: OnceLock<Option<CatalogIndex>>,
    /// The names of the tools that are listed in place of the meta-tools; `None` if there are too many.
    direct: OnceLock<Option<Arc<BTreeSet<String>>>>,
    /// The documents of the tools that every search without filters may find: all that are shown but core tools.
    unfiltered: OnceLock<DocumentSet>,
}

/// A search query, with its vectors if there is a model.
pub(super) struct Question<'a> {
    /// Whether every tool is admitted.
    pub(super) is_unfiltered: bool,
    pub(super) text: &'a str,
    pub(super) meant: Option<&'a QueryMeaning>,
    pub(super) embeddings: Option<&'a Embeddings>,
}

/// A tool as the policy presents it.
#[derive(Debug)]
pub(super) struct Shown {
    pub(super) entry: Arc<ToolEntry>,
    /// The policy's description in place of the tool's own.
    instead: Option<Arc<str>>,
    /// The effect that the policy declares.
    said: Option<Effect>,
    /// Why it cannot be called now.
    pub(super) unavailable: Option<Box<str>>,
    /// The description in lower case, made on first use.
    small: OnceLock<Box<str>>,
}

/// The origins of tools, in the order of lists: what the user configured comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ToolOrigin {
    Server,
    Family,
    Workflow,
    Cli,
    LostServer,
    BundledCli,
    Core,
}

impl ToolOrigin {
    fn of(shown: &Shown, source: Option<&CatalogSource>) -> Self {
        let entry = &*shown.entry;
        match source {
            _ if is_core(entry) => Self::Core,
            _ if shown.unavailable.is_some() => Self::LostServer,
            _ if entry.name.as_str().starts_with(TOOL_PREFIX) => Self::Workflow,
            Some(source) if !source.family_members().is_empty() => Self::Family,
            _ if entry.definition.is_some() => Self::Server,
            Some(source) if source.is_bundled => Self::BundledCli,
            _ if entry.params.is_some() => Self::Cli,
            _ => Self::Workflow,
        }
    }
}

/// Whether a tool is the gateway's own.
pub(super) fn is_core(entry: &ToolEntry) -> bool {
    entry.definition.is_none() && entry.name.as_str().starts_with("core_")
}

impl ToolIndex {
    /// The catalog with the last known tools of absent servers.
    pub(super) fn listed(&self, state: &GatewaySnapshot) -> &CatalogSnapshot {
        self.listed.get_or_init(|| state.listed())
    }

    /// The names of the tools that are listed in place of the meta-tools, made on first use.
    pub(super) fn direct(
        &self,
        make: impl FnOnce() -> Option<Arc<BTreeSet<String>>>,
    ) -> Option<Arc<BTreeSet<String>>> {
        self.direct.get_or_init(make).clone()
    }

    /// The tools by origin and name.
    pub(super) fn tools(&self, state: &GatewaySnapshot) -> &[Shown] {
        self.tools.get_or_init(|| {
            let listed = self.listed(state);
            let mut tools: Vec<(ToolOrigin, Shown)> = listed
                .sorted()
                .filter(|entry| state.policy.shows(entry))
                .map(|entry| {
                    let shown = Shown::of(state, entry);
                    (ToolOrigin::of(&shown, listed.source(entry.backend.as_str())), shown)
                })
                .collect();
            tools.sort_by_key(|(origin, _)| *origin);
            tools.into_iter().map(|(_, shown)| shown).collect()
        })
    }

    /// The number of tools.
    pub(super) fn count(&self, state: &GatewaySnapshot) -> usize {
        *self.count.get_or_init(|| {
            let listed = self.listed(state);
            match state.policy.shows_all() {
                true => listed.len(),
                false => listed.sorted().filter(|entry| state.policy.shows(entry)).count(),
            }
        })
    }

    /// The tools that match a query, best first.
    pub(super) fn search<'a>(
        &'a self,
        state: &'a GatewaySnapshot,
        question: &Question<'_>,
        admit: impl Fn(&CatalogSource, &Arc<ToolEntry>) -> bool,
        limit: usize,
    ) -> RankedTools<'a> {
        let listed = self.listed(state);
        let own = self.index.get_or_init(|| {
            let other = |entry: &ToolEntry| *state.policy.description(entry) != *entry.description;
            let mut backends: Vec<&BackendName> = listed
                .sources()
                .filter(|source| source.entries().iter().any(|entry| other(entry)))
                .map(|source| &source.backend)
                .collect();
            backends.dedup();
            let words = |entry| state.policy.description(entry);
            (!backends.is_empty())
                .then(|| listed.index_with_descriptions(backends.into_iter(), words))
        });
        let index = own.as_ref().unwrap_or_else(|| listed.index());
        let asks_for_core = asks_for_core(question.text, listed);
        let shown = |source: &CatalogSource, entry: &Arc<ToolEntry>| {
            state.policy.shows(entry) && admit(source, entry)
        };
        let is_wanted = |entry: &ToolEntry| asks_for_core || !is_core(entry);
        let wanted = |source: &CatalogSource, entry: &Arc<ToolEntry>| {
            is_wanted(entry) && shown(source, entry)
        };
        let vector = |entry: &ToolEntry| question.embeddings?.of(entry);
        let meaning = question.meant.map(|meant| (meant, &vector as &ToolVector<'_>));
        // The order of a page must not depend on its size, so whole chunks are ordered.
        let limit = limit.div_ceil(CHUNK).saturating_mul(CHUNK);
        let (all, others) = (listed.ranker(index.all()), listed.ranker(index.without_gateway()));
        let ranker = if asks_for_core { all } else { others };
        let sure = question.is_unfiltered.then(|| {
            let is_shown = |_: &CatalogSource, entry: &Arc<ToolEntry>| {
                !is_core(entry) && state.policy.shows(entry)
            };
            self.unfiltered.get_or_init(|| others.documents(is_shown))
        });
        let mut ranked = ranker.search(question.text, wanted, meaning, sure, limit);
        for chunk in ranked.found.chunks_mut(CHUNK) {
            core_last(chunk);
        }
        if state.policy.role() == Role::Operator {
            let unwanted = |source: &CatalogSource, entry: &Arc<ToolEntry>| {
                !is_wanted(entry) && shown(source, entry)
            };
            // A separate search, so that core tools do not displace others. It looks at them only: most tools of a large
            // catalog have a word of the query.
            let core = listed.ranker(index.for_gateway());
            let core = core.search(question.text, unwanted, meaning, None, CHUNK);
            let is_server = |word: &str| names_server(word, state, listed);
            core_matches::add(&mut ranked, core, CHUNK, is_server);
        }
        ranked
    }
}

/// Whether a word is part of the name of a server, also of one that is down.
fn names_server(word: &str, state: &GatewaySnapshot, listed: &CatalogSnapshot) -> bool {
    let separates = |sign: char| !sign.is_alphanumeric();
    let listed = listed.sources().map(|source| &source.backend);
    let mut servers = listed.chain(state.absent.values().map(|absent| &absent.server));
    servers
        .any(|server| server.as_str().split(separates).any(|part| part.eq_ignore_ascii_case(word)))
}

/// Whether a query asks for the gateway's own tools: by the name of one, by their prefix before a word of their names, or
/// by the name of the gateway. Otherwise only operators find them ([`core_matches`]).
fn asks_for_core(query: &str, listed: &CatalogSnapshot) -> bool {
    let separates = |sign: char| !sign.is_alphanumeric() && sign != '_';
    let words = query.split(separates).filter(|word| !word.is_empty());
    let words: Vec<String> = words.map(str::to_lowercase).collect();
    // By itself, `core` is a word like others: "core web vitals", "the core of the module".
    let is_prefix = |at: usize| match words.get(at + 1) {
        Some(next) => ["tool", "tools"].contains(&&**next) || names_core_tool(next, listed),
        None => at == 0,
    };
    words.iter().enumerate().any(|(at, word)| match word.as_str() {
        "muster" => true,
        "core" => is_prefix(at),
        word => word.starts_with("core_"),
    })
}

/// Whether a word is part of the name of one of the gateway's own tools, in the singular or the plural.
fn names_core_tool(word: &str, listed: &CatalogSnapshot) -> bool {
    let names = |part: &str| part == word || word.strip_suffix('s') == Some(part);
    // By source: a large catalog has a hundred thousand tools.
    let core = listed.sources().flat_map(|source| match source.entries() {
        entries @ [first, ..] if is_core(first) => entries,
        _ => &[],
    });
    core.filter(|entry| is_core(entry))
        .any(|entry| entry.name.as_str().split('_').skip(1).any(names))
}

/// The number of matches that are ordered together.
const CHUNK: usize = 32;

/// Moves core tools behind the others, except for those that match better than all others. What is named comes first.
fn core_last(found: &mut [RankedTool<'_>]) {
    let others = found.iter().filter(|one| !is_core(one.entry));
    let Some(best) = others.map(|one| one.strength).max() else { return };
    found.sort_by_key(|one| match is_core(one.entry) {
        _ if one.is_named => 0,
        true if one.strength > best => 1,
        false => 2,
        true => 3,
    });
}

impl Shown {
    /// A tool under the policy of a snapshot.
    pub(super) fn of(state: &GatewaySnapshot, entry: &Arc<ToolEntry>) -> Self {
        let words = state.policy.description(entry);
        let instead = (*words != *entry.description).then(|| Arc::from(words));
        let said = state.policy.ruled_effect(entry);
        let unavailable = state.absence_of(entry).map(|absent| absent.summary().into());
        Self { entry: Arc::clone(entry), instead, said, unavailable, small: OnceLock::new() }
    }

    /// The name that agents use.
    pub(super) fn name(&self) -> &str {
        self.entry.name.as_str()
    }

    /// The description.
    pub(super) fn description(&self) -> &str {
        self.instead.as_deref().unwrap_or(&self.entry.description)
    }

    /// The description in lower case.
    pub(super) fn small_description(&self) -> &str {
        self.small.get_or_init(|| self.description().to_lowercase().into())
    }

    /// The effect.
    pub(super) fn effect(&self) -> Effect {
        self.said.unwrap_or_else(|| Effect::of(&self.entry))
    }

    /// The signature in one line; `None` without arguments.
    pub(super) fn signature(&self) -> Option<String> {
        let line = signature::line(&self.entry.input_schema, MAX_SIGNATURE);
        (!line.is_empty()).then_some(line)
    }
}

/// The first line of a description, cut to the limit.
pub(in crate::surface) fn summary(description: &str) -> String {
    let line = first_line(description);
    match line.char_indices().nth(MAX_SUMMARY) {
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
