//! The entry point of a program: parses the command line and turns errors into exit codes.

use std::{ffi::OsString, process::ExitCode};

use clap::Parser;

use crate::{error::CommandError, log, output};

/// Parses the command line and runs `command`, or reports what is wrong with it.
pub(crate) fn enter<C: Parser>(
    words: impl IntoIterator<Item = OsString>,
    command: impl FnOnce(C) -> Result<ExitCode, CommandError>,
) -> ExitCode {
    let typed = match C::try_parse_from(words) {
        Ok(typed) => typed,
        Err(err) => {
            // Clap chooses the stream. If it is closed, there is nowhere to report that.
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
