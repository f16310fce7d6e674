//! `climax_search`: a summary of the CLIs, or the tools that match.

mod brief;

use std::sync::Arc;

use muster_core::{
    arguments::Arguments,
    call::Outcome,
    catalog::{CatalogSnapshot, CatalogSource, ToolEntry, search::ToolFilter},
    json::raw,
    schema,
    value::Value,
};
use muster_search::verdict::SearchVerdict;
use serde::Serialize;
use serde_json::value::RawValue;

use super::bounds::Bounds;
use crate::{
    absent::Absent,
    dispatch::GatewaySnapshot,
    surface::meta::{arguments::MetaArguments, budget::Budget, unavailable::Unavailable},
};

/// The arguments, listed in the schema or not.
pub(super) const ARGUMENTS: [&str; 7] =
    ["query", "category", "cli", "limit", "max_tokens", "effect", "_meta"];
const DEFAULT_LIMIT: i128 = 10;
/// The number of tools that are ranked.
const MOST_RANKED: usize = 1_000;

#[derive(Serialize)]
#[serde(tag = "mode", rename_all = "lowercase")]
enum SearchReply<'a> {
    Summary {
        summary: Vec<Cli<'a>>,
        #[serde(flatten)]
        unavailable: Unavailable,
    },
    Search {
        results: Vec<Found<'a>>,
        #[serde(flatten)]
        unavailable: Unavailable,
    },
}

#[derive(Serialize)]
struct Cli<'a> {
    name: &'a str,
    description: &'a str,
    tool_count: usize,
    category: Option<&'a str>,
    tags: &'a [String],
}

#[derive(Serialize)]
struct Found<'a> {
    tool_name: &'a str,
    description: &'a str,
    cli_name: &'a str,
    category: Option<&'a str>,
    tags: &'a [String],
    input_schema: &'a RawValue,
    /// Why it cannot be called now.
    #[serde(skip_serializing_if = "Option::is_none")]
    unavailable: Option<String>,
}

/// The filters of a search.
#[derive(Clone, Copy)]
struct Wanted<'a> {
    filter: &'a ToolFilter,
    bounds: Bounds,
}

impl Wanted<'_> {
    fn admits(&self, state: &GatewaySnapshot, entry: &ToolEntry) -> bool {
        state.policy.shows(entry) && self.bounds.admits(state, entry)
    }
}

pub(super) fn answer(state: &GatewaySnapshot, arguments: &RawValue) -> Outcome {
    let given = Arguments::from_json(arguments);
    let shape = [
        ("query", "string", false),
        ("category", "string", false),
        ("cli", "string", false),
        ("limit", "integer", false),
    ];
    if let Some(message) = schema::check_shape(&shape, &given) {
        return Outcome::failure(format!("Input validation error: {message}"));
    }
    let bounds = match Bounds::read(&MetaArguments::read(arguments)) {
        Ok(bounds) => bounds,
        Err(problem) => return Outcome::failure(problem),
    };
    let text = |name: &str| given.get(name).and_then(Value::as_text);
    let limit = limit(given.get("limit"));
    let (query, category, cli) = (text("query"), text("category"), text("cli"));
    // Only part of a reply if a server is missing: without servers, replies match CLImax's to the byte.
    let unavailable = Unavailable::of(state, bounds.budget.unwrap_or(Budget(usize::MAX)));
    let listed = &state.listed();
    let answer = if query.or(category).or(cli).is_none() {
        SearchReply::Summary { summary: limited(summary(state), limit), unavailable }
    } else {
        let filter = ToolFilter::new(query, category, cli);
        let wanted = Wanted { filter: &filter, bounds };
        let mut results = limited(found(state, listed, wanted), limit);
        // Words that match nowhere literally may still be ranked. A single word in another script is matched
        // literally only: that is part of the contract.
        let in_words = |query: &&str| query.is_ascii() || query.trim().contains(' ');
        if let Some(query) =
            query.filter(in_words).filter(|_| found(state, listed, wanted).next().is_none())
        {
            results = limited(ranked(state, listed, query, wanted, limit).into_iter(), limit);
        }
        SearchReply::Search { results, unavailable }
    };
    match bounds.budget {
        Some(budget) => Outcome::text(brief::within(state, &answer, budget)),
        None => Outcome::text(raw(&answer).get()),
    }
}

