//! Replies with the part of a result that a projection selects.
//!
//! **Invariant:** the whole result is stored before it is projected, so that a mistaken projection loses nothing: a tool
//! with an effect need not run again.

use std::{io, sync::Arc};

use muster_core::{
    call::Outcome,
    json::{Raw, RawObject},
    spooled::{SpooledResult, ToolResult},
};

use super::{
    BlockRoom, FitError, Fitted, FittedReply, Fitting, OutputSink, SpilledStdout, Stored, fitted,
    outline::{InlineResult, Outline},
    text_result,
};
use crate::{
    background_job::{self, StopSignal},
    dispatch::is_error,
    outputs::{StoredOutput, excerpt::Excerpt, preview::Preview},
    surface::meta::{budget::Budget, projection::Projection},
};

/// The token limit of the shape that is shown when a path selects nothing: enough to correct the path.
const SHAPE_TOKENS: usize = 150;
/// The tokens that are reserved for the note of an excerpt.
const NOTE_TOKENS: usize = 80;
/// How often an excerpt is shortened until it fits: escapes may make it longer than its text.
const MAX_ATTEMPTS: usize = 4;

/// Fits the part of a result that a projection selects into the budget. A failure is not projected.
pub(in crate::surface::meta) async fn projected(
    result: ToolResult,
    projection: Option<Projection>,
    budget: Budget,
    room: Option<&BlockRoom>,
    sink: &OutputSink,
) -> Result<Fitted, FitError> {
    let Some(projection) = projection.filter(|_| !is_failure(&result)) else {
        return fitted(result, budget, room, sink).await;
    };
    // Boxed: most calls have no projection, and need not reserve the memory for it.
    Box::pin(project(result, projection, budget, room, sink)).await
}

async fn project(
    result: ToolResult,
    projection: Projection,
    budget: Budget,
    room: Option<&BlockRoom>,
    sink: &OutputSink,
) -> Result<Fitted, FitError> {
    let source = match result {
        ToolResult::Spooled(spooled) => Source::Result(spooled),
        ToolResult::Inline(Outcome::Text { text, failed, details }) => {
            match details.as_deref().and_then(SpilledStdout::of) {
                Some(spilled) => Source::File(spilled),
                None => Source::in_memory(&text_result(&text, failed, details.as_deref())),
            }
        }
        ToolResult::Inline(Outcome::Raw(result)) if RawObject::parse(&result).is_some() => {
            Source::in_memory(&result)
        }
        ToolResult::Inline(outcome) => return Ok(Fitted::AsIs(outcome)),
    };
    let (sink, room) = (sink.clone(), room.cloned().unwrap_or_default());
    let job = background_job::run(sink.owner.clone(), move |stop| {
        let fitting = Fitting { budget, room, sink: &sink };
        match source {
            Source::Result(result) => fitting.project(&result, &projection, stop),
            Source::File(spilled) => {
                let stored = fitting.store_file(&spilled)?;
                let reply = fitting.beside_file(&spilled, false);
                let is_error = reply.is_error.clone();
                let excerpted = fitting.excerpted(reply, stored.clone(), &projection, stop);
                Ok(excerpted
                    .unwrap_or_else(|why| fitting.preview_with_reason(is_error, stored, why)))
            }
        }
    });
    let fitted =
        job.await.unwrap_or_else(|| Err(io::Error::other("the background job failed").into()));
    fitted.map(|reply| Fitted::Reply(Box::new(reply)))
}

/// The source of a result.
enum Source {
    Result(Arc<dyn SpooledResult>),
    /// The output of a command that exceeded the memory limit.
    File(SpilledStdout),
}

impl Source {
    fn in_memory(result: &serde_json::value::RawValue) -> Self {
        Self::Result(Arc::new(InlineResult::new(result)))
    }
}

fn is_failure(result: &ToolResult) -> bool {
    match result {
        ToolResult::Inline(Outcome::Text { failed, .. }) => *failed,
        ToolResult::Inline(Outcome::Raw(result)) => is_error(result),
        ToolResult::Inline(Outcome::InputRequired(_)) => false,
        ToolResult::Spooled(spooled) => spooled.failed(),
    }
}

