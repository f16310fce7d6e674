//! `filter_tools`: the tools for a task, by words or by patterns.

use muster_core::{
    call::Outcome,
    glob::{Case, Glob},
    json::{Raw, raw},
    rank::best_first,
};
use serde::Serialize;
use serde_json::value::RawValue;

use super::{
    Builtin, Run, Seen,
    given::Given,
    page::{Bounds, Page, echo},
    shelf::{Shelf, Shown, summary},
};

/// The one who asks keeps the answer in mind for every later step: it has to be short.
const DEFAULT_LIMIT: usize = 5;

pub(super) const TOOL: Builtin = Builtin {
    name: "filter_tools",
    description: "Find tools. Say what you want to do in `query` (\"create github issue\") and get the \
        best matches with a one-line summary; or narrow down by `pattern` and `description_filter`. All \
        filters given must match. Then look at one with describe_tool and run it with call_tool.",
    input_schema: r#"{"type":"object","properties":{"query":{"type":"string","description":"Words of the task; results come best first with a score"},"pattern":{"type":"string","description":"Glob over the whole name: * ? [a-z], such as *issue*"},"description_filter":{"type":"string","description":"Text that the description contains"},"case_sensitive":{"type":"boolean","default":false},"include_schema":{"type":"boolean","default":false,"description":"Give full descriptions and input schemas"},"limit":{"type":"integer","minimum":1,"default":5},"offset":{"type":"integer","minimum":0,"default":0}}}"#,
    run: Run::Now(answer),
};

/// What is looked for, and how it is shown.
pub(super) struct Filter {
    pub(super) query: Option<String>,
    pub(super) pattern: Option<String>,
    pub(super) description: Option<String>,
    pub(super) case: Case,
    pub(super) detail: Detail,
    pub(super) bounds: Bounds,
}

/// How much is shown of each tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Detail {
    /// The first line of its description.
    Summary,
    /// Its description.
    Description,
    /// Its description and its schema.
    Schema,
}

fn answer(seen: &Seen<'_>, given: &Given<'_>) -> Outcome {
    let bounds = match Bounds::of(given, DEFAULT_LIMIT) {
        Ok(bounds) => bounds,
        Err(problem) => return Outcome::failure(problem),
    };
    let case_sensitive = given.flag("case_sensitive").unwrap_or(false);
    let include_schema = given.flag("include_schema").unwrap_or(false);
    let filter = Filter {
        query: given.text("query"),
        pattern: given.text("pattern"),
        description: given.text("description_filter"),
        case: if case_sensitive { Case::Matters } else { Case::Ignored },
        detail: if include_schema { Detail::Schema } else { Detail::Summary },
        bounds,
    };
    filter.answer(&seen.shelf())
}

#[derive(Serialize)]
struct Answer<'a> {
    filters: Filters<'a>,
    total_tools: usize,
    total: usize,
    filtered_count: usize,
    truncated: bool,
    tools: &'a [Raw],
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

/// The filters as they were understood.
#[derive(Serialize)]
struct Filters<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    query: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pattern: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description_filter: Option<&'a str>,
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
    description: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input_schema: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    score: Option<f64>,
}

type Found<'a> = (&'a Shown, Option<f64>);

impl Filter {
    /// The page asked for.
    pub(super) fn answer(&self, shelf: &Shelf) -> Outcome {
        if shelf.tools().is_empty() {
            return Outcome::text("No tools available to filter");
        }
        let pattern = self.pattern.as_deref();
        let glob = match pattern.map(|pattern| Glob::new(pattern, self.case)).transpose() {
            Ok(glob) => glob,
            Err(problem) => {
                let pattern = pattern.unwrap_or_default();
                return Outcome::failure(format!("Invalid pattern {pattern:?}: {problem}"));
            }
        };
        let found = self.found(shelf, glob.as_ref());
        let full = |found: &Found<'_>| item(*found, self.detail);
        let short = |found: &Found<'_>| item(*found, Detail::Summary);
        let page = Page::of(&found, self.bounds, full, short);
        let answer = Answer {
            filters: self.echo(),
            total_tools: shelf.tools().len(),
            total: page.total,
            filtered_count: page.items.len(),
            truncated: page.next.is_some(),
            tools: &page.items,
            next_offset: page.next,
            note: self.note(&page),
        };
        Outcome::text(raw(&answer).get())
    }

    /// Every tool that passes. With a query those on the page and before it are in place, best first;
    /// without one all are, in the order of the list.
    fn found<'a>(&self, shelf: &'a Shelf, glob: Option<&Glob>) -> Vec<Found<'a>> {
        let wanted = self.description.as_deref().map(|text| self.folded(text));
        let described = |shown: &Shown| {
            wanted.as_deref().is_none_or(|text| match self.case {
                Case::Matters => shown.description().contains(text),
                Case::Ignored => shown.small_description().contains(text),
            })
        };
        let passes =
            |shown: &Shown| glob.is_none_or(|glob| glob.matches(shown.name())) && described(shown);
        let Some(query) = &self.query else {
            let all = shelf.tools().iter().filter(|shown| passes(shown));
            return all.map(|shown| (shown, None)).collect();
        };
        let mut hits = shelf.search(query);
        hits.retain(|hit| shelf.at(hit.tool).is_some_and(passes));
        let Bounds { offset, limit } = self.bounds;
        best_first(&mut hits, offset.saturating_add(limit));
        hits.iter().filter_map(|hit| Some((shelf.at(hit.tool)?, Some(hit.score)))).collect()
    }

    fn folded(&self, text: &str) -> String {
        match self.case {
            Case::Matters => text.to_owned(),
            Case::Ignored => text.to_lowercase(),
        }
    }

    fn echo(&self) -> Filters<'_> {
        Filters {
            query: self.query.as_deref().map(echo),
            pattern: self.pattern.as_deref().map(echo),
            description_filter: self.description.as_deref().map(echo),
            case_sensitive: self.case == Case::Matters,
            include_schema: self.detail == Detail::Schema,
            limit: Some(self.bounds.limit).filter(|limit| *limit != usize::MAX),
            offset: self.bounds.offset,
        }
    }

    fn note(&self, page: &Page) -> Option<String> {
        if page.total > 0 {
            return page.note("matches", "");
        }
        let pattern = self.pattern.as_deref().unwrap_or_default();
        let hint = if !pattern.is_empty() && !pattern.contains(['*', '?', '[']) {
            format!("a pattern has to fit the whole name; try *{}*", echo(pattern))
        } else {
            "try fewer or other words, or see list_tools".to_owned()
        };
        Some(format!("nothing matches; {hint}"))
    }
}

fn item((shown, score): Found<'_>, detail: Detail) -> Raw {
    let schema = &*shown.entry.input_schema;
    raw(&Item {
        name: shown.name(),
        summary: (detail == Detail::Summary).then(|| summary(shown.description())),
        description: (detail != Detail::Summary).then(|| shown.description()),
        input_schema: (detail == Detail::Schema).then_some(schema),
        score: score.map(|score| ((score * 1e4).round() / 1e4).max(1e-4)),
    })
}
