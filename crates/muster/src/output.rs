//! The output of commands: data on standard output, everything else on standard error.

pub mod format;
pub mod json_view;
pub mod properties;
pub mod reply;
pub mod spinner;
pub mod table;
pub mod tool_page;
pub mod yaml;

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use anstyle::{AnsiColor, Style};
use muster_client::env_vars;
use muster_core::json::raw;
use serde::Serialize;

use self::format::OutputFormat;
use crate::error::CommandError;

/// The output format of commands that do not use a gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Format {
    /// A table for people.
    #[default]
    Table,
    /// JSON for programs.
    Json,
}

/// Quotes a word for a shell, if it needs quotes.
pub fn shell_quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./~:@%+=,".contains(letter);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// The meaning of a piece of text. A terminal shows it as colour; the text itself says it everywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// A success.
    Good,
    /// A failure.
    Bad,
    /// A warning.
    Warning,
    /// A heading or a name.
    Strong,
}

/// Prints to standard output, in colour only on a terminal.
#[derive(Debug, Clone, Copy)]
pub struct Printer {
    is_terminal: bool,
    coloured: bool,
    width: Option<u16>,
}

impl Printer {
    /// The printer of standard output.
    pub fn stdout() -> Self {
        let is_terminal = io::stdout().is_terminal();
        Self {
            is_terminal,
            coloured: is_terminal && env_vars::get("NO_COLOR").is_none(),
            width: is_terminal.then(terminal_width).flatten(),
        }
    }

    /// The width of the terminal; none if output goes to a file or a pipe.
    pub fn width(&self) -> Option<u16> {
        self.width
    }

    /// Text in the colour of its tone.
    pub fn paint(&self, tone: Tone, text: &str) -> String {
        if !self.coloured {
            return text.to_owned();
        }
        let style = match tone {
            Tone::Good => AnsiColor::Green.on_default(),
            Tone::Bad => AnsiColor::Red.on_default(),
            Tone::Warning => AnsiColor::Yellow.on_default(),
            Tone::Strong => Style::new().bold(),
        };
        format!("{style}{text}{style:#}")
    }

    /// Prints one line or block of text. A closed pipe is not an error.
    pub fn line(&self, text: &str) -> Result<(), CommandError> {
        match writeln!(io::stdout(), "{text}") {
            Err(err) if err.kind() != io::ErrorKind::BrokenPipe => Err(err.into()),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Prints text without a line end, and flushes it.
    pub fn part(&self, text: &str) -> Result<(), CommandError> {
        let mut out = io::stdout();
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            Err(err) if err.kind() != io::ErrorKind::BrokenPipe => Err(err.into()),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Prints a value in the format of the command; `page` makes the text for people.
    pub fn value(
        &self,
        value: &impl Serialize,
        format: OutputFormat,
        page: impl FnOnce() -> String,
    ) -> Result<(), CommandError> {
        match format {
            OutputFormat::Json => self.json(value),
            OutputFormat::Yaml => self.line(&yaml::document(&raw(value))),
            OutputFormat::Table | OutputFormat::Wide => self.line(&page()),
        }
    }

    /// Prints text of a server. On a terminal its control characters are escaped.
    pub fn foreign(&self, text: &str) -> Result<(), CommandError> {
        match self.is_terminal {
            true => self.line(&table::escaped(text)),
            false => self.line(text),
        }
    }

    /// Prints a value as JSON.
    pub fn json(&self, value: &impl Serialize) -> Result<(), CommandError> {
        let text = serde_json::to_string_pretty(value)
            .map_err(|err| CommandError::new(format!("cannot write the answer as JSON: {err}")))?;
        self.line(&text)
    }
}

/// Prints a question and reads a line; the line is empty at the end of the input.
pub fn ask(question: &str) -> Result<String, CommandError> {
    Printer::stdout().part(question)?;
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    Ok(line.trim().to_owned())
}

/// Asks a yes-or-no question. Everything but `y` and `yes` is a no.
pub fn confirm(text: &str) -> Result<bool, CommandError> {
    let line = ask(text)?.to_lowercase();
    Ok(line == "y" || line == "yes")
}

fn terminal_width() -> Option<u16> {
    rustix::termios::tcgetwinsize(io::stdout()).ok().map(|size| size.ws_col).filter(|col| *col > 0)
}

/// Prints the completion script of a program for a shell.
pub fn completions(
    shell: clap_complete::Shell,
    command: &mut clap::Command,
    name: &str,
) -> Result<(), CommandError> {
    let mut script = Vec::new();
    clap_complete::generate(shell, command, name, &mut script);
    Printer::stdout().line(String::from_utf8_lossy(&script).trim_end())
}

/// Prints an error and its hints to standard error. `word` is the program's label of errors.
pub fn report(word: &str, error: &CommandError) {
    let word = painted(word, AnsiColor::Red.on_default().bold());
    to_stderr(&format!("{word}: {error}\n"));
    for step in error.hints() {
        to_stderr("\n");
        hint(step);
    }
}

/// Prints a hint to standard error.
pub fn hint(hint: &str) {
    let word = painted("hint", AnsiColor::Cyan.on_default());
    to_stderr(&format!("{word}: {hint}\n"));
}

/// Prints a warning to standard error.
pub fn warn(text: &str) {
    to_stderr(&format!("{}: {text}\n", painted("Warning", AnsiColor::Yellow.on_default())));
}

/// Prints a mark of failure to standard error; the error follows.
pub fn failure(text: &str) {
    to_stderr(&format!("{}\n", painted(text, AnsiColor::Red.on_default())));
}

fn painted(word: &str, style: Style) -> String {
    if io::stderr().is_terminal() && env_vars::get("NO_COLOR").is_none() {
        return format!("{style}{word}{style:#}");
    }
    word.to_owned()
}

/// Prints text to standard error, without a line end.
pub fn to_stderr(text: &str) {
    // Standard error is the last resort; there is nowhere to report that it is closed.
    drop(io::stderr().write_all(text.as_bytes()));
}
