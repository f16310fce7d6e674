//! `describe_tool`: everything about one tool.

use muster_core::{
    call::Outcome,
    json::{Object, Raw, raw},
};
use serde::Serialize;
use serde_json::value::RawValue;

use super::{Builtin, Run, Seen, given::Given, shelf::Shown, words};

pub(super) const TOOL: Builtin = Builtin {
    name: "describe_tool",
    description: "Show one tool in full: its description and the JSON Schema of its arguments. Do this \
        before the first call_tool of a tool.",
    input_schema: r#"{"type":"object","properties":{"name":{"type":"string","description":"Exact name, as filter_tools or list_tools give it"}},"required":["name"]}"#,
    run: Run::Now(answer),
};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Description<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: &'a RawValue,
}

fn answer(seen: &Seen<'_>, given: &Given<'_>) -> Outcome {
    let name = match given.tool() {
        Ok(name) => name,
        Err(problem) => return Outcome::failure(problem),
    };
    let state = &seen.state;
    match state.catalog.get(&name).filter(|entry| state.policy.shows(entry)) {
        Some(entry) => Outcome::text(description(&Shown::of(state, entry)).get()),
        None => {
            let hint = words::nearest(state, &name);
            Outcome::failure(words::lines(&[format!("Tool not found: {name}"), hint]))
        }
    }
}

/// What an MCP server says of its tool stays as it is, except for the words that are ours.
fn description(shown: &Shown) -> Raw {
    let own = shown.entry.definition.as_deref().and_then(Object::parse);
    let Some(mut definition) = own else {
        return raw(&Description {
            name: shown.name(),
            description: shown.description(),
            input_schema: &shown.entry.input_schema,
        });
    };
    definition.set_value("name", shown.name());
    if *shown.description() != *shown.entry.description {
        definition.set_value("description", shown.description());
    }
    definition.to_raw()
}
