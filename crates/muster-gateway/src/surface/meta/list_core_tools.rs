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
    description: "List muster's own tools (core_*): they manage servers, services and configuration. \
        Run them through call_tool.",
    input_schema: r#"{"type":"object","properties":{"include_schema":{"type":"boolean","default":true},"offset":{"type":"integer","minimum":0,"default":0},"max_tokens":{"type":"integer"}}}"#,
    budget: 38_000,
    run: Run::List(answer),
};

fn answer(cx: &MetaContext<'_>, given: &MetaArguments<'_>) -> Outcome {
    let bounds = match Bounds::of(given, usize::MAX) {
        Ok(bounds) => bounds,
        Err(problem) => return Outcome::failure(problem),
    };
    let include_schema = given.flag("include_schema").unwrap_or(true);
    let filter = Filter {
        pattern: Some("core*".to_owned()),
        detail: if include_schema { Detail::Schema } else { Detail::Description },
        ..Filter::all(bounds)
    };
    filter.answer(cx)
}
