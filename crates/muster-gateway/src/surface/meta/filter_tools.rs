//! `filter_tools`: finds tools by keywords and meaning, or by patterns.

mod reply;
mod unknown_server;

use std::{collections::BTreeMap, sync::Arc};

use muster_core::{
    call::Outcome,
    catalog::{
        CatalogSource, ToolEntry,
        ranked::{RankedTool, RankedTools},
    },
    effect::Effect,
    glob::{CaseSensitivity, Glob},
};
use muster_search::verdict::{MatchStrength, SearchVerdict};
use serde_json::{Value, value::RawValue};

use self::reply::{FilterReply, Judgement, item};
use super::{
    MetaContext, MetaTool, Run,
    arguments::MetaArguments,
    budget::Budget,
    core_matches,
    page::{Bounds, Page, echo},
    tool_index::{self, Shown},
    unavailable::Unavailable,
    unavailable_products,
};
use crate::dispatch::GatewaySnapshot;

/// The default number of tools in a reply: few, because the reply stays in an agent's context for every later step.
const DEFAULT_LIMIT: usize = 5;
/// The default budget of a reply with schemas.
const WITH_SCHEMAS: usize = 6_000;
/// The longest query or pattern, in bytes. It is searched on the thread that serves the request, and only its first words
/// count.
const MAX_TEXT: usize = 16 * 1024;

pub(super) const TOOL: MetaTool = MetaTool {
    name: "filter_tools",
    description: "Find tools: `query` says what to do (\"create github issue\"). The best come first, with \
        arguments (`?`: optional) and effect. All filters must match.",
    input_schema: r#"{"type":"object","properties":{"query":{"type":"string"},"pattern":{"type":"string","description":"Glob"},"description_filter":{"type":"string"},"server":{"type":"string"},"labels":{"type":"object"},"effect":{"enum":["read","write","destructive"]},"include_schema":{"type":"boolean"},"limit":{"type":"integer"},"offset":{"type":"integer"}}}"#,
    budget: 1_200,
    run: Run::List(answer),
};

/// The filters of a call, and how much of each tool is shown.
pub(super) struct Filter {
    pub(super) query: Option<String>,
    pub(super) pattern: Option<String>,
    pub(super) description: Option<String>,
    pub(super) of: Of,
    pub(super) case: CaseSensitivity,
    pub(super) detail: Detail,
    pub(super) bounds: Bounds,
}

/// The filters besides the query.
#[derive(Default, PartialEq, Eq)]
pub(super) struct Of {
    server: Option<String>,
    category: Option<String>,
    tags: Vec<String>,
    labels: BTreeMap<String, String>,
    effect: Option<Effect>,
}

/// How much is shown of each tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Detail {
    /// The first line of the description, and the signature.
    Summary,
    /// The description.
    Description,
    /// The description and the schema.
    Schema,
}

fn answer(cx: &MetaContext<'_>, given: &MetaArguments<'_>) -> Outcome {
    match Filter::read(given) {
        Ok(filter) => {
            let budget = match filter.detail {
                Detail::Schema => cx.budget_or(WITH_SCHEMAS),
                Detail::Summary | Detail::Description => cx.budget,
            };
            filter.answer(cx, budget, None)
        }
        Err(problem) => Outcome::failure(problem),
    }
}

/// The tools that match, in order.
enum Passing<'a> {
    Listed(Vec<&'a Shown>),
    Ranked(RankedTools<'a>),
}

/// A tool, with its score and strength if it was searched for.
type Found<'a> = (&'a Shown, Option<(f32, MatchStrength)>);

impl Filter {
    /// No filter.
    pub(super) fn all(bounds: Bounds) -> Self {
        let (query, pattern, description) = (None, None, None);
        let (case, detail) = (CaseSensitivity::Insensitive, Detail::Summary);
        Self { query, pattern, description, of: Of::default(), case, detail, bounds }
    }

