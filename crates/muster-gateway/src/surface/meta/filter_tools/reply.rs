//! The reply of `filter_tools`, within its budget.

use muster_api::search::MatchVerdict;
use muster_core::{
    catalog::{CatalogSource, ranked::RankedTools},
    effect::Effect,
    json::{Raw, raw},
};
use muster_search::verdict::SearchVerdict;
use serde::Serialize;
use serde_json::value::RawValue;

use super::{
    super::{
        budget::Budget,
        page::{Bounds, Page, echo, shortened},
        tool_index::summary,
        unavailable::Unavailable,
    },
    Detail, Filter, Found,
};
use crate::dispatch::GatewaySnapshot;

/// The number of suggestions where nothing was found.
const MOST_NEAR: usize = 3;
const MOST_WORDS: usize = 8;

/// A page and the remarks about it.
pub(super) struct FilterReply<'a> {
    pub(super) filter: &'a Filter,
    pub(super) total_tools: usize,
    pub(super) page: Page,
    /// The search's own judgement of its matches.
    pub(super) judgement: Option<Judgement>,
    pub(super) unavailable: Unavailable,
    /// What is wrong with the filters, if no tool can pass them.
    pub(super) wrong_filter: Option<String>,
    /// A note for a reply without another.
    pub(super) remark: Option<&'static str>,
}

/// The verdict of a search on its own matches, in words.
#[derive(Serialize)]
pub(super) struct Judgement {
    verdict: MatchVerdict,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unmatched_terms: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    absent_products: Vec<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    nearest_servers: Vec<String>,
    /// The unavailable servers that may have a product that the query names.
    #[serde(skip)]
    servers_down: Vec<String>,
}

impl Judgement {
    pub(super) fn of(ranked: &RankedTools<'_>, servers_down: Vec<String>) -> Self {
        // To the caller a tool's name is one word, so its parts are not reported as unmatched.
        let is_named = |word: &str| {
            let mut named = ranked.found.iter().filter(|found| found.is_named);
            named.any(|found| {
                found.entry.name.as_str().split('_').any(|part| part.eq_ignore_ascii_case(word))
            })
        };
        let words = ranked.unmatched_terms.iter().filter(|word| !is_named(word)).take(MOST_WORDS);
        let unmatched_terms = words.map(|word| echo(word).to_owned()).collect();
        let verdict = match ranked.verdict {
            SearchVerdict::Found => MatchVerdict::Found,
            SearchVerdict::Unsure => MatchVerdict::Unsure,
            SearchVerdict::NoSuchTool { .. } => MatchVerdict::NoSuchTool,
        };
        let absent_products = ranked.absent_products.clone();
        let nearest_servers = Vec::new();
        let mut judgement =
            Self { verdict, unmatched_terms, absent_products, nearest_servers, servers_down };
        if verdict == MatchVerdict::Found {
            return judgement;
        }
        // Where a product is absent, the first matches may have no more than its letters in common with it.
        let nearest: Vec<&CatalogSource> = match judgement.absent_products.as_slice() {
            [] => ranked.found.iter().map(|found| found.source).collect(),
            _ => ranked.alternative.into_iter().collect(),
        };
        for source in nearest {
            let title = source.info.title.to_string();
            let servers = &mut judgement.nearest_servers;
            if servers.len() < MOST_NEAR && !servers.contains(&title) {
                servers.push(title);
            }
        }
        judgement
    }

    /// Explains the doubts about the matches, if there are any. With filters, only some tools were searched.
    fn doubt(&self, is_filtered: bool) -> Option<String> {
        let (no_tool, nothing) = match is_filtered {
            true => ("no tool that passes the filters", "nothing that passes the filters"),
            false => ("no tool", "nothing here"),
        };
        let unmatched = match self.unmatched_terms.as_slice() {
            [] => String::new(),
            words => format!("; {no_tool} mentions `{}`", words.join("`, `")),
        };
        match (self.verdict, self.absent_products.as_slice()) {
            (_, [_, ..]) => {
                let products = self.absent_products.join(" or ");
                let nearest = self.nearest_servers.first();
                let nearest = nearest.map(|server| format!("; the nearest is {server}"));
                let nearest = nearest.unwrap_or_default();
                Some(format!("{nothing} is {products}{nearest}{unmatched}"))
            }
            (MatchVerdict::NoSuchTool | MatchVerdict::Unsure, [])
                if self.nearest_servers.is_empty() =>
            {
                None
            }
            (MatchVerdict::NoSuchTool, []) => Some(format!(
                "{no_tool} matches; see whether one of the nearest does it, or say it in other words{unmatched}"
            )),
            (MatchVerdict::Unsure, []) => {
                Some(format!("{no_tool} clearly matches; the nearest are listed{unmatched}"))
            }
            (MatchVerdict::Found, []) => unmatched.strip_prefix("; ").map(str::to_owned),
        }
    }
}

