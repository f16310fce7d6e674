//! Fits a result into a token budget: a longer one is stored, and a preview is returned.

mod spooled;

use std::{borrow::Cow, path::PathBuf, sync::Arc};

use muster_core::{
    call::Outcome,
    json::{Raw, RawObject, raw},
    spooled::{SpooledResult, ToolResult},
    token_estimate,
};
use serde::{Serialize, de::IgnoredAny};
use serde_json::value::RawValue;

use super::{budget::Budget, envelope::Text};
use crate::outputs::{
    OutputBody, OutputKind, Outputs, StoredOutput,
    preview::{self, note},
};

/// The key of a stored output in `_meta`.
const OUTPUT: &str = "muster/output";
/// The longest `_meta` of a tool that is passed on.
const MAX_META: usize = 2_000;

/// The store for long results of one caller.
#[derive(Debug, Clone)]
pub(in crate::surface) struct OutputSink {
    pub(in crate::surface) outputs: Arc<Outputs>,
    pub(in crate::surface) owner: Arc<str>,
}

/// A result to store.
struct Long {
    kind: OutputKind,
    body: OutputBody,
    /// The beginning of the contents, if they are in a file.
    beginning: String,
    failed: bool,
    meta: Option<Raw>,
}

/// Returns a result unchanged if it costs at most `budget`, otherwise a preview.
pub(in crate::surface) async fn fit(
    outcome: Outcome,
    budget: Budget,
    sink: &OutputSink,
) -> Outcome {
    let Some(long) = long(&outcome, budget) else { return outcome };
    drop(outcome);
    let sink = sink.clone();
    let fitted = tokio::task::spawn_blocking(move || previewed(long, budget, &sink)).await;
    fitted.unwrap_or_else(|_| Outcome::failure("the answer is too long, and could not be kept"))
}

/// Fits a result that may be spooled; a spooled result is always a preview.
pub(in crate::surface) async fn fit_result(
    result: ToolResult,
    budget: Budget,
    sink: &OutputSink,
) -> Outcome {
    match result {
        ToolResult::Inline(outcome) => fit(outcome, budget, sink).await,
        ToolResult::Spooled(bulk) => fit_spooled(bulk, budget, sink).await,
    }
}

async fn fit_spooled(bulk: Arc<dyn SpooledResult>, budget: Budget, sink: &OutputSink) -> Outcome {
    let sink = sink.clone();
    let fitted = tokio::task::spawn_blocking(move || {
        spooled::long(&*bulk).map(|long| previewed(long, budget, &sink))
    });
    let lost = "Tool execution failed: the answer is too long, and could not be kept";
    match fitted.await {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(error)) => Outcome::failure(format!("{lost}: {error}")),
        Err(_) => Outcome::failure(lost),
    }
}

fn long(outcome: &Outcome, budget: Budget) -> Option<Long> {
    match outcome {
        Outcome::InputRequired(_) => None,
        Outcome::Raw(result) => (!budget.holds(result.get())).then(|| of_result(result))?,
        Outcome::Text { text, failed, details } => {
            if let Some(file) = details.as_deref().and_then(spilled) {
                let (body, beginning) = (OutputBody::File(file), text.clone());
                return Some(Long {
                    kind: OutputKind::Text,
                    body,
                    beginning,
                    failed: *failed,
                    meta: None,
                });
            }
            let details = details.as_deref();
            let short = |details: &RawValue| budget.holds(details.get());
            if budget.holds(text) && details.is_none_or(short) {
                return None;
            }
            let mut result = RawObject::new();
            result.set_value("content", &[Text::of(text)]);
            if let Some(details) = details {
                result.set("structuredContent", Cow::Borrowed(details));
            }
            result.set_value("isError", failed);
            of_result(&result.to_raw())
        }
    }
}

/// The file with the whole output of a command that exceeded the memory limit.
fn spilled(details: &RawValue) -> Option<PathBuf> {
    let details = RawObject::parse(details)?;
    let file = |key| details.get_text(key).map(PathBuf::from);
    file("stdout_file").or_else(|| file("stderr_file"))
}

