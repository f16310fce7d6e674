//! The envelope of `call_tool`: the tool's result as one JSON text, with the keys that programs read
//! repeated outside.

use std::borrow::Cow;

use muster_core::{
    call::Outcome,
    json::{Raw, RawObject, raw},
};
use serde::Serialize;
use serde_json::value::RawValue;

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

/// Wraps an outcome. Requests for input pass through: the client repeats the call.
pub(super) fn wrap(outcome: &Outcome, repairs: &[String]) -> Outcome {
    match outcome {
        Outcome::InputRequired(_) => outcome.clone(),
        Outcome::Raw(result) => match RawObject::parse(result) {
            Some(result) => enclose(&result, repairs),
            None => {
                failure("Tool execution failed: the server's answer is not a result", None, repairs)
            }
        },
        Outcome::Text { text, failed, details } => {
            let mut result = RawObject::new();
            result.set_value("content", &[Text::of(text)]);
            result.set_value("isError", failed);
            if let Some(details) = details {
                result.set("structuredContent", Cow::Borrowed(&**details));
            }
            enclose(&result, repairs)
        }
    }
}

/// The reply for a tool that did not run.
pub(super) fn failure(text: &str, meta: Option<Raw>, repairs: &[String]) -> Outcome {
    let mut result = RawObject::new();
    result.set_value("content", &[Text::of(text)]);
    result.set_value("isError", &true);
    if let Some(meta) = meta {
        result.set("_meta", Cow::Owned(meta));
    }
    enclose(&result, repairs)
}

/// The text of a wrapped result.
pub(super) fn text(result: &RawValue) -> Option<String> {
    let content = RawObject::parse(result)?;
    let [item]: [&RawValue; 1] = serde_json::from_str(content.get("content")?.get()).ok()?;
    RawObject::parse(item)?.get_text("text")
}

fn enclose(result: &RawObject<'_>, repairs: &[String]) -> Outcome {
    let is_error = result.get("isError").is_some_and(|flag| flag.get() == "true");
    let mut inner = RawObject::new();
    inner.set("isError", Cow::Borrowed(if is_error { RawValue::TRUE } else { RawValue::FALSE }));
    inner.set_value("content", &<[(); 0]>::default());
    for (key, value) in result.iter().filter(|(key, _)| *key != "isError") {
        inner.set(key, Cow::Borrowed(value));
    }
    let text = inner.to_raw();
    let meta = meta(result.get("_meta"), repairs);
    Outcome::Raw(raw(&Envelope {
        content: [Text::of(text.get())],
        structured_content: result.get("structuredContent"),
        is_error,
        meta: meta.as_deref(),
    }))
}

/// The result of `call_tool`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Envelope<'a> {
    content: [Text<'a>; 1],
    #[serde(skip_serializing_if = "Option::is_none")]
    structured_content: Option<&'a RawValue>,
    is_error: bool,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<&'a RawValue>,
}

/// The `_meta` of the tool's result, with ours.
fn meta<'a>(own: Option<&'a RawValue>, repairs: &[String]) -> Option<Cow<'a, RawValue>> {
    if repairs.is_empty() {
        return own.map(Cow::Borrowed);
    }
    let mut meta = own.and_then(RawObject::parse).unwrap_or_default();
    meta.set(REPAIRED, Cow::Owned(raw(repairs)));
    Some(Cow::Owned(meta.to_raw()))
}