impl Fitting<'_> {
    fn project(
        &self,
        result: &Arc<dyn SpooledResult>,
        projection: &Projection,
        stop: &StopSignal,
    ) -> Result<FittedReply, FitError> {
        let source = &**result;
        let outline = Outline::of(source)?;
        let Some(items) = &outline.items else { return self.whole(source, &outline, None) };
        if outline.structured.is_none() && items.iter().all(|item| item.text().is_none()) {
            // There is nothing to select from.
            return self.fit(result);
        }
        let (mut reply, blocks) = self.taken_apart(source, &outline, items)?;
        let Some(Stored { stored, .. }) = self.store(result, &outline, items, blocks)? else {
            return self.whole(source, &outline, None);
        };
        reply.load_around_preview(source, &outline, items, None)?;
        match self.excerpted(reply, stored, projection, stop) {
            Ok(reply) => Ok(reply),
            // The other content is not stored yet, and must not be lost.
            Err(why) => self.whole(source, &outline, Some(why)),
        }
    }

    /// The reply with the excerpt that a projection selects; with a preview and the reason if there is no excerpt or it
    /// does not fit. If the preview does not fit either, the reason is the error.
    fn excerpted(
        &self,
        mut reply: FittedReply,
        stored: StoredOutput,
        projection: &Projection,
        stop: &StopSignal,
    ) -> Result<FittedReply, String> {
        let request = projection.request();
        let readable = stored.clone().stopped_by(stop);
        let mut room = self.budget.0.saturating_sub(NOTE_TOKENS + reply.cost()).max(NOTE_TOKENS);
        for _ in 0..MAX_ATTEMPTS {
            let excerpt = match readable.look(&request, room) {
                Ok(excerpt) => excerpt,
                Err(problem) => {
                    let why = format!("[nothing is selected: {problem}]");
                    return self.fall_back_to_preview(reply, stored, why);
                }
            };
            reply.note = Some(note(&excerpt, &stored, projection, room));
            reply.preview = Some(excerpt.text);
            let cost = reply.cost();
            if cost <= self.budget.0 {
                reply.stored = Some(stored);
                return Ok(reply);
            }
            room = room * self.budget.0 / cost * 9 / 10;
        }
        self.fall_back_to_preview(
            reply,
            stored,
            "[the selection does not fit max_tokens]".to_owned(),
        )
    }

    /// The reply with a preview and the reason why there is no excerpt; the reason as the error if that does not fit.
    fn fall_back_to_preview(
        &self,
        mut reply: FittedReply,
        stored: StoredOutput,
        why: String,
    ) -> Result<FittedReply, String> {
        reply.preview = None;
        reply.note = Some(why.clone());
        self.previewed(reply, stored).ok_or(why)
    }

    /// The reply with a preview of a file and the reason why there is no excerpt; with the reason only if the preview does
    /// not fit.
    fn preview_with_reason(
        &self,
        is_error: Option<Raw>,
        stored: StoredOutput,
        why: String,
    ) -> FittedReply {
        let mut bare = FittedReply::failed(false);
        (bare.is_error, bare.note) = (is_error, Some(why));
        bare.stored = Some(stored.clone());
        self.previewed(bare.clone(), stored).unwrap_or(bare)
    }
}

/// The note about an excerpt: the whole that it is part of, and the calls to read more.
fn note(excerpt: &Excerpt, stored: &StoredOutput, projection: &Projection, room: usize) -> String {
    let (handle, note) = (&stored.handle, &excerpt.note);
    if let Some(shape) = shape(excerpt, stored, room) {
        return format!(
            "[{note}; the result has this shape: {shape}; all of it: get_output {{\"handle\":\"{handle}\"}}]"
        );
    }
    let next = excerpt.next.as_ref().map(|next| {
        let more = projection.next_page(handle, next);
        format!("; for more: get_output {more}")
    });
    let next = next.unwrap_or_default();
    format!("[{note}{next}; all of it: get_output {{\"handle\":\"{handle}\"}}]")
}

/// The shape of a result in which a path selects nothing. The caller wrote the path before it saw a result.
fn shape(excerpt: &Excerpt, stored: &StoredOutput, room: usize) -> Option<String> {
    let room = if excerpt.selects_nothing { SHAPE_TOKENS.min(room / 2) } else { return None };
    Preview::read(stored, room).ok()?.shape_within(room)
}
