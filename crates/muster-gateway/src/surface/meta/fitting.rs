//! Fits a result into a token budget: a result that is too long is stored, and a preview is returned.
//!
//! Images, audio and resources stay separate content blocks of the reply, whatever the token budget is, up to a
//! limit in bytes.

mod block_room;
pub(super) mod mirror;
mod outline;
mod output_sink;
mod projected;
mod reply;
mod texts;

use std::{
    fs::File,
    io::{self, BufReader, Read},
    ops::Range,
    path::PathBuf,
    sync::{Arc, LazyLock},
};

use memchr::memmem::Finder;
use muster_core::{
    call::Outcome,
    json::{Raw, RawObject, raw},
    spooled::{SpooledResult, ToolResult},
    token_estimate,
};
use serde_json::value::RawValue;
use thiserror::Error;

pub(super) use self::block_room::BlockRoom;
pub(in crate::surface) use self::output_sink::OutputSink;
pub(super) use self::projected::projected;
pub(super) use self::reply::FittedReply;
use self::{
    outline::{InlineResult, Item, ItemKind, Outline, part, raw_of, unescaped},
    reply::Piece,
    texts::{JoinedTexts, is_json},
};
use super::{
    budget::Budget,
    envelope::{self, Text},
    projection::Projection,
};
use crate::outputs::{
    CHUNK, KeepError, NewOutput, OutputBody, OutputKind, StoredOutput,
    block::{BlockAbout, NewBlock},
    preview::{Preview, note},
};

/// The longest `_meta` of a tool that is passed on with a preview, and the longest data of an error, in bytes.
const MAX_META: usize = 2_000;
/// The longest structured content that is passed on with a preview.
const MAX_STRUCTURED: u64 = 1_000;
/// An upper bound of the bytes of a token.
const BYTES_PER_TOKEN: u64 = 8;

/// A result within its budget.
pub(super) enum Fitted {
    /// Unchanged.
    AsIs(Outcome),
    /// With a preview in place of long parts, or with blocks.
    Reply(Box<FittedReply>),
}

impl Fitted {
    /// An upper bound of the tokens of the reply.
    pub(super) fn cost(&self) -> usize {
        match self {
            Self::AsIs(outcome) => outcome_cost(outcome),
            Self::Reply(reply) => reply.cost(),
        }
    }

    /// The reply of `call_tool`. The first block beside the text is `first` in its content.
    pub(super) fn enclosed(&self, repairs: &[String], first: usize) -> Outcome {
        match self {
            Self::AsIs(outcome) => envelope::wrap(outcome, repairs),
            Self::Reply(reply) => reply.enclosed(repairs, first),
        }
    }
}

/// An upper bound of the tokens of an outcome.
pub(super) fn outcome_cost(outcome: &Outcome) -> usize {
    match outcome {
        Outcome::Raw(result) => token_estimate::estimate(result.get()),
        Outcome::Text { text, details, .. } => {
            let details = details.as_deref().map_or(0, |details| details.get().len());
            2 * token_estimate::estimate(text) + details
        }
        Outcome::InputRequired(_) => 0,
    }
}

/// Why a result cannot be fitted. The tool ran.
#[derive(Debug, Error)]
pub(super) enum FitError {
    /// It cannot be stored.
    #[error("{error}{}", begins_with(.beginning))]
    NotKept {
        error: KeepError,
        /// As much of the result as the reply has room for.
        beginning: String,
    },
    /// It cannot be read.
    #[error("could not read the answer: {0}")]
    Unreadable(#[from] io::Error),
}

fn begins_with(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("\nthe answer begins with:\n{text}") }
}

/// Returns a result unchanged if it costs at most `budget`, otherwise a preview.
pub(in crate::surface) async fn fit(
    outcome: Outcome,
    budget: Budget,
    sink: &OutputSink,
) -> Outcome {
    fit_result(outcome.into(), None, budget, sink).await
}

