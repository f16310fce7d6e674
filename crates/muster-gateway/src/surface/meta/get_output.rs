//! `get_output`: excerpts of a stored output.

use muster_core::{
    call::Outcome,
    json::{RawObject, raw},
};
use serde::Serialize;

use super::{
    MetaContext, MetaTool, OutcomeFuture, Run, arguments::MetaArguments, budget::Budget,
    envelope::Text, fitting::OutputSink,
};
use crate::{
    background_job,
    outputs::excerpt::{Excerpt, ExcerptRequest},
    surface::ToolCall,
};

pub(super) const TOOL: MetaTool = MetaTool {
    name: "get_output",
    description: "Read a result by its handle: from `offset` (bytes) or `line`, the lines that match `grep` (regex), what \
        `path` (JSONPath) selects, the last `tail` lines, or a `count`.",
    input_schema: r#"{"type":"object","properties":{"handle":{"type":"string"},"offset":{"type":"integer"},"line":{"type":"integer"},"limit":{"type":"integer"},"grep":{"type":"string"},"path":{"type":"string"},"tail":{"type":"integer"},"count":{"type":"boolean"},"max_tokens":{"type":"integer"}},"required":["handle"]}"#,
    budget: BUDGET,
    run: Run::Look(run),
};

/// The default token budget of an excerpt.
pub(in crate::surface) const BUDGET: usize = 4_000;
/// The cost of the remarks beside an excerpt.
const AROUND: usize = 100;

#[derive(Serialize)]
struct Rest {
    #[serde(rename = "muster/next_offset")]
    next: u64,
}

fn run<'a>(cx: &'a MetaContext<'a>, call: ToolCall) -> OutcomeFuture<'a> {
    Box::pin(async move {
        let sink = cx.sink();
        Ok(looked(&MetaArguments::read(&call.arguments), cx.budget, sink).await)
    })
}

/// Reads the excerpt that the arguments select.
pub(in crate::surface) async fn looked(
    given: &MetaArguments<'_>,
    budget: Budget,
    sink: OutputSink,
) -> Outcome {
    let (handle, look) = match read(given) {
        Ok(read) => read,
        Err(problem) => return Outcome::failure(problem),
    };
    let budget = budget.0.saturating_sub(AROUND);
    let looked = background_job::run(move |stop| {
        let OutputSink { outputs, owner } = sink;
        let kept = outputs.find(&owner, &handle).map_err(|error| error.to_string())?;
        kept.stopped_by(stop).look(&look, budget)
    });
    match looked.await {
        Some(Ok(piece)) => shown(&piece),
        Some(Err(problem)) => Outcome::failure(problem),
        None => Outcome::failure("the output could not be read"),
    }
}

fn read(given: &MetaArguments<'_>) -> Result<(String, ExcerptRequest), String> {
    let number = |key, least| -> Result<Option<u64>, String> {
        Ok(given.count(key, least)?.map(|count| count as u64))
    };
    let look = ExcerptRequest {
        offset: number("offset", 0)?,
        line: number("line", 1)?,
        limit: given.count("limit", 1)?,
        grep: given.text("grep"),
        path: given.text("path"),
        tail: given.count("tail", 1)?,
        count: given.flag("count").unwrap_or(false),
    };
    Ok((given.required("handle")?, look))
}

/// The excerpt, followed by the remarks.
fn shown(piece: &Excerpt) -> Outcome {
    let more = piece.next.map(|next| format!("; for more pass offset={next}"));
    let note = format!("{}{}", piece.note, more.unwrap_or_default());
    let mut result = RawObject::new();
    result.set_value("content", &[Text::of(&piece.text), Text::of(&note)]);
    result.set_value("isError", &false);
    if let Some(next) = piece.next {
        result.set("_meta", std::borrow::Cow::Owned(raw(&Rest { next })));
    }
    Outcome::Raw(result.to_raw())
}
