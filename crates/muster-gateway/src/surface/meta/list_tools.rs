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
    budget::Budget,
    page::{Bounds, Page},
    tool_index::{Shown, summary},
    unavailable::{LoginServers, Unavailable},
};

const DEFAULT_LIMIT: usize = 100;

pub(super) const TOOL: MetaTool = MetaTool {
    name: "list_tools",
    description: "List all tools in pages, with their arguments.",
    input_schema: r#"{"type":"object","properties":{"offset":{"type":"integer"}}}"#,
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
    #[serde(flatten)]
    logins: LoginServers,
    #[serde(flatten)]
    unavailable: Unavailable,
}

#[derive(Serialize)]
struct Item<'a> {
    name: &'a str,
    description: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<String>,
    effect: Effect,
    #[serde(skip_serializing_if = "Option::is_none")]
    unavailable: Option<&'a str>,
}

fn answer(cx: &MetaContext<'_>, given: &MetaArguments<'_>) -> Outcome {
    let bounds = match Bounds::of(given, DEFAULT_LIMIT) {
        Ok(bounds) => bounds,
        Err(problem) => return Outcome::failure(problem),
    };
    let index = cx.index();
    let tools = index.tools(cx.request.snapshot);
    let logins = LoginServers::of(cx.request.snapshot, cx.budget);
    let unavailable = Unavailable::besides_logins(cx.request.snapshot, cx.budget);
    let extra = logins.cost() + unavailable.cost();
    let budget = Budget(cx.budget.0.saturating_sub(extra));
    let rest = tools.iter().skip(bounds.offset);
    let page = Page::of(rest, tools.len(), bounds, budget, item, item);
    let answer = ListReply {
        tools: &page.items,
        total: page.total,
        truncated: page.next.is_some(),
        next_offset: page.next,
        note: page.note("tools", ", or find one with filter_tools"),
        logins,
        unavailable,
    };
    Outcome::text(raw(&answer).get())
}

fn item(shown: &&Shown) -> Raw {
    let description = &summary(shown.description());
    raw(&Item {
        name: shown.name(),
        description,
        args: shown.signature(),
        effect: shown.effect(),
        unavailable: shown.unavailable.as_deref(),
    })
}