#[derive(Serialize)]
struct Written<'a> {
    total_tools: usize,
    total: usize,
    filtered_count: usize,
    truncated: bool,
    tools: &'a [Raw],
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<usize>,
    #[serde(flatten)]
    judgement: Option<&'a Judgement>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    #[serde(flatten)]
    unavailable: &'a Unavailable,
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
    /// Whether it comes with the program.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    bundled: bool,
    effect: Effect,
    #[serde(skip_serializing_if = "Option::is_none")]
    unavailable: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    r#match: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    score: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    labels: Option<Raw>,
}

/// A tool in the reply.
pub(super) fn item(state: &GatewaySnapshot, (shown, scored): Found<'_>, detail: Detail) -> Raw {
    let (short, backend) = (detail == Detail::Summary, shown.entry.backend.as_str());
    let bundled = || state.catalog.source(backend).is_some_and(|source| source.is_bundled);
    let rounded = |score: f32| ((f64::from(score) * 100.0).round() / 100.0).max(0.01);
    raw(&Item {
        name: shown.name(),
        summary: short.then(|| summary(shown.description())),
        args: short.then(|| shown.signature()).flatten(),
        description: (!short).then(|| shown.description()),
        input_schema: (detail == Detail::Schema).then_some(&*shown.entry.input_schema),
        server: (detail == Detail::Schema).then_some(backend),
        bundled: detail == Detail::Schema && bundled(),
        effect: shown.effect(),
        unavailable: shown.unavailable.as_deref(),
        r#match: scored.map(|(_, strength)| strength.as_str()),
        score: scored.map(|(score, _)| rounded(score)),
        labels: shown.entry.labels(),
    })
}

/// Whether a page begins behind the last item.
const fn page_is_behind(page: &Page, offset: usize) -> bool {
    page.total > 0 && offset >= page.total
}

impl FilterReply<'_> {
    /// The reply within the budget: items are dropped first, then remarks.
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
                    self.page.is_cut = true;
                }
                None if self.judgement.is_some() => self.judgement = None,
                None if !self.unavailable.is_empty() => self.unavailable = Unavailable::default(),
                None => return text,
            }
        }
    }

    fn written(&self, budget: Budget) -> String {
        let page = &self.page;
        let answer = Written {
            total_tools: self.total_tools,
            total: page.total,
            filtered_count: page.items.len(),
            truncated: page.next.is_some(),
            tools: &page.items,
            next_offset: page.next,
            judgement: self.judgement.as_ref(),
            note: self.note(budget),
            unavailable: &self.unavailable,
        };
        raw(&answer).get().to_owned()
    }

    fn note(&self, budget: Budget) -> Option<String> {
        let mut notes = Vec::new();
        let judgement = self.judgement.as_ref();
        match &self.wrong_filter {
            Some(wrong) => notes.push(wrong.clone()),
            None => notes.extend(judgement.and_then(|one| one.doubt(self.filter.is_filtered()))),
        }
        if self.page.total == 0 && notes.is_empty() {
            notes.push(self.nothing(budget));
        }
        let down = judgement.map(|judgement| judgement.servers_down.as_slice()).unwrap_or_default();
        if !down.is_empty() {
            notes.insert(0, format!("`{}` may have it, but is unavailable", down.join("` or `")));
        } else if self.page.total == 0 && !self.unavailable.is_empty() {
            notes.push("a server that is unavailable may have it".to_owned());
        }
        let what = match self.judgement {
            Some(_) => "ranked tools",
            None => "matches",
        };
        notes.extend(self.page.note(what, ""));
        let Bounds { offset, .. } = self.filter.bounds;
        if page_is_behind(&self.page, offset) {
            notes.push(format!("there are {} {what}; pass a smaller offset", self.page.total));
        }
        if notes.is_empty() {
            notes.extend(self.remark.map(str::to_owned));
        }
        (!notes.is_empty()).then(|| notes.join("; "))
    }

    fn nothing(&self, budget: Budget) -> String {
        let pattern = self.filter.pattern.as_deref().unwrap_or_default();
        if pattern.is_empty() || pattern.contains(['*', '?', '[']) {
            return "nothing matches; try fewer or other words, or see list_tools".to_owned();
        }
        let pattern = shortened(pattern, budget.0 / 12);
        format!("nothing matches; a pattern has to fit the whole name; try *{pattern}*")
    }
}
