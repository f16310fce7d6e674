//! `list_prompts`: the prompts of all servers.

use muster_core::{
    call::Outcome,
    catalog::CatalogItem,
    json::{Raw, RawObject, raw},
};
use serde::Serialize;

use super::{
    MetaContext, MetaTool, Run,
    arguments::MetaArguments,
    listing::{self, by_name},
    tool_index::summary,
};

pub(super) const TOOL: MetaTool = MetaTool {
    name: "list_prompts",
    description: "List prompts.",
    input_schema: r#"{"type":"object","properties":{"offset":{"type":"integer"}}}"#,
    budget: 8_000,
    run: Run::List(answer),
};

#[derive(Serialize)]
struct Item<'a> {
    name: &'a str,
    description: String,
}

fn answer(cx: &MetaContext<'_>, given: &MetaArguments<'_>) -> Outcome {
    let prompts = by_name(cx.request.snapshot.catalog.prompts());
    listing::answer((given, cx.budget), &prompts, ("prompts", "No prompts available"), item)
}

fn item(prompt: &&CatalogItem) -> Raw {
    let definition = RawObject::parse(&prompt.definition).unwrap_or_default();
    let description = summary(&definition.get_text("description").unwrap_or_default());
    raw(&Item { name: &prompt.name, description })
}
