//! `get_prompt`: the messages of a prompt with its arguments filled in.

use std::borrow::Cow;

use muster_core::{
    backend::{ResourceOperation, ResourceRequest},
    call::Outcome,
    json::{Raw, RawObject},
};
use serde_json::value::RawValue;

use super::{
    MetaContext, MetaTool, OutcomeFuture, Run, arguments::MetaArguments, describe_prompt,
    envelope::Text,
};
use crate::surface::ToolCall;

pub(super) const TOOL: MetaTool = MetaTool {
    name: "get_prompt",
    description: "Fill in a prompt.",
    input_schema: r#"{"type":"object","properties":{"name":{"type":"string"},"arguments":{"type":"object"}},"required":["name"]}"#,
    budget: 16_000,
    run: Run::Ask(run),
};

fn run<'a>(cx: &'a MetaContext<'a>, call: ToolCall) -> OutcomeFuture<'a> {
    Box::pin(async move {
        let ToolCall { arguments, meta, continuation, .. } = call;
        let given = MetaArguments::read(&arguments);
        let asked =
            given.required("name").and_then(|name| Ok((name, texts(given.raw("arguments"))?)));
        let (name, arguments) = match asked {
            Ok(asked) => asked,
            Err(problem) => return Ok(Outcome::failure(problem)),
        };
        let Some(prompt) =
            cx.request.snapshot.catalog.prompts().find(|prompt| *prompt.name == *name)
        else {
            return Ok(describe_prompt::not_found(cx, &name));
        };
        let what = ResourceOperation::Prompt {
            name: prompt.local_name.to_string(),
            arguments: Some(arguments),
        };
        let ask = ResourceRequest { operation: what, meta, continuation };
        Ok(match cx.request.ask(&prompt.backend, ask).await {
            Ok(Outcome::Raw(result)) => messages(&result),
            Ok(outcome) => outcome,
            Err(error) => Outcome::failure(format!("Prompt retrieval failed: {error}")),
        })
    })
}

/// The arguments with every value as text, or the error.
fn texts(given: Option<&RawValue>) -> Result<Raw, String> {
    let none = RawObject::new().to_raw();
    let given = match given {
        None => return Ok(none),
        Some(given) if given.get() == "null" => return Ok(none),
        Some(given) => given,
    };
    let written: Option<String> = serde_json::from_str(given.get()).ok();
    let written: Option<Raw> = written.and_then(|text| serde_json::from_str(&text).ok());
    let given = written.as_deref().unwrap_or(given);
    let given = RawObject::parse(given).ok_or("arguments must be a JSON object")?;
    let mut texts = given.clone();
    for (name, value) in given.iter().filter(|(_, value)| !value.get().starts_with('"')) {
        match value.get() {
            "null" => texts.remove(name),
            other => texts.set_value(name.to_owned(), other),
        }
    }
    Ok(texts.to_raw())
}

fn messages(result: &RawValue) -> Outcome {
    let result = RawObject::parse(result).unwrap_or_default();
    let messages = result.get("messages").map_or("[]", RawValue::get);
    let mut answer = RawObject::new();
    answer.set_value("content", &[Text::of(messages)]);
    answer.set_value("isError", &false);
    if let Some(meta) = result.get("_meta") {
        answer.set("_meta", Cow::Borrowed(meta));
    }
    Outcome::Raw(answer.to_raw())
}
