//! Log lines for people: on standard error, and in a file when asked for.

use std::{
    fmt,
    fs::{File, OpenOptions},
    io::{self, Write as _},
    path::Path,
};

use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
    level_filters::LevelFilter,
};
use tracing_subscriber::{Layer, layer::Context, prelude::*};

/// Sends log lines to standard error, and to `file` if there is one, from `level` up.
pub fn install(level: LevelFilter, file: Option<&Path>) -> io::Result<()> {
    let file = match file {
        Some(path) => Some(OpenOptions::new().create(true).append(true).open(path)?),
        None => None,
    };
    let subscriber = tracing_subscriber::registry().with(Lines { file }.with_filter(level));
    // A second installation in one process is a test's; the first stays.
    drop(tracing::subscriber::set_global_default(subscriber));
    Ok(())
}

struct Lines {
    file: Option<File>,
}

impl<S: Subscriber> Layer<S> for Lines {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut message = Message::default();
        event.record(&mut message);
        let level = name(*event.metadata().level());
        let now = jiff::Zoned::now();
        // A log line that cannot be written has nowhere to be reported.
        drop(writeln!(io::stderr(), "[{}] {level:<8} {}", now.strftime("%H:%M:%S"), message.0));
        if let Some(mut file) = self.file.as_ref() {
            let time = now.strftime("%Y-%m-%d %H:%M:%S");
            drop(file.write_all(format!("{time} {level:<8} {}\n", message.0).as_bytes()));
        }
    }
}

fn name(level: Level) -> &'static str {
    match level {
        Level::ERROR => "ERROR",
        Level::WARN => "WARNING",
        Level::INFO => "INFO",
        Level::DEBUG | Level::TRACE => "DEBUG",
    }
}

#[derive(Default)]
struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = match field.name() {
            "message" => format!("{value:?}"),
            name => format!(" {name}={value:?}"),
        };
        self.0.push_str(&text);
    }
}
