//! The output of commands: data on standard output, everything else on standard error.

pub mod format;
pub mod json_view;
pub mod next_step;
pub mod properties;
pub mod reply;
pub mod spinner;
pub mod table;
pub mod tool_page;
pub mod yaml;

use std::{
    borrow::Cow,
    io::{self, BufRead as _, IsTerminal as _, Write as _},
};

use anstyle::{AnsiColor, Style};
use muster_client::env_vars;
pub use muster_core::text::shell_quoted;
use muster_core::{json::raw, text::for_terminal};
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

/// The meaning of a piece of text. A terminal shows it as colour. The text must be clear without colour, too.
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
    terminal: bool,
    coloured: bool,
    width: Option<u16>,
}

impl Printer {
    /// The printer of standard output.
    pub fn stdout() -> Self {
        let terminal = io::stdout().is_terminal();
        Self {
            terminal,
            coloured: terminal && env_vars::get("NO_COLOR").is_none(),
            width: terminal.then(terminal_width).flatten(),
        }
    }

    /// The width of the terminal; none if output goes to a file or a pipe.
    pub fn width(&self) -> Option<u16> {
        self.width
    }

    /// Formats text in the colour of its tone.
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
        match writeln!(io::stdout(), "{}", shown(text, self.terminal)) {
            Err(err) if err.kind() != io::ErrorKind::BrokenPipe => Err(err.into()),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Prints text without a line end and flushes it.
    pub fn part(&self, text: &str) -> Result<(), CommandError> {
        write_out(&shown(text, self.terminal))
    }

    /// Clears the screen.
    pub fn clear(&self) -> Result<(), CommandError> {
        write_out("\u{1b}[H\u{1b}[2J")
    }

    /// Prints a value in the format of the command. `page` formats it for people.
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

    /// Prints a value as JSON.
    pub fn json(&self, value: &impl Serialize) -> Result<(), CommandError> {
        let text = serde_json::to_string_pretty(value)
            .map_err(|err| CommandError::new(format!("cannot write the answer as JSON: {err}")))?;
        self.line(&text)
    }
}

/// Writes to standard output and flushes it. A closed pipe is not an error.
fn write_out(text: &str) -> Result<(), CommandError> {
    let mut out = io::stdout();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(err) if err.kind() != io::ErrorKind::BrokenPipe => Err(err.into()),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Prints a question and reads a line, which is empty at the end of the input.
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

/// The escape sequences of [`Printer::paint`] and [`painted`].
const OWN_STYLES: [&str; 6] =
    ["\u{1b}[0m", "\u{1b}[1m", "\u{1b}[31m", "\u{1b}[32m", "\u{1b}[33m", "\u{1b}[36m"];

/// Removes escape sequences from text for a terminal, except our own styles, because results and names come
/// from others. A file or a program gets the text unchanged.
fn shown(text: &str, terminal: bool) -> Cow<'_, str> {
    if !terminal {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\u{1b}') {
        let (before, escape) = rest.split_at(at);
        plain.push_str(&for_terminal(before));
        let own = OWN_STYLES.iter().find(|style| escape.starts_with(**style));
        let length = own.map_or(1, |style| style.len());
        let (sequence, behind) = escape.split_at(length);
        plain.push_str(&if own.is_some() {
            Cow::Borrowed(sequence)
        } else {
            for_terminal(sequence)
        });
        rest = behind;
    }
    plain.push_str(&for_terminal(rest));
    Cow::Owned(plain)
}

/// Prints an error and its hints to standard error. `word` is the program's label for errors.
pub fn report(word: &str, error: &CommandError) {
    let word = painted(word, AnsiColor::Red.on_default().bold());
    to_stderr(&shown(&format!("{word}: {error}\n"), io::stderr().is_terminal()));
    for step in error.hints() {
        to_stderr("\n");
        hint(step);
    }
}

/// Prints a hint to standard error.
pub fn hint(hint: &str) {
    let word = painted("hint", AnsiColor::Cyan.on_default());
    to_stderr(&shown(&format!("{word}: {hint}\n"), io::stderr().is_terminal()));
}

/// Prints a warning to standard error.
pub fn warn(text: &str) {
    let word = painted("Warning", AnsiColor::Yellow.on_default());
    to_stderr(&shown(&format!("{word}: {text}\n"), io::stderr().is_terminal()));
}

/// Prints a failure mark to standard error. The error follows.
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
    // Ignore errors: there is nowhere to report that standard error is closed.
    drop(io::stderr().write_all(text.as_bytes()));
}

#[cfg(test)]
mod tests {
    use super::shown;

    #[test]
    fn terminals_get_our_styles_and_no_other_escapes() {
        let text = "\u{1b}[31mError\u{1b}[0m: \u{1b}]0;owned\u{7} a\tb\r\nc \u{1b}[2J\u{9b}2J";
        assert_eq!(
            shown(text, true),
            "\u{1b}[31mError\u{1b}[0m: ␛]0;owned␇ a\tb\nc ␛[2J\u{fffd}2J"
        );
        assert_eq!(shown(text, false), text);
    }
}