    fn read(given: &MetaArguments<'_>) -> Result<Self, String> {
        let bounds = Bounds::of(given, DEFAULT_LIMIT)?;
        let case_sensitive = given.flag_only("case_sensitive")?;
        let include_schema = given.flag_only("include_schema")?;
        let effect = given.text_only("effect")?.map(|word| {
            let unknown = || format!("effect must be read, write or destructive, not `{word}`");
            Effect::parse(&word.to_lowercase()).ok_or_else(unknown)
        });
        Ok(Self {
            query: text(given, "query")?,
            pattern: text(given, "pattern")?,
            description: text(given, "description_filter")?,
            of: Of {
                server: given.text_only("server")?,
                category: given.text_only("category")?,
                tags: given.texts("tags"),
                labels: given.raw("labels").map(labels).transpose()?.unwrap_or_default(),
                effect: effect.transpose()?,
            },
            case: if case_sensitive {
                CaseSensitivity::Sensitive
            } else {
                CaseSensitivity::Insensitive
            },
            detail: if include_schema { Detail::Schema } else { Detail::Summary },
            bounds,
        })
    }

    /// The requested page, with `remark` if there is no other note.
    pub(super) fn answer(
        &self,
        cx: &MetaContext<'_>,
        budget: Budget,
        remark: Option<&'static str>,
    ) -> Outcome {
        let (state, index) = (cx.request.snapshot, cx.index());
        let total_tools = index.count(state);
        let unavailable = Unavailable::of(state, budget);
        if total_tools == 0 && unavailable.is_empty() {
            return Outcome::text("No tools available to filter");
        }
        let pattern = self.pattern.as_deref();
        let glob = match pattern.map(|pattern| Glob::new(pattern, self.case)).transpose() {
            Ok(glob) => glob,
            Err(problem) => {
                let pattern = echo(pattern.unwrap_or_default());
                return Outcome::failure(format!("Invalid pattern {pattern:?}: {problem}"));
            }
        };
        let full = |found: &Found<'_>| item(state, *found, self.detail);
        let short = |found: &Found<'_>| item(state, *found, Detail::Summary);
        let (page, judgement) = match self.passing(&index, cx, glob.as_ref()) {
            Passing::Listed(passing) => {
                let rest = passing.iter().skip(self.bounds.offset).map(|shown| (*shown, None));
                (Page::of(rest, passing.len(), self.bounds, budget, full, short), None)
            }
            Passing::Ranked(mut ranked) => {
                let down = unavailable_products::take(state, &mut ranked);
                let judgement = Judgement::of(&ranked, down);
                let total = ranked.total;
                let found = ranked.found.iter().skip(self.bounds.offset);
                let best = ranked.found.iter().map(|found| found.score).fold(0.0, f32::max);
                let is_missing = matches!(ranked.verdict, SearchVerdict::NoSuchTool { .. });
                let strength = |found: &RankedTool<'_>| match is_missing && !found.is_named {
                    // There is no such tool, so the nearest ones are only weak matches.
                    true => MatchStrength::Weak,
                    false => core_matches::shown_strength(found, best),
                };
                let scored: Vec<(Shown, (f32, MatchStrength))> = found
                    .map(|found| (Shown::of(state, found.entry), (found.score, strength(found))))
                    .collect();
                let rest = scored.iter().map(|(shown, scored)| (shown, Some(*scored)));
                (Page::of(rest, total, self.bounds, budget, full, short), Some(judgement))
            }
        };
        let server = self.of.server.as_deref().filter(|_| page.total == 0);
        let listed = index.listed(state);
        let wrong_filter = server.and_then(|server| unknown_server::said(state, listed, server));
        let reply = FilterReply {
            filter: self,
            total_tools,
            page,
            judgement,
            unavailable,
            wrong_filter,
            remark,
        };
        Outcome::text(reply.within(budget))
    }

    /// All tools that match; with a query those up to the end of the page, best first.
    fn passing<'a>(
        &self,
        index: &'a tool_index::ToolIndex,
        cx: &'a MetaContext<'_>,
        glob: Option<&Glob>,
    ) -> Passing<'a> {
        let state = cx.request.snapshot;
        let wanted = self.description.as_deref().map(|text| self.folded(text));
        let described = |description: &dyn Fn(CaseSensitivity) -> String| {
            wanted.as_deref().is_none_or(|text| description(self.case).contains(text))
        };
        let named = |name: &str| glob.is_none_or(|glob| glob.matches(name));
        let Some(query) = &self.query else {
            let passes = |shown: &&Shown| {
                let entry = &shown.entry;
                let source = index.listed(state).source(entry.backend.as_str());
                named(shown.name())
                    && wanted.as_deref().is_none_or(|text| match self.case {
                        CaseSensitivity::Sensitive => shown.description().contains(text),
                        CaseSensitivity::Insensitive => shown.small_description().contains(text),
                    })
                    && source.is_some_and(|source| self.of.takes(state, source, entry))
            };
            return Passing::Listed(index.tools(state).iter().filter(passes).collect());
        };
        let admit = |source: &CatalogSource, entry: &Arc<ToolEntry>| {
            let words = |case| match case {
                CaseSensitivity::Sensitive => state.policy.description(entry).to_owned(),
                CaseSensitivity::Insensitive => state.policy.description(entry).to_lowercase(),
            };
            self.of.takes(state, source, entry) && named(entry.name.as_str()) && described(&words)
        };
        // One more than the page, to see whether there is a next page.
        let limit = self.bounds.offset.saturating_add(self.bounds.limit).saturating_add(1);
        let question = tool_index::Question {
            is_unfiltered: !self.is_filtered(),
            text: query,
            meant: cx.meant.as_ref().map(|(meaning, _)| meaning),
            embeddings: cx.meant.as_ref().map(|(_, embeddings)| embeddings),
        };
        Passing::Ranked(index.search(state, &question, admit, limit))
    }

    /// Whether there are filters besides the query.
    fn is_filtered(&self) -> bool {
        self.pattern.is_some() || self.description.is_some() || self.of != Of::default()
    }

    fn folded(&self, text: &str) -> String {
        match self.case {
            CaseSensitivity::Sensitive => text.to_owned(),
            CaseSensitivity::Insensitive => text.to_lowercase(),
        }
    }
}

