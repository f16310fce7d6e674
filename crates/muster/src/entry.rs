//! The entry point of a program: parses the command line and turns errors into exit codes.

use std::{ffi::OsString, process::ExitCode};

use clap::{Parser, error::ErrorKind};

use crate::{error::CommandError, log, output};

/// Parses the command line and runs `command`. Reports errors and returns the exit code.
pub(crate) fn enter<C: Parser>(
    words: impl IntoIterator<Item = OsString>,
    command: impl FnOnce(C) -> Result<ExitCode, CommandError>,
) -> ExitCode {
    let typed = match C::try_parse_from(words) {
        Ok(typed) => typed,
        Err(err) => {
            if err.kind() == ErrorKind::ValueValidation {
                output::to_stderr(&plain(&err.render().to_string()));
                return ExitCode::from(2);
            }
            // Clap chooses the stream. Ignore errors: if it is closed, there is nowhere to report it.
            drop(err.print());
            return ExitCode::from(u8::try_from(err.exit_code()).unwrap_or(2));
        }
    };
    let done = command(typed);
    log::flush();
    done.unwrap_or_else(|error| {
        output::report("error", &error);
        error.exit_code()
    })
}

/// Rewords the standard library's messages about numbers in an error.
pub(crate) fn plain(text: &str) -> String {
    const WORDS: [(&str, &str); 4] = [
        ("invalid digit found in string", "not a whole number"),
        ("cannot parse integer from empty string", "not a whole number"),
        ("number too large to fit in target type", "the number is too large"),
        ("number too small to fit in target type", "the number is too small"),
    ];
    WORDS.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}
