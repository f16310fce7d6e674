//! The envelope of `call_tool`: the tool's result as one JSON text, with the keys that programs read
//! repeated outside, followed by the content blocks that are not text.

use std::borrow::Cow;

use muster_core::{
    call::Outcome,
    json::{Raw, RawObject, raw},
    token_estimate,
};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::{budget::Budget, fitting::mirror::repeats_text};

/// The tokens around the text of a failure.
const FAILURE_OVERHEAD: usize = 40;
/// The key of the repairs in `_meta`.
const REPAIRED: &str = "muster/repaired";

/// A text item of `content`.
#[derive(Serialize)]
pub(super) struct Text<'a> {
    r#type: &'static str,
    text: &'a str,
}

impl<'a> Text<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        Self { r#type: "text", text }
    }
}

/// The outcome with the content of a prompt or a resource, and with the `_meta` of the server's result.
pub(super) fn with_content(content: &[Raw], result: &RawObject<'_>) -> Outcome {
    let mut reply = RawObject::new();
    reply.set_value("content", content);
    reply.set_value("isError", &false);
    if let Some(meta) = result.get("_meta") {
        reply.set("_meta", Cow::Borrowed(meta));
    }
    Outcome::Raw(reply.to_raw())
}

/// Wraps an outcome without blocks. Requests for input pass through: the client repeats the call.
pub(super) fn wrap(outcome: &Outcome, repairs: &[String]) -> Outcome {
    match outcome {
        Outcome::InputRequired(_) => outcome.clone(),
        Outcome::Raw(result) => match RawObject::parse(result) {
            Some(result) => wrap_result(&result, repairs),
            None => {
                let text = "Tool execution failed: the server's answer is not a result";
                failed(text, None, repairs)
            }
        },
        Outcome::Text { text, failed, details } => {
            let mut result = RawObject::new();
            result.set_value("content", &[Text::of(text)]);
            result.set_value("isError", failed);
            if let Some(details) = details {
                result.set("structuredContent", Cow::Borrowed(&**details));
            }
            wrap_result(&result, repairs)
        }
    }
}

/// The reply for a tool that did not run, or whose result was lost. A text that exceeds the budget is cut.
pub(super) fn failure(
    text: &str,
    meta: Option<Raw>,
    repairs: &[String],
    budget: Budget,
) -> Outcome {
    let beside = meta.as_deref().map_or(0, |meta| token_estimate::estimate(meta.get()));
    let room = budget.0.saturating_sub(FAILURE_OVERHEAD + beside);
    failed(&Budget(room).cut(text), meta, repairs)
}

fn failed(text: &str, meta: Option<Raw>, repairs: &[String]) -> Outcome {
    let mut result = RawObject::new();
    result.set_value("content", &[Text::of(text)]);
    result.set_value("isError", &true);
    if let Some(meta) = meta {
        result.set("_meta", Cow::Owned(meta));
    }
    wrap_result(&result, repairs)
}

/// The whole result as text, with `isError` and `content` first.
fn wrap_result(result: &RawObject<'_>, repairs: &[String]) -> Outcome {
    let structured = result.get("structuredContent");
    // Most servers repeat structured content as text for older clients. Once is enough for an agent.
    let repeated = structured.is_some_and(|structured| {
        only_text(result).is_some_and(|text| repeats_text(&text, structured))
    });
    let mut inside = RawObject::new();
    let first = ["isError", "content"];
    for key in first {
        let before = result.iter().filter(|(name, _)| *name == key);
        before.for_each(|(key, value)| inside.append(key, Cow::Borrowed(value)));
        match key {
            _ if result.get(key).is_some() => (),
            "isError" => inside.append(key, Cow::Borrowed(RawValue::FALSE)),
            _ => inside.append(key, Cow::Owned(raw(&<[(); 0]>::default()))),
        }
    }
    let left_out = |key: &str| first.contains(&key) || repeated && key == "structuredContent";
    for (key, value) in result.iter().filter(|(key, _)| !left_out(key)) {
        inside.append(key, Cow::Borrowed(value));
    }
    enclose(&inside, [].into_iter(), structured, result.get("_meta"), repairs)
}

/// The text of a result with one text.
fn only_text(result: &RawObject<'_>) -> Option<String> {
    let [item]: [&RawValue; 1] = serde_json::from_str(result.get("content")?.get()).ok()?;
    RawObject::parse(item)?.get_text("text")
}

