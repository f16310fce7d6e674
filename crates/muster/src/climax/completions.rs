//! `climax completions`.

use std::process::ExitCode;

use clap::CommandFactory as _;

use super::args::{ClimaxCli, Completions};
use crate::{error::CommandError, output};

pub(super) fn run(args: &Completions) -> Result<ExitCode, CommandError> {
    output::completions(args.shell, &mut ClimaxCli::command(), "climax")?;
    Ok(ExitCode::SUCCESS)
}
