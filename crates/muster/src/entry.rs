//! From what was typed to an exit code, the same for every program.

use std::{ffi::OsString, process::ExitCode};

use clap::Parser;

use crate::{error::CommandError, output};

/// Runs `command` with what was typed, or says what is wrong with it.
pub(crate) fn enter<C: Parser>(
    words: impl IntoIterator<Item = OsString>,
    command: impl FnOnce(C) -> Result<ExitCode, CommandError>,
) -> ExitCode {
    let typed = match C::try_parse_from(words) {
        Ok(typed) => typed,
        Err(err) => {
            // What clap has to say goes where clap wants it; there is nowhere to report a failure.
            drop(err.print());
            return ExitCode::from(u8::try_from(err.exit_code()).unwrap_or(2));
        }
    };
    command(typed).unwrap_or_else(|error| {
        output::report("error", &error);
        error.exit_code()
    })
}
