//! Log lines: on standard error and optionally in a file, as text or as JSON.

mod json;
mod line_batch;
mod wall_clock;

use std::{
    fmt::{self, Write as _},
    fs::OpenOptions,
    io,
    path::Path,
    sync::OnceLock,
};

use clap::ValueEnum;
use muster_core::{
    call::{ARGUMENT_VALUES, AUDIT},
    lock::Lock,
};
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    level_filters::LevelFilter,
    span::{Attributes, Id},
};
use tracing_subscriber::{
    Layer,
    filter::FilterFn,
    layer::Context,
    prelude::*,
    registry::{Extensions, LookupSpan, SpanRef},
};

use self::{
    line_batch::{Line, LineBatch},
    wall_clock::WallClock,
};

/// The log lines of the process.
static BATCH: OnceLock<LineBatch> = OnceLock::new();

/// Whether log lines may hold the values of arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArgumentValues {
    /// They may, as in CLImax, where the user chose the log level.
    Shown,
    /// They may not, except at debug level.
    Hidden,
}

/// The form of log lines on standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// A JSON object on each line.
    Json,
}

/// Installs the log: lines of `level` and above go to standard error, and to `file` if there is one.
pub fn install(
    level: LevelFilter,
    values: ArgumentValues,
    file: Option<&Path>,
    format: LogFormat,
) -> io::Result<()> {
    let file = match file {
        Some(path) => Some(OpenOptions::new().create(true).append(true).open(path)?),
        None => None,
    };
    let shows_values = values == ArgumentValues::Shown || level >= LevelFilter::DEBUG;
    let shown = move |metadata: &Metadata<'_>| {
        *metadata.level() <= level && (shows_values || metadata.target() != ARGUMENT_VALUES)
    };
    let filter = FilterFn::new(shown).with_max_level_hint(level);
    // Only tests install a log twice in one process. The first one stays.
    let batch = BATCH.get_or_init(|| LineBatch::new(file));
    let lines = Lines { batch, clock: Lock::default(), format };
    let subscriber = tracing_subscriber::registry().with(lines.with_filter(filter));
    drop(tracing::subscriber::set_global_default(subscriber));
    Ok(())
}

/// Writes the collected lines. Call it before the process ends.
pub(crate) fn flush() {
    if let Some(batch) = BATCH.get() {
        batch.flush();
    }
}

struct Lines {
    batch: &'static LineBatch,
    clock: Lock<WallClock>,
    format: LogFormat,
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Lines {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if self.format == LogFormat::Json
            && let Some(span) = context.span(id)
        {
            span.extensions_mut().insert(json::TraceIds::of(attributes));
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let batch = self.batch;
        let write = |line: &Line<'_>| match event.metadata().target() {
            AUDIT => batch.write_later(line),
            _ => batch.write(line),
        };
        if self.format == LogFormat::Json {
            let span = context.lookup_current();
            let extensions = span.as_ref().map(SpanRef::extensions);
            let line = json::line(event, extensions.as_ref().and_then(Extensions::get));
            return write(&Line { stderr: &line, file: batch.has_file().then_some(&line) });
        }
        let mut line = String::with_capacity(LINE_LENGTH);
        let now = self.clock.lock().now();
        line.push('[');
        line.push_str(now.time());
        line.push_str("] ");
        let start = line.len();
        line.push_str(name(*event.metadata().level()));
        event.record(&mut Message(&mut line));
        line.push('\n');
        let in_file = batch.has_file().then(|| {
            let rest = line.get(start..).unwrap_or_default();
            format!("{} {} {rest}", now.date(), now.time())
        });
        write(&Line { stderr: &line, file: in_file.as_deref() });
    }
}

/// The name of a level, padded to the width of all.
const fn name(level: Level) -> &'static str {
    match level {
        Level::ERROR => "ERROR    ",
        Level::WARN => "WARNING  ",
        Level::INFO => "INFO     ",
        Level::DEBUG | Level::TRACE => "DEBUG    ",
    }
}

/// The initial capacity of a line, enough for most.
const LINE_LENGTH: usize = 256;

/// Appends the message and the fields of an event.
struct Message<'a>(&'a mut String);

impl Message<'_> {
    fn push_name(&mut self, field: &Field) {
        if field.name() != "message" {
            self.0.push(' ');
            self.0.push_str(field.name());
            self.0.push('=');
        }
    }
}

impl Visit for Message<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        // Fast path for the names of a call, which need no escapes.
        if value.bytes().any(|byte| !matches!(byte, b' '..=b'~') || matches!(byte, b'"' | b'\\')) {
            return self.record_debug(field, &value);
        }
        self.push_name(field);
        self.0.push('"');
        self.0.push_str(value);
        self.0.push('"');
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.push_name(field);
        let written = write!(Printable(self.0), "{value:?}");
        debug_assert!(written.is_ok(), "formatting into text cannot fail");
    }
}

/// Whether a character could rewrite the screen or reorder text.
fn is_harmful(letter: char) -> bool {
    letter.is_control() || matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Writes text without control characters that could forge log lines or control a terminal.
///
/// Names and errors of clients and servers are part of log lines. After a line break, the text continues
/// on an indented line, which cannot be mistaken for another entry. All other control characters, and
/// those that reorder text, are escaped.
struct Printable<'a>(&'a mut String);

impl fmt::Write for Printable<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // Fast path: nearly all texts are plain ASCII, and every call writes some.
        if text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            self.0.push_str(text);
            return Ok(());
        }
        for c in text.chars() {
            match c {
                '\n' => self.0.push_str("\n  "),
                _ if is_harmful(c) => self.0.extend(c.escape_default()),
                _ => self.0.push(c),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::Printable;

    #[test]
    fn no_name_can_forge_a_line_or_drive_a_terminal() {
        for (text, expect) in [
            ("x_files_read", "x_files_read"),
            ("a\n[12:00:00] INFO     call", "a\n  [12:00:00] INFO     call"),
            ("a\r\u{1b}]0;title\u{7}b\u{9b}2J", "a\\r\\u{1b}]0;title\\u{7}b\\u{9b}2J"),
            ("a\u{202e}b", "a\\u{202e}b"),
            ("größer 日本", "größer 日本"),
        ] {
            let mut line = String::new();
            write!(Printable(&mut line), "{text}").unwrap();
            assert_eq!(line, expect);
        }
    }
}
