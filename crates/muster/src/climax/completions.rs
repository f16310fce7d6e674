//! `climax completions`.

use std::process::ExitCode;

use clap::CommandFactory as _;

use super::args::{Cli, Completions};
use crate::{error::CommandError, output::Printer};

pub(super) fn run(args: &Completions) -> Result<ExitCode, CommandError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "climax", &mut script);
    Printer::standard().line(String::from_utf8_lossy(&script).trim_end())?;
    Ok(ExitCode::SUCCESS)
}
