//! `get_prompt`: the messages of a prompt with its arguments filled in.

use std::borrow::Cow;

use muster_core::{
    backend::{ResourceOperation, ResourceRequest},
    call::Outcome,
    json::{Raw, RawObject, raw},
};
use serde::Serialize;
use serde_json::value::RawValue;

use super::{
    MetaContext, MetaTool, OutcomeFuture, Run,
    arguments::MetaArguments,
    describe_prompt,
    envelope::{Text, with_content},
};
use crate::{outputs::block::BlockAbout, surface::ToolCall};

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

/// The messages as text. Images, audio and binary resources follow as blocks, and the text names their numbers.
fn messages(result: &RawValue) -> Outcome {
    let result = RawObject::parse(result).unwrap_or_default();
    let messages = result.get("messages");
    let (text, blocks) = match messages.and_then(lifted) {
        Some((text, blocks)) => (Cow::Owned(text.get().to_owned()), blocks),
        None => (Cow::Borrowed(messages.map_or("[]", RawValue::get)), Vec::new()),
    };
    let mut content = vec![raw(&Text::of(&text))];
    content.extend(blocks);
    with_content(&content, &result)
}

/// Splits messages into text and the blocks that are not text; `None` if everything is text.
fn lifted(messages: &RawValue) -> Option<(Raw, Vec<Raw>)> {
    let messages: Vec<&RawValue> = serde_json::from_str(messages.get()).ok()?;
    let mut blocks: Vec<Raw> = Vec::new();
    let mut texts: Vec<Raw> = Vec::new();
    for message in messages {
        let mut object = RawObject::parse(message).unwrap_or_default();
        match object.get("content").and_then(|content| Some((about(content)?, content.to_owned())))
        {
            Some((about, block)) => {
                blocks.push(block);
                object.set_value("content", &Lifted { about, block: blocks.len() });
                texts.push(object.to_raw());
            }
            None => texts.push(message.to_owned()),
        }
    }
    (!blocks.is_empty()).then(|| (raw(&texts), blocks))
}

/// The description of contents that are not text.
fn about(content: &RawValue) -> Option<BlockAbout> {
    let content = RawObject::parse(content)?;
    let kind = content.get_text("type")?;
    let holder = match kind.as_str() {
        "image" | "audio" => content.clone(),
        "resource" => RawObject::parse(content.get("resource")?)?,
        _ => return None,
    };
    let data = holder.get_text(if kind == "resource" { "blob" } else { "data" })?;
    Some(BlockAbout {
        uri: holder.get_text("uri"),
        mime_type: holder.get_text("mimeType"),
        data_size: Some(data.len() as u64),
        r#type: kind,
    })
}

/// The text in place of a block.
#[derive(Serialize)]
struct Lifted {
    #[serde(flatten)]
    about: BlockAbout,
    /// The number of the block, from 1.
    block: usize,
}
