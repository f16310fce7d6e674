//! `list_core_tools`: the gateway's own tools.

use muster_core::call::Outcome;

use super::{
    MetaContext, MetaTool, Run,
    arguments::MetaArguments,
    filter_tools::{Detail, Filter},
    page::Bounds,
};

pub(super) const TOOL: MetaTool = MetaTool {
    name: "list_core_tools",
    description: "List muster's own tools (core_*).",
    input_schema: r#"{"type":"object","properties":{"offset":{"type":"integer"}}}"#,
    budget: 6_000,
    run: Run::List(answer),
};

/// The default budget of a reply with descriptions or schemas.
const IN_FULL: usize = 42_000;

fn answer(cx: &MetaContext<'_>, given: &MetaArguments<'_>) -> Outcome {
    let bounds = match Bounds::of(given, usize::MAX) {
        Ok(bounds) => bounds,
        Err(problem) => return Outcome::failure(problem),
    };
    let detail = match given.flag("include_schema") {
        Some(true) => Detail::Schema,
        Some(false) => Detail::Description,
        None => Detail::Summary,
    };
    let filter = Filter { pattern: Some("core*".to_owned()), detail, ..Filter::all(bounds) };
    match detail {
        Detail::Summary => {
            let more = "for full descriptions and the inputSchema of each pass include_schema=true";
            filter.answer(cx, cx.budget, Some(more))
        }
        Detail::Description | Detail::Schema => filter.answer(cx, cx.budget_or(IN_FULL), None),
    }
}
