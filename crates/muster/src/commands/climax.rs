//! `muster climax`: the `climax` program, for users who installed only `muster`.

use std::{ffi::OsString, process::ExitCode};

use clap::Args;

use crate::error::CommandError;

/// Serve CLIs as MCP tools without a gateway, as the program `climax` does
///
/// `muster climax git` is `climax git`; `muster climax --help` shows all of it.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Climax {
    /// The command line of `climax`
    #[arg(value_name = "ARG", trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

pub(super) fn run(args: &Climax) -> Result<ExitCode, CommandError> {
    Ok(crate::climax::run(args.words.iter().cloned()))
}
