//! `list_tools`: the names of all tools.

use muster_core::{
    call::Outcome,
    effect::Effect,
    json::{Raw, raw},
};
use serde::Serialize;

use super::{
    MetaContext, MetaTool, Run,
    arguments::MetaArguments,
    page::{Bounds, Page},
    tool_index::{Shown, summary},
};

const DEFAULT_LIMIT: usize = 100;

pub(super) const TOOL: MetaTool = MetaTool {
    name: "list_tools",
    description: "List the tools that can be run through call_tool, one line each, in pages. To find a \
        tool for a task, filter_tools with a `query` is quicker.",
    input_schema: r#"{"type":"object","properties":{"limit":{"type":"integer","minimum":1,"default":100},"offset":{"type":"integer","minimum":0,"default":0,"description":"Where the page begins"},"max_tokens":{"type":"integer"}}}"#,
    budget: 8_000,
    run: Run::List(answer),
};

#[derive(Serialize)]
struct ListReply<'a> {
    tools: &'a [Raw],
    total: usize,
    truncated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

#[derive(Serialize)]
struct Item<'a> {
    name: &'a str,
    description: &'a str,
    effect: Effect,
}

fn answer(cx: &MetaContext<'_>, given: &MetaArguments<'_>) -> Outcome {
    let bounds = match Bounds::of(given, DEFAULT_LIMIT) {
        Ok(bounds) => bounds,
        Err(problem) => return Outcome::failure(problem),
    };
    let index = cx.index();
    let tools = index.tools(cx.request.snapshot);
    let rest = tools.iter().skip(bounds.offset);
    let page = Page::of(rest, tools.len(), bounds, cx.budget, item, item);
    let answer = ListReply {
        tools: &page.items,
        total: page.total,
        truncated: page.next.is_some(),
        next_offset: page.next,
        note: page.note("tools", ", or find one with filter_tools"),
    };
    Outcome::text(raw(&answer).get())
}

fn item(shown: &&Shown) -> Raw {
    let description = &summary(shown.description());
    raw(&Item { name: shown.name(), description, effect: shown.effect() })
}