/// Fits a result that may be spooled, or the part of it that a projection selects.
pub(in crate::surface) async fn fit_result(
    result: ToolResult,
    projection: Option<Projection>,
    budget: Budget,
    sink: &OutputSink,
) -> Outcome {
    match projected(result, projection, budget, None, sink).await {
        Ok(Fitted::AsIs(outcome)) => outcome,
        Ok(Fitted::Reply(reply)) => reply.direct(),
        Err(error) => Outcome::failure(error.to_string()),
    }
}

/// Fits a result that may be spooled, for the envelope of `call_tool`. Its blocks share `room` with those of others, if
/// there are others in the reply.
pub(super) async fn fitted(
    result: ToolResult,
    budget: Budget,
    room: Option<&BlockRoom>,
    sink: &OutputSink,
) -> Result<Fitted, FitError> {
    let long: LongFit = match result {
        ToolResult::Inline(outcome) => match long(outcome, budget) {
            Long::No(outcome) => return Ok(Fitted::AsIs(outcome)),
            Long::Result(result) => Box::new(move |fitting| fitting.fit(&result)),
            Long::File { spilled, failed } => {
                Box::new(move |fitting| fitting.fit_file(&spilled, failed))
            }
        },
        ToolResult::Spooled(spooled) => Box::new(move |fitting| fitting.fit(&spooled)),
    };
    let (sink, room) = (sink.clone(), room.cloned().unwrap_or_default());
    let job = tokio::task::spawn_blocking(move || long(&Fitting { budget, room, sink: &sink }));
    let fitted = job.await.unwrap_or_else(|error| Err(io::Error::other(error).into()));
    fitted.map(|reply| Fitted::Reply(Box::new(reply)))
}

/// Fits a result that is too long for an I/O thread.
type LongFit = Box<dyn FnOnce(&Fitting<'_>) -> Result<FittedReply, FitError> + Send>;

/// An outcome that may be too long.
enum Long {
    No(Outcome),
    Result(Arc<dyn SpooledResult>),
    /// The output of a command that exceeded the memory limit.
    File {
        spilled: SpilledStdout,
        failed: bool,
    },
}

/// The output of a command whose standard output is in a file.
struct SpilledStdout {
    path: PathBuf,
    /// Its standard error, as far as it is known here, and its exit code.
    beside: String,
}

fn long(outcome: Outcome, budget: Budget) -> Long {
    match &outcome {
        Outcome::InputRequired(_) => Long::No(outcome),
        Outcome::Raw(result) => {
            // Our own envelope is a few bytes longer than the result.
            let fits = result.get().len() + 64 <= budget.0 || {
                let room = Budget(budget.0.saturating_sub(24));
                room.holds(result.get())
            };
            if fits && !may_have_blocks(result.get()) || RawObject::parse(result).is_none() {
                return Long::No(outcome);
            }
            Long::Result(Arc::new(InlineResult::new(result)))
        }
        Outcome::Text { text, failed, details } => {
            if let Some(spilled) = details.as_deref().and_then(SpilledStdout::of) {
                return Long::File { spilled, failed: *failed };
            }
            let size = text.len() + details.as_deref().map_or(0, |details| details.get().len());
            if size * 2 + 128 <= budget.0 {
                return Long::No(outcome);
            }
            let result = text_result(text, *failed, details.as_deref());
            if Budget(budget.0.saturating_sub(24)).holds(result.get()) {
                return Long::No(outcome);
            }
            Long::Result(Arc::new(InlineResult::new(&result)))
        }
    }
}

/// The types of blocks that are not text, as they are written.
static BLOCK_TYPES: LazyLock<[Finder<'static>; 4]> = LazyLock::new(|| {
    [r#""image""#, r#""audio""#, r#""resource""#, r#""resource_link""#].map(Finder::new)
});

/// The result of a tool that answers with text.
fn text_result(text: &str, failed: bool, details: Option<&RawValue>) -> Raw {
    let mut result = RawObject::new();
    result.set_value("content", &[Text::of(text)]);
    result.set_value("isError", &failed);
    if let Some(details) = details {
        result.set("structuredContent", std::borrow::Cow::Borrowed(details));
    }
    result.to_raw()
}

/// Whether content may have blocks that are not text. Most results are only searched, not parsed.
fn may_have_blocks(result: &str) -> bool {
    BLOCK_TYPES.iter().any(|word| word.find(result.as_bytes()).is_some())
}

impl SpilledStdout {
    fn of(details: &RawValue) -> Option<Self> {
        let details = RawObject::parse(details)?;
        let path = PathBuf::from(details.get_text("stdout_file")?);
        let stderr = details.get_text("stderr").map(|text| format!("[stderr]\n{text}"));
        let code = details.get("exit_code").map(|code| format!("[exit code: {}]", code.get()));
        let beside: Vec<String> = stderr.into_iter().chain(code).collect();
        Some(Self { path, beside: beside.join("\n\n") })
    }
}

/// A stored result.
struct Stored {
    stored: StoredOutput,
    /// The range of the structured content, if it is short enough to be shown beside a preview.
    beside: Option<Range<u64>>,
}

/// Fits one result.
struct Fitting<'a> {
    budget: Budget,
    room: BlockRoom,
    sink: &'a OutputSink,
}

