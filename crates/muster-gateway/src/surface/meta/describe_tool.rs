//! `describe_tool`: everything about one tool, or about several.

use muster_core::{
    call::Outcome,
    effect::Effect,
    json::{Raw, RawObject, raw},
    text::shortened,
};
use serde::Serialize;
use serde_json::value::RawValue;

use super::{
    MetaContext, MetaTool, Run,
    arguments::MetaArguments,
    error_text,
    page::{Bounds, Page, echo},
    tool_index::{Shown, summary},
    unavailable::Unavailable,
};

pub(super) const TOOL: MetaTool = MetaTool {
    name: "describe_tool",
    description: "Describe tools: JSON Schema of the arguments, effect. Do this before a first call.",
    input_schema: r#"{"type":"object","properties":{"name":{"type":"string"},"names":{"type":"array","items":{"type":"string"}}}}"#,
    budget: 8_000,
    run: Run::Now(answer),
};

/// The maximum number of tools in one call.
const MOST: usize = 20;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Description<'a> {
    name: &'a str,
    description: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    input_schema: Option<&'a RawValue>,
    effect: Effect,
    #[serde(skip_serializing_if = "Option::is_none")]
    unavailable: Option<&'a str>,
}

#[derive(Serialize)]
struct Several<'a> {
    tools: &'a [Raw],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    not_found: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    #[serde(flatten)]
    unavailable: Unavailable,
}

#[derive(Serialize)]
struct Short<'a> {
    name: &'a str,
    summary: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<String>,
    effect: Effect,
    #[serde(skip_serializing_if = "Option::is_none")]
    unavailable: Option<&'a str>,
}

fn answer(cx: &MetaContext<'_>, given: &MetaArguments<'_>) -> Outcome {
    let with_schema = given.flag("include_schema").unwrap_or(true);
    let mut names = given.texts("names");
    if names.is_empty() {
        names = given.texts("name");
    }
    if let [_, _, ..] = names.as_slice() {
        return several(cx, &names, with_schema);
    }
    let name = match names.pop().filter(|name| !name.is_empty()).map_or_else(|| given.tool(), Ok) {
        Ok(name) => name,
        Err(problem) => return Outcome::failure(problem),
    };
    match found(cx, &name) {
        Some(shown) => Outcome::text(description(&shown, with_schema).get()),
        None => {
            let said = format!("Tool not found: {}", shortened(&name));
            Outcome::failure(error_text::not_found(cx.meta, cx.request.snapshot, said, &name))
        }
    }
}

/// Describes several tools. Those that do not fit in full are described in short.
fn several(cx: &MetaContext<'_>, names: &[String], with_schema: bool) -> Outcome {
    let (names, beyond) = names.split_at(names.len().min(MOST));
    let mut tools = Vec::new();
    let mut not_found = Vec::new();
    for name in names {
        match found(cx, name) {
            Some(shown) => tools.push(shown),
            None => not_found.push(echo(name).to_owned()),
        }
    }
    let share = cx.budget.0 / names.len().max(1);
    let full = |shown: &&Shown| {
        let full = description(shown, with_schema);
        if muster_core::token_estimate::exceeds(full.get(), share) { short(shown) } else { full }
    };
    let bounds = Bounds { offset: 0, limit: MOST };
    let page = Page::of(tools.iter(), tools.len(), bounds, cx.budget, full, |shown| short(shown));
    let left = match beyond.len() {
        0 => {
            page.next.map(|_| "not all fit: ask for fewer at once, or raise max_tokens".to_owned())
        }
        more => Some(format!("at most {MOST} at once: ask again for the last {more} names")),
    };
    let unavailable = match not_found.is_empty() {
        true => Unavailable::default(),
        false => Unavailable::of(cx.request.snapshot, cx.budget),
    };
    Outcome::text(raw(&Several { tools: &page.items, not_found, note: left, unavailable }).get())
}

fn found(cx: &MetaContext<'_>, name: &str) -> Option<Shown> {
    let state = cx.request.snapshot;
    let index = cx.index();
    let entry = index.listed(state).get(name).filter(|entry| state.policy.shows(entry))?;
    Some(Shown::of(state, entry))
}

fn short(shown: &Shown) -> Raw {
    raw(&Short {
        name: shown.name(),
        summary: summary(shown.description()),
        args: shown.signature(),
        effect: shown.effect(),
        unavailable: shown.unavailable.as_deref(),
    })
}

/// A server's definition stays as it is, except for the description that the policy sets.
fn description(shown: &Shown, with_schema: bool) -> Raw {
    let own = shown.entry.definition.as_deref().and_then(RawObject::parse);
    let Some(mut definition) = own else {
        return raw(&Description {
            name: shown.name(),
            description: shown.description(),
            input_schema: with_schema.then_some(&*shown.entry.input_schema),
            effect: shown.effect(),
            unavailable: shown.unavailable.as_deref(),
        });
    };
    definition.set_value("name", shown.name());
    if *shown.description() != *shown.entry.description {
        definition.set_value("description", shown.description());
    }
    if !with_schema {
        definition.remove("inputSchema");
        definition.remove("outputSchema");
    }
    definition.set_value("effect", &shown.effect());
    if let Some(unavailable) = &shown.unavailable {
        definition.set_value("unavailable", unavailable);
    }
    definition.to_raw()
}