fn summary(state: &GatewaySnapshot) -> impl Iterator<Item = Cli<'_>> {
    state.catalog.sources().map(|source| Cli {
        name: &source.info.title,
        description: &source.info.description,
        tool_count: source.entries().len(),
        category: source.info.category.as_deref(),
        tags: &source.info.tags,
    })
}

fn found<'a>(
    state: &'a GatewaySnapshot,
    listed: &'a CatalogSnapshot,
    wanted: Wanted<'_>,
) -> impl Iterator<Item = Found<'a>> {
    let found = listed.search(wanted.filter);
    let found = found.filter(move |(_, entry)| wanted.admits(state, entry));
    found.map(|(source, entry)| item(state, source, entry))
}

/// The best matches, or none. A word that matches nowhere is not replaced by a similar one.
fn ranked<'a>(
    state: &'a GatewaySnapshot,
    listed: &'a CatalogSnapshot,
    query: &str,
    wanted: Wanted<'_>,
    limit: i128,
) -> Vec<Found<'a>> {
    let admit = |source: &CatalogSource, entry: &Arc<ToolEntry>| {
        wanted.filter.matches_source(source) && wanted.admits(state, entry)
    };
    let most = usize::try_from(limit).unwrap_or(MOST_RANKED).min(MOST_RANKED);
    let ranked = listed.ranker(listed.index().all()).search(query, admit, None, None, most);
    match ranked.verdict {
        SearchVerdict::NoSuchTool { .. } => Vec::new(),
        SearchVerdict::Found | SearchVerdict::Unsure => {
            let found = ranked.found.iter().filter(|found| !found.guessed);
            found.map(|found| item(state, found.source, found.entry)).collect()
        }
    }
}

fn item<'a>(
    state: &GatewaySnapshot,
    source: &'a CatalogSource,
    entry: &'a Arc<ToolEntry>,
) -> Found<'a> {
    Found {
        tool_name: entry.name.as_str(),
        description: &entry.description,
        cli_name: &source.info.title,
        category: source.info.category.as_deref(),
        tags: &source.info.tags,
        input_schema: &entry.input_schema,
        unavailable: state.absence_of(entry).map(Absent::summary),
    }
}

/// The limit as a number; saturates.
fn limit(given: Option<&Value>) -> i128 {
    match given {
        Some(Value::Int(digits)) => {
            digits.parse().unwrap_or(if digits.starts_with('-') { i128::MIN } else { i128::MAX })
        }
        #[expect(
            clippy::cast_possible_truncation,
            reason = "saturates, which is what a limit wants"
        )]
        Some(Value::Float(float)) => *float as i128,
        _ => DEFAULT_LIMIT,
    }
}

/// The first `limit` items; a negative limit drops as many at the end.
fn limited<T>(items: impl Iterator<Item = T>, limit: i128) -> Vec<T> {
    if limit >= 0 {
        return items.take(usize::try_from(limit).unwrap_or(usize::MAX)).collect();
    }
    let mut items: Vec<T> = items.collect();
    let left_out = usize::try_from(limit.unsigned_abs()).unwrap_or(usize::MAX);
    items.truncate(items.len().saturating_sub(left_out));
    items
}

#[cfg(test)]
mod tests {
    use muster_core::value::Value;

    use super::{limit, limited};

    #[track_caller]
    fn check(given: Option<&Value>, expect: &[i32]) {
        assert_eq!(limited([1, 2, 3].into_iter(), limit(given)), expect);
    }

    #[track_caller]
    fn check_int(digits: &str, expect: &[i32]) {
        check(Some(&Value::Int(digits.to_owned())), expect);
    }

    #[test]
    fn limits_slice_as_python_does() {
        check(None, &[1, 2, 3]);
        check_int("2", &[1, 2]);
        check_int("0", &[]);
        check_int("99999999999999999999999999999999999999999999", &[1, 2, 3]);
        check_int("-1", &[1, 2]);
        check_int("-3", &[]);
        check_int("-99999999999999999999999999999999999999999999", &[]);
        check(Some(&Value::Float(2.0)), &[1, 2]);
    }
}