/// The reply of `call_tool`: the result as text, then blocks.
pub(super) fn enclose<'a>(
    inside: &'a RawObject<'a>,
    blocks: impl Iterator<Item = &'a RawValue>,
    structured_content: Option<&RawValue>,
    meta: Option<&RawValue>,
    repairs: &[String],
) -> Outcome {
    let mut content = vec![Block::Result { r#type: "text", text: JsonText(inside) }];
    for block in blocks {
        content.push(Block::Raw(block));
    }
    let is_error = inside.get("isError").is_some_and(|flag| flag.get() == "true");
    let meta = with_repairs(meta, repairs);
    let meta = meta.as_deref();
    Outcome::Raw(raw(&Envelope { content, structured_content, is_error, meta }))
}

/// The result of `call_tool`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Envelope<'a> {
    content: Vec<Block<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    structured_content: Option<&'a RawValue>,
    is_error: bool,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<&'a RawValue>,
}

/// A content block of the reply.
#[derive(Serialize)]
#[serde(untagged)]
enum Block<'a> {
    Text(Text<'a>),
    Result { r#type: &'static str, text: JsonText<'a> },
    Raw(&'a RawValue),
}

/// An object that is serialized as a JSON string, escaped while it is written.
struct JsonText<'a>(&'a RawObject<'a>);

impl Serialize for JsonText<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self.0)
    }
}

/// The reply of `call_tools`, from those of its calls.
#[derive(Default)]
pub(super) struct Batch {
    results: Vec<Raw>,
    blocks: Vec<Raw>,
    repairs: Vec<String>,
    failed: usize,
}

impl Batch {
    /// The place of the next block in the content of the reply.
    pub(super) fn next_block(&self) -> usize {
        self.blocks.len() + 1
    }

    /// Adds the reply of one call.
    pub(super) fn push(&mut self, tool: &str, reply: &Outcome, repairs: &[String]) {
        let mut result = RawObject::new();
        result.set_value("name", tool);
        let mut failed = true;
        match reply {
            Outcome::Raw(reply) => {
                let parts = RawObject::parse(reply).unwrap_or_default();
                let content = parts.get("content").map(RawValue::get).unwrap_or("[]");
                let content: Vec<&RawValue> = serde_json::from_str(content).unwrap_or_default();
                let mut content = content.into_iter();
                let text = content.next().and_then(RawObject::parse);
                let inside = text.and_then(|item| item.get_text("text")).unwrap_or_default();
                let inside: Option<&RawValue> = serde_json::from_str(&inside).ok();
                let inside = inside.and_then(RawObject::parse).unwrap_or_default();
                // The server's result may have a member of the same name.
                for (key, value) in inside.iter().filter(|(key, _)| *key != "name") {
                    result.append(key.to_owned(), Cow::Owned(value.to_owned()));
                }
                failed = parts.get("isError").is_some_and(|flag| flag.get() == "true");
                self.blocks.extend(content.map(ToOwned::to_owned));
            }
            Outcome::Text { text, .. } => {
                result.set_value("isError", &true);
                result.set_value("content", &[Text::of(text)]);
            }
            Outcome::InputRequired(_) => result.set_value("isError", &true),
        }
        self.failed += usize::from(failed);
        self.results.push(result.to_raw());
        let place = self.results.len();
        self.repairs.extend(repairs.iter().map(|repair| format!("call {place}: {repair}")));
    }

    /// The reply. It is an error if all calls failed.
    pub(super) fn reply(&self) -> Outcome {
        let text = raw(&self.results);
        let mut content = vec![Block::Text(Text::of(text.get()))];
        content.extend(self.blocks.iter().map(|block| Block::Raw(block)));
        let meta = with_repairs(None, &self.repairs);
        let is_error = self.failed == self.results.len();
        let meta = meta.as_deref();
        Outcome::Raw(raw(&Envelope { content, structured_content: None, is_error, meta }))
    }
}

/// The `_meta` of the tool's result, with the repairs added.
fn with_repairs<'a>(own: Option<&'a RawValue>, repairs: &[String]) -> Option<Cow<'a, RawValue>> {
    if repairs.is_empty() {
        return own.map(Cow::Borrowed);
    }
    let mut meta = own.and_then(RawObject::parse).unwrap_or_default();
    meta.set(REPAIRED, Cow::Owned(raw(repairs)));
    Some(Cow::Owned(meta.to_raw()))
}