impl Fitting<'_> {
    fn fit(&self, result: &Arc<dyn SpooledResult>) -> Result<FittedReply, FitError> {
        let source = &**result;
        let outline = Outline::of(source)?;
        let Some(items) = &outline.items else { return self.whole(source, &outline, None) };
        let (mut reply, blocks) = self.taken_apart(source, &outline, items)?;
        reply.repeats_blocks = mirror::repeats_blocks(source, items, &outline)?;
        if self.may_fit(source, &outline, items, reply.repeats_blocks) {
            let mut short = reply.clone();
            short.load(source, &outline, items)?;
            short.structured_inside =
                !short.repeats_blocks && !mirror::repeats(source, items, &outline)?;
            let texts: usize = short.embedded_texts().map(token_estimate::estimate).sum();
            if short.cost() + texts <= self.budget.0 {
                if !blocks.is_empty() {
                    short.stored = Some(self.keep(blocks_alone(blocks), String::new)?);
                }
                return Ok(short);
            }
        }
        self.long(result, &outline, items, reply, blocks)
    }

    /// Takes a result apart: into a reply with a piece for each item, and the blocks that are too large for it.
    fn taken_apart(
        &self,
        source: &dyn SpooledResult,
        outline: &Outline,
        items: &[Item],
    ) -> Result<(FittedReply, Vec<NewBlock>), FitError> {
        let mut reply = FittedReply::new(source, outline)?;
        let mut blocks = Vec::new();
        for item in items {
            let size = item.place.end - item.place.start;
            reply.content.push(match &item.kind {
                ItemKind::Media(about) if self.room.take(size) => {
                    let block = raw_of(source, &item.place)?;
                    Piece::Lifted { about: about.clone(), block, is_text: false }
                }
                ItemKind::Media(about) => {
                    let json = OutputBody::Stream(Box::new(part(source, &item.place)?));
                    blocks.push(NewBlock { about: about.clone(), json });
                    Piece::Kept { about: about.clone(), number: blocks.len() }
                }
                ItemKind::Text(_) | ItemKind::TextResource(..) | ItemKind::Other => {
                    Piece::Later(item.place.clone())
                }
            });
        }
        Ok((reply, blocks))
    }

    /// Whether a result may be short enough once the blocks that are not text are taken out.
    fn may_fit(
        &self,
        source: &dyn SpooledResult,
        outline: &Outline,
        items: &[Item],
        repeats_blocks: bool,
    ) -> bool {
        let media = items.iter().filter(|item| matches!(item.kind, ItemKind::Media(_)));
        let media: u64 = media.map(|item| item.place.end - item.place.start).sum();
        let structured = outline.structured.as_ref().map_or(0, |place| place.end - place.start);
        let most = (self.budget.0 as u64).saturating_mul(BYTES_PER_TOKEN);
        // Structured content that repeats text, which is not known yet, or blocks is left out.
        let left_out = if repeats_blocks { structured } else { structured.min(most) };
        source.bytes().saturating_sub(media) <= most.saturating_add(left_out)
    }

    /// Stores the text, the structured content and the blocks that are left, and shows a preview.
    fn long(
        &self,
        result: &Arc<dyn SpooledResult>,
        outline: &Outline,
        items: &[Item],
        mut reply: FittedReply,
        blocks: Vec<NewBlock>,
    ) -> Result<FittedReply, FitError> {
        let source = &**result;
        let Some(Stored { stored, beside }) = self.store(result, outline, items, blocks)? else {
            return self.whole(source, outline, None);
        };
        reply.load_around_preview(source, outline, items, beside.as_ref())?;
        self.previewed(reply, stored).map_or_else(|| self.whole(source, outline, None), Ok)
    }

    /// Stores the text, the structured content and blocks; `None` if there is neither text nor structured content.
    fn store(
        &self,
        result: &Arc<dyn SpooledResult>,
        outline: &Outline,
        items: &[Item],
        blocks: Vec<NewBlock>,
    ) -> Result<Option<Stored>, FitError> {
        let source = &**result;
        let texts: Vec<Range<u64>> = items.iter().filter_map(Item::text).cloned().collect();
        let repeats = mirror::repeats(source, items, outline)?
            || mirror::repeats_blocks(source, items, outline)?;
        let structured = outline.structured.as_ref().filter(|_| !repeats);
        let is_json = match texts.as_slice() {
            [text] => is_json(unescaped(source, text)?)?,
            _ => false,
        };
        let small = structured.filter(|place| place.end - place.start <= MAX_STRUCTURED);
        let text = || OutputBody::Stream(Box::new(JoinedTexts::new(result, texts.clone())));
        let json = |place| Ok::<_, io::Error>(OutputBody::Stream(Box::new(part(source, place)?)));
        let new = match structured {
            Some(structured) if texts.is_empty() => {
                NewOutput { blocks, ..NewOutput::new(OutputKind::Json, json(structured)?) }
            }
            None if texts.is_empty() => return Ok(None),
            // Paths select from the structured content, unless it is short and the text itself is JSON.
            Some(structured) if small.is_none() || !is_json => {
                let structure = Some(json(structured)?);
                NewOutput { kind: OutputKind::Text, body: text(), structure, blocks }
            }
            Some(_) | None => {
                let kind = if is_json { OutputKind::Json } else { OutputKind::Text };
                NewOutput { blocks, ..NewOutput::new(kind, text()) }
            }
        };
        let lost = || self.beginning(JoinedTexts::new(result, texts.clone()));
        let stored = self.keep(new, lost)?;
        let beside = small.filter(|_| !texts.is_empty()).cloned();
        Ok(Some(Stored { stored, beside }))
    }

    /// Stores the whole result as JSON.
    fn whole(
        &self,
        source: &dyn SpooledResult,
        outline: &Outline,
        note: Option<String>,
    ) -> Result<FittedReply, FitError> {
        let body = OutputBody::Stream(source.read(0)?);
        let lost = || source.read(0).map(|text| self.beginning(text)).unwrap_or_default();
        let stored = self.keep(NewOutput::new(OutputKind::Json, body), lost)?;
        let mut reply = FittedReply::new(source, &Outline::default())?;
        reply.is_error = FittedReply::new(source, outline)?.is_error;
        reply.note = note;
        Ok(self.previewed(reply.clone(), stored).unwrap_or(reply))
    }

    /// Stores standard output and shows a preview of it. The rest stays in the reply.
    fn fit_file(&self, spilled: &SpilledStdout, failed: bool) -> Result<FittedReply, FitError> {
        let stored = self.store_file(spilled)?;
        let reply = self.beside_file(spilled, failed);
        Ok(self.previewed(reply.clone(), stored).unwrap_or(reply))
    }

    /// Stores standard output, as text or JSON.
    fn store_file(&self, spilled: &SpilledStdout) -> Result<StoredOutput, FitError> {
        let path = &spilled.path;
        let open = || File::open(path).map(|file| BufReader::with_capacity(CHUNK, file));
        let kind = if is_json(open()?)? { OutputKind::Json } else { OutputKind::Text };
        let lost = || open().map(|text| self.beginning(text)).unwrap_or_default();
        self.keep(NewOutput::new(kind, OutputBody::File(path.to_owned())), lost)
    }

    /// The reply with everything but standard output.
    fn beside_file(&self, spilled: &SpilledStdout, failed: bool) -> FittedReply {
        let mut reply = FittedReply::failed(failed);
        let beside = token_estimate::suffix(&spilled.beside, self.budget.0 / 4);
        if !beside.is_empty() {
            reply.content.push(Piece::Own(raw(&Text::of(beside))));
        }
        reply
    }

    fn keep(
        &self,
        new: NewOutput,
        beginning: impl FnOnce() -> String,
    ) -> Result<StoredOutput, FitError> {
        self.sink.outputs.keep(&self.sink.subject, new).map_err(|error| {
            tracing::warn!("a long answer is lost: {error}");
            FitError::NotKept { error, beginning: beginning() }
        })
    }

    /// As much of a text as an error has room for.
    fn beginning(&self, text: impl Read) -> String {
        let room = self.budget.0 / 3;
        let mut bytes = Vec::new();
        let most = (room as u64).saturating_mul(BYTES_PER_TOKEN);
        drop(text.take(most).read_to_end(&mut bytes));
        token_estimate::prefix(&String::from_utf8_lossy(&bytes), room).to_owned()
    }

    /// The reply with the longest preview that fits; `None` if the reply does not fit even without one.
    fn previewed(&self, mut reply: FittedReply, stored: StoredOutput) -> Option<FittedReply> {
        let preview = Preview::read(&stored, self.budget.0).unwrap_or_default();
        let note = note(&stored);
        reply.stored = Some(stored);
        let mut show = |room: usize| {
            let shown = if room == 0 { String::new() } else { preview.within(room) };
            reply.preview =
                Some(if shown.is_empty() { note.clone() } else { format!("{shown}\n\n{note}") });
            reply.cost() <= self.budget.0
        };
        if !show(0) {
            return None;
        }
        // A preview may cost less than the room it is given, so try more room than the budget.
        let (mut fits, mut exceeds) = (0, self.budget.0 * 3 / 2);
        while exceeds - fits > self.budget.0 / 100 + 1 {
            let room = fits.midpoint(exceeds);
            match show(room) {
                true => fits = room,
                false => exceeds = room,
            }
        }
        show(fits);
        Some(reply)
    }
}

impl Item {
    /// The range of its text, if it is text.
    fn text(&self) -> Option<&Range<u64>> {
        match &self.kind {
            ItemKind::Text(text) | ItemKind::TextResource(_, text) => Some(text),
            ItemKind::Media(_) | ItemKind::Other => None,
        }
    }
}

/// The output of blocks without text.
fn blocks_alone(blocks: Vec<NewBlock>) -> NewOutput {
    let media = |about: &BlockAbout| about.mime_type.clone().unwrap_or_else(|| "data".to_owned());
    let mime_type = blocks.first().map_or_else(|| "data".to_owned(), |block| media(&block.about));
    let kind = OutputKind::Binary { mime_type };
    NewOutput { blocks, ..NewOutput::new(kind, OutputBody::Text(String::new())) }
}
