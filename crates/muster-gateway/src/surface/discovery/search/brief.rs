//! The reply within a token budget: summaries, one-line signatures, effects.

use muster_core::{effect::Effect, json::raw, schema::signature};
use serde::Serialize;

use super::{Cli, Found, SearchReply};
use crate::{
    dispatch::GatewaySnapshot,
    surface::meta::{
        budget::Budget,
        tool_index::{MAX_SIGNATURE, summary},
        unavailable::Unavailable,
    },
};

#[derive(Serialize)]
#[serde(tag = "mode", rename_all = "lowercase")]
enum Brief<'a> {
    Summary {
        summary: &'a [BriefCli<'a>],
        #[serde(skip_serializing_if = "Option::is_none")]
        more: Option<usize>,
        #[serde(flatten)]
        unavailable: &'a Unavailable,
    },
    Search {
        results: &'a [BriefTool<'a>],
        #[serde(skip_serializing_if = "Option::is_none")]
        more: Option<usize>,
        #[serde(flatten)]
        unavailable: &'a Unavailable,
    },
}

#[derive(Serialize)]
struct BriefCli<'a> {
    name: &'a str,
    description: String,
    tool_count: usize,
}

#[derive(Serialize)]
struct BriefTool<'a> {
    tool_name: &'a str,
    description: String,
    cli_name: &'a str,
    /// `?` marks optional arguments.
    args: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    effect: Option<Effect>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unavailable: Option<&'a str>,
}

/// As many results as `budget` holds, in order.
pub(super) fn within(state: &GatewaySnapshot, answer: &SearchReply<'_>, budget: Budget) -> String {
    match answer {
        SearchReply::Summary { summary, unavailable } => {
            let items: Vec<BriefCli<'_>> = summary.iter().map(of_cli).collect();
            let written = |summary: &[BriefCli<'_>], more| {
                raw(&Brief::Summary { summary, more, unavailable })
            };
            fitting(budget, items.len(), |count| {
                let (head, more) = split(&items, count);
                written(head, more).get().to_owned()
            })
        }
        SearchReply::Search { results, unavailable } => {
            let items: Vec<BriefTool<'_>> =
                results.iter().map(|found| of_tool(state, found)).collect();
            let written = |results: &[BriefTool<'_>], more| {
                raw(&Brief::Search { results, more, unavailable })
            };
            fitting(budget, items.len(), |count| {
                let (head, more) = split(&items, count);
                written(head, more).get().to_owned()
            })
        }
    }
}

/// The first results, and the number of all.
fn split<T>(items: &[T], count: usize) -> (&[T], Option<usize>) {
    let (head, rest) = items.split_at_checked(count).unwrap_or((items, &[]));
    (head, Some(rest.len()).filter(|more| *more > 0))
}

/// The text of as many of `all` as `budget` holds.
fn fitting(budget: Budget, all: usize, written: impl Fn(usize) -> String) -> String {
    let whole = written(all);
    if budget.holds(&whole) {
        return whole;
    }
    let (mut fits, mut too_many) = (0, all);
    while too_many - fits > 1 {
        let middle = fits.midpoint(too_many);
        if budget.holds(&written(middle)) { fits = middle } else { too_many = middle }
    }
    written(fits)
}

fn of_cli<'a>(cli: &Cli<'a>) -> BriefCli<'a> {
    BriefCli { name: cli.name, description: summary(cli.description), tool_count: cli.tool_count }
}

fn of_tool<'a>(state: &GatewaySnapshot, found: &'a Found<'a>) -> BriefTool<'a> {
    BriefTool {
        tool_name: found.tool_name,
        description: summary(found.description),
        cli_name: found.cli_name,
        args: signature::line(found.input_schema, MAX_SIGNATURE),
        effect: state.catalog.get(found.tool_name).map(|entry| state.policy.effect(entry)),
        unavailable: found.unavailable.as_deref(),
    }
}
