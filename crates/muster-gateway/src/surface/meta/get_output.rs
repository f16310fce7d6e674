//! `get_output`: excerpts of a stored output.

use muster_core::{
    call::Outcome,
    json::{Raw, RawObject, raw},
};
use serde::Serialize;
use serde_json::value::RawValue;

use super::{
    MetaContext, MetaTool, OutcomeFuture, Run, arguments::MetaArguments, budget::Budget,
    envelope::Text, fitting::OutputSink, unknown_arguments,
};
use crate::{
    background_job,
    outputs::excerpt::{Excerpt, ExcerptRequest, NextPage},
    surface::ToolCall,
};

pub(super) const TOOL: MetaTool = MetaTool {
    name: "get_output",
    description: "Read a stored result: from `offset` (bytes) or `line`, by `grep`, `path` (JSONPath), `tail`, `count`, `block` \
        (image).",
    input_schema: r#"{"type":"object","properties":{"handle":{"type":"string"},"offset":{"type":"integer"},"line":{"type":"integer"},"grep":{"type":"string"},"path":{"type":"string"},"tail":{"type":"integer"},"count":{"type":"boolean"},"block":{"type":"integer"}},"required":["handle"]}"#,
    budget: BUDGET,
    run: Run::Look(run),
};

/// The default token budget of an excerpt.
pub(in crate::surface) const BUDGET: usize = 4_000;
/// The cost of the remarks beside an excerpt.
const AROUND: usize = 100;

#[derive(Serialize)]
struct Rest {
    #[serde(rename = "muster/next_offset", skip_serializing_if = "Option::is_none")]
    offset: Option<u64>,
    #[serde(rename = "muster/next_line", skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
}

/// The part of an output that is returned.
enum Looked {
    Excerpt(Excerpt),
    Block(Raw),
}

fn run<'a>(cx: &'a MetaContext<'a>, call: ToolCall) -> OutcomeFuture<'a> {
    Box::pin(async move {
        let sink = cx.sink();
        Ok(looked(&MetaArguments::read(&call.arguments), cx.budget, sink).await)
    })
}

/// Serves a call of `get_output` on a surface without meta-tools.
pub(in crate::surface) async fn called(
    arguments: &RawValue,
    budget: Budget,
    sink: OutputSink,
) -> Outcome {
    match unknown_arguments::refusal(&TOOL, arguments) {
        Some(refusal) => Outcome::failure(refusal),
        None => looked(&MetaArguments::read(arguments), budget, sink).await,
    }
}

/// Reads the excerpt that the arguments select.
async fn looked(given: &MetaArguments<'_>, budget: Budget, sink: OutputSink) -> Outcome {
    let (handle, block, look) = match read(given) {
        Ok(read) => read,
        Err(problem) => return Outcome::failure(problem),
    };
    let budget = budget.0.saturating_sub(AROUND);
    let looked = background_job::run(sink.owner.clone(), move |stop| {
        let output =
            sink.outputs.find(&sink.subject, &handle).map_err(|error| error.to_string())?;
        let output = output.stopped_by(stop);
        match block.or_else(|| output.only_block()) {
            Some(number) => output.block(number).map(Looked::Block),
            None => output.look(&look, budget).map(Looked::Excerpt),
        }
    });
    match looked.await {
        Some(Ok(Looked::Excerpt(piece))) => shown(&piece),
        Some(Ok(Looked::Block(block))) => {
            let mut result = RawObject::new();
            result.set_value("content", &[block]);
            result.set_value("isError", &false);
            Outcome::Raw(result.to_raw())
        }
        Some(Err(problem)) => Outcome::failure(problem),
        None => Outcome::failure("the output could not be read"),
    }
}

/// The handle, and the block or the excerpt.
type OutputRequest = (String, Option<u64>, ExcerptRequest);

fn read(given: &MetaArguments<'_>) -> Result<OutputRequest, String> {
    let number = |key, least| -> Result<Option<u64>, String> {
        Ok(given.count(key, least)?.map(|count| count as u64))
    };
    let (handle, block) = (given.required("handle")?, number("block", 1)?);
    let look = ExcerptRequest {
        offset: number("offset", 0)?,
        line: number("line", 1)?,
        limit: given.count("limit", 1)?,
        grep: given.text_only("grep")?,
        path: given.text_only("path")?,
        tail: given.count("tail", 1)?,
        count: given.flag_only("count")?,
    };
    let others = ["offset", "line", "limit", "grep", "path", "tail", "count"];
    match others.into_iter().find(|key| block.is_some() && given.has(key)) {
        Some(other) => Err(format!("a `block` is given as it is; leave out `{other}`")),
        None => Ok((handle, block, look)),
    }
}

/// The excerpt, followed by the remarks.
fn shown(piece: &Excerpt) -> Outcome {
    let (offset, line) = match piece.next {
        Some(NextPage::Offset(offset)) => (Some(offset), None),
        Some(NextPage::Line(line)) => (None, Some(line)),
        None => (None, None),
    };
    let more = match piece.next {
        Some(NextPage::Offset(offset)) => format!("; for more pass offset={offset}"),
        Some(NextPage::Line(line)) => format!("; for more pass line={line}"),
        None => String::new(),
    };
    let note = format!("{}{more}", piece.note);
    let mut result = RawObject::new();
    result.set_value("content", &[Text::of(&piece.text), Text::of(&note)]);
    result.set_value("isError", &false);
    if piece.next.is_some() {
        result.set("_meta", std::borrow::Cow::Owned(raw(&Rest { offset, line })));
    }
    Outcome::Raw(result.to_raw())
}
