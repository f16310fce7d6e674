//! `describe_prompt`: everything about one prompt.

use muster_core::{call::Outcome, json::RawObject, text::shortened};

use super::{MetaContext, MetaTool, Run, arguments::MetaArguments, error_text};

pub(super) const TOOL: MetaTool = MetaTool {
    name: "describe_prompt",
    description: "Show the arguments of a prompt.",
    input_schema: r#"{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}"#,
    budget: 8_000,
    run: Run::Now(answer),
};

fn answer(cx: &MetaContext<'_>, given: &MetaArguments<'_>) -> Outcome {
    let name = match given.required("name") {
        Ok(name) => name,
        Err(problem) => return Outcome::failure(problem),
    };
    let Some(prompt) = cx.request.snapshot.catalog.prompts().find(|prompt| *prompt.name == *name)
    else {
        return not_found(cx, &name);
    };
    let mut definition = RawObject::parse(&prompt.definition).unwrap_or_default();
    definition.set_value("name", &name);
    if definition.get("description").is_none() {
        definition.set_value("description", "");
    }
    let none = |arguments: &str| serde_json::from_str::<[(); 0]>(arguments).is_ok();
    if definition.get("arguments").is_some_and(|arguments| none(arguments.get())) {
        definition.remove("arguments");
    }
    Outcome::text(definition.to_raw().get())
}

/// The error for an unknown prompt.
pub(super) fn not_found(cx: &MetaContext<'_>, name: &str) -> Outcome {
    let near =
        error_text::nearest_of(name, cx.request.snapshot.catalog.prompts().map(|one| &*one.name));
    Outcome::failure(error_text::lines(&[format!("Prompt not found: {}", shortened(name)), near]))
}
