//! The reply of `filter_tools`, within its budget.

use std::collections::BTreeMap;

use muster_core::{
    catalog::ranked::RankedTools,
    effect::Effect,
    glob::CaseSensitivity,
    json::{Raw, raw},
};
use muster_search::verdict::SearchVerdict;
use serde::Serialize;
use serde_json::value::RawValue;

use super::{
    super::{
        budget::Budget,
        page::{Page, echo, shortened},
        tool_index::summary,
    },
    Detail, Filter, Found,
};

/// The number of suggestions where nothing was found.
const MOST_NEAR: usize = 3;
const MOST_WORDS: usize = 8;

/// A page and the remarks about it.
pub(super) struct FilterReply<'a> {
    pub(super) filter: &'a Filter,
    pub(super) total_tools: usize,
    pub(super) page: Page,
    pub(super) missing: Option<Missing>,
}

/// The terms of a query that match nothing.
pub(super) struct Missing {
    /// Whether no tool matches.
    pub(super) nothing: bool,
    words: Vec<String>,
    servers: Vec<String>,
    names: Vec<String>,
}

impl Missing {
    /// None if every term matches.
    pub(super) fn of(ranked: &RankedTools<'_>) -> Option<Self> {
        let nothing = matches!(ranked.verdict, SearchVerdict::NoSuchTool { .. });
        let words = match &ranked.verdict {
            SearchVerdict::Found => return None,
            SearchVerdict::Unsure { unmatched_terms }
            | SearchVerdict::NoSuchTool { unmatched_terms, .. } => {
                unmatched_terms.iter().take(MOST_WORDS).map(|word| echo(word).to_owned()).collect()
            }
        };
        let mut servers: Vec<String> = Vec::new();
        for found in &ranked.found {
            let title = found.source.info.title.to_string();
            if servers.len() < MOST_NEAR && !servers.contains(&title) {
                servers.push(title);
            }
        }
        let near = ranked.found.iter().take(MOST_NEAR).filter(|_| nothing);
        let names = near.map(|found| found.entry.name.to_string()).collect();
        Some(Self { nothing, words, servers, names })
    }
}

#[derive(Serialize)]
struct Written<'a> {
    filters: Filters<'a>,
    total_tools: usize,
    total: usize,
    filtered_count: usize,
    truncated: bool,
    tools: &'a [Raw],
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    verdict: Option<&'static str>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    unmatched_terms: &'a [String],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    nearest_servers: &'a [String],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    nearest_tools: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

/// The filters as they were read.
#[derive(Serialize)]
struct Filters<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    query: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pattern: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description_filter: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    category: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tags: Vec<&'a str>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<&'a str, &'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    effect: Option<Effect>,
    case_sensitive: bool,
    include_schema: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<usize>,
    offset: usize,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Item<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input_schema: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<&'a str>,
    effect: Effect,
    #[serde(skip_serializing_if = "Option::is_none")]
    score: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    labels: Option<Raw>,
}

/// A tool in the reply.
pub(super) fn item((shown, score): Found<'_>, detail: Detail) -> Raw {
    let short = detail == Detail::Summary;
    raw(&Item {
        name: shown.name(),
        summary: short.then(|| summary(shown.description())),
        args: short.then(|| shown.signature()).flatten(),
        description: (!short).then(|| shown.description()),
        input_schema: (detail == Detail::Schema).then_some(&*shown.entry.input_schema),
        server: (detail == Detail::Schema).then(|| shown.entry.backend.as_str()),
        effect: shown.effect(),
        score: score.map(|score| ((score * 1e4).round() / 1e4).max(1e-4)),
        labels: shown.entry.labels(),
    })
}

impl FilterReply<'_> {
    /// The reply within the budget: items are dropped first, then remarks; quotations of the caller are cut.
    pub(super) fn within(mut self, budget: Budget) -> String {
        loop {
            let text = self.written(budget);
            if budget.holds(&text) {
                return text;
            }
            match self.page.items.pop() {
                Some(_) => {
                    let next = self.page.next.map_or(self.page.total, |next| next);
                    self.page.next = Some(next.saturating_sub(1).max(self.filter.bounds.offset));
                }
                None if self.missing.is_some() => self.missing = None,
                None => return text,
            }
        }
    }

    fn written(&self, budget: Budget) -> String {
        let Self { filter, page, missing, .. } = self;
        let none: &[String] = &[];
        let (words, servers, names) = missing.as_ref().map_or((none, none, none), |missing| {
            (&missing.words, &missing.servers, &missing.names)
        });
        let verdict =
            missing.as_ref().map(|one| if one.nothing { "no_such_tool" } else { "unsure" });
        let answer = Written {
            filters: self.filters(budget),
            total_tools: self.total_tools,
            total: page.total,
            filtered_count: page.items.len(),
            truncated: page.next.is_some(),
            tools: &page.items,
            next_offset: page.next,
            verdict: verdict.filter(|_| filter.query.is_some()),
            unmatched_terms: words,
            nearest_servers: servers,
            nearest_tools: names,
            note: self.note(budget),
        };
        raw(&answer).get().to_owned()
    }

    fn filters(&self, budget: Budget) -> Filters<'_> {
        let filter = self.filter;
        let most = budget.0 / 12;
        Filters {
            query: filter.query.as_deref().map(|text| shortened(text, most)),
            pattern: filter.pattern.as_deref().map(|text| shortened(text, most)),
            description_filter: filter.description.as_deref().map(|text| shortened(text, most)),
            server: filter.of.server.as_deref().map(|text| shortened(text, most)),
            category: filter.of.category.as_deref().map(|text| shortened(text, most)),
            tags: filter.of.tags.iter().take(3).map(|tag| shortened(tag, most)).collect(),
            labels: (filter.of.labels.iter().take(3))
                .map(|(name, value)| (shortened(name, most), shortened(value, most)))
                .collect(),
            effect: filter.of.effect,
            case_sensitive: filter.case == CaseSensitivity::Sensitive,
            include_schema: filter.detail == Detail::Schema,
            limit: Some(filter.bounds.limit).filter(|limit| *limit != usize::MAX),
            offset: filter.bounds.offset,
        }
    }

    fn note(&self, budget: Budget) -> Option<String> {
        if self.page.total > 0 {
            return self.page.note("matches", "");
        }
        let pattern = self.filter.pattern.as_deref().unwrap_or_default();
        let hint = if !pattern.is_empty() && !pattern.contains(['*', '?', '[']) {
            let pattern = shortened(pattern, budget.0 / 12);
            format!("a pattern has to fit the whole name; try *{pattern}*")
        } else {
            "try fewer or other words, or see list_tools".to_owned()
        };
        Some(match &self.missing {
            Some(missing) if !missing.names.is_empty() => {
                "nothing here seems to do that; see whether one of nearest_tools does, or say it in other words"
                    .to_owned()
            }
            _ => format!("nothing matches; {hint}"),
        })
    }
}