impl Of {
    fn takes(&self, state: &GatewaySnapshot, source: &CatalogSource, entry: &ToolEntry) -> bool {
        let same = |wanted: &Option<String>, got: Option<&str>| {
            let same = |wanted: &String| {
                got.is_some_and(|got| got.to_lowercase() == wanted.to_lowercase())
            };
            wanted.as_ref().is_none_or(same)
        };
        let tagged =
            |tag: &String| source.info.tags.iter().any(|one| one.eq_ignore_ascii_case(tag));
        same(&self.server, Some(&source.info.title))
            && same(&self.category, source.info.category.as_deref())
            && self.tags.iter().all(tagged)
            && (self.labels.is_empty() || self.labelled(entry))
            && self.effect.is_none_or(|most| state.policy.effect(entry) <= most)
    }

    /// Whether a tool has every label.
    fn labelled(&self, entry: &ToolEntry) -> bool {
        let found = entry.labels().and_then(|raw| labels(&raw).ok()).unwrap_or_default();
        self.labels.iter().all(|(name, value)| found.get(name) == Some(value))
    }
}

/// A text that is not too long, or the error.
fn text(given: &MetaArguments<'_>, key: &str) -> Result<Option<String>, String> {
    match given.text_only(key)? {
        Some(text) if text.len() > MAX_TEXT => {
            let length = text.len();
            Err(format!("{key} must have at most {MAX_TEXT} bytes, not {length}"))
        }
        text => Ok(text),
    }
}

/// Labels by name; values are compared as text.
fn labels(labels: &RawValue) -> Result<BTreeMap<String, String>, String> {
    let wrong = |_| r#"labels must be an object such as {"env":"prod"}"#.to_owned();
    let labels: Option<serde_json::Map<String, Value>> =
        serde_json::from_str(labels.get()).map_err(wrong)?;
    let text = |value: Value| match value {
        Value::String(text) => text,
        other => other.to_string(),
    };
    let labels = labels.unwrap_or_default().into_iter();
    Ok(labels.map(|(name, value)| (name, text(value))).collect())
}