/// A single text or binary item is stored by itself, anything else as the whole result.
fn of_result(result: &RawValue) -> Option<Long> {
    let members = RawObject::parse(result)?;
    let failed = members.get("isError").is_some_and(|flag| flag.get() == "true");
    let meta = members.get("_meta").filter(|meta| meta.get().len() <= MAX_META);
    let meta = meta.map(ToOwned::to_owned);
    let content: Vec<&RawValue> = members
        .get("content")
        .and_then(|content| serde_json::from_str(content.get()).ok())
        .unwrap_or_default();
    let structured = members.get("structuredContent");
    let (kind, body) = match content.as_slice() {
        [only] => single(only, structured),
        _ => None,
    }
    .unwrap_or_else(|| (OutputKind::Json, result.get().to_owned()));
    Some(Long { kind, body: OutputBody::Text(body), beginning: String::new(), failed, meta })
}

fn single(item: &RawValue, structured: Option<&RawValue>) -> Option<(OutputKind, String)> {
    let item = RawObject::parse(item)?;
    if let Some(text) = item.get_text("text") {
        // Most servers repeat structured content as text.
        let same = |structured: &RawValue| {
            let read = |text| serde_json::from_str::<serde_json::Value>(text).ok();
            read(&text).is_some_and(|value| Some(value) == read(structured.get()))
        };
        if !structured.is_none_or(same) {
            return None;
        }
        let kind = if is_json(&text) { OutputKind::Json } else { OutputKind::Text };
        return Some((kind, text));
    }
    let data = item.get_text("data").filter(|_| structured.is_none())?;
    let mime_type = item.get_text("mimeType").unwrap_or_else(|| "data".to_owned());
    Some((OutputKind::Binary { mime_type }, data))
}

fn is_json(text: &str) -> bool {
    text.trim_start().starts_with(['{', '[']) && serde_json::from_str::<IgnoredAny>(text).is_ok()
}

fn previewed(long: Long, budget: Budget, sink: &OutputSink) -> Outcome {
    let Long { kind, body, beginning, failed, meta } = long;
    let (shown, in_memory) = match &body {
        OutputBody::Text(text) => (text.clone(), true),
        OutputBody::File(_) | OutputBody::Stream(_) => (beginning, false),
    };
    let kept = match sink.outputs.keep(&sink.owner, kind.clone(), body) {
        Ok(kept) => kept,
        Err(error) => {
            tracing::warn!("a long answer could not be kept: {error}");
            let head = token_estimate::prefix(&shown, budget.0 / 2);
            let text = format!("{head}\n\n[cut: the rest could not be kept; narrow the call]");
            return Outcome::Text { text, failed, details: None };
        }
    };
    let written = |share: usize| {
        let room = budget.0 / share;
        let preview = match in_memory {
            true => preview::of(&kind, &shown, room),
            false => preview::of_kept(&kept, &shown, room),
        };
        result(&preview, &kept, failed, meta.as_deref())
    };
    let fitting = [2, 4, 8, 16].into_iter().map(written).find(|one| budget.holds(one.get()));
    Outcome::Raw(fitting.unwrap_or_else(|| result("", &kept, failed, None)))
}

/// The description of a stored output in `_meta`.
#[derive(Serialize)]
struct About<'a> {
    handle: &'a str,
    #[serde(flatten)]
    kind: &'a OutputKind,
    bytes: u64,
    lines: u64,
    expires: i64,
}

fn result(preview: &str, kept: &StoredOutput, failed: bool, own: Option<&RawValue>) -> Raw {
    let note = note(kept);
    let text = if preview.is_empty() { note } else { format!("{preview}\n\n{note}") };
    let StoredOutput { handle, kind, bytes, lines, expires, .. } = kept;
    let about = About { handle, kind, bytes: *bytes, lines: *lines, expires: *expires };
    let mut meta = own.and_then(RawObject::parse).unwrap_or_default();
    meta.set(OUTPUT, Cow::Owned(raw(&about)));
    let mut result = RawObject::new();
    result.set_value("content", &[Text::of(&text)]);
    result.set_value("isError", &failed);
    result.set("_meta", Cow::Owned(meta.to_raw()));
    result.to_raw()
}
