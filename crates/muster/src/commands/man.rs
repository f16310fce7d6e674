//! `muster man`: manual pages, generated from the help of the commands.

use std::{path::PathBuf, process::ExitCode};

use clap::{Args, CommandFactory as _};

use crate::{cli, climax, error::CommandError, output::Printer};

/// Write the manual pages of muster and climax
///
/// One page for each program and each command, as `muster-serve.1`. Packages install them; `man -l FILE`
/// shows one.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  muster man ~/.local/share/man/man1")]
pub(crate) struct Man {
    /// The directory; created if it does not exist
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

pub(crate) fn run(args: &Man) -> Result<ExitCode, CommandError> {
    let failed = |err: std::io::Error| {
        CommandError::new(format!("cannot write to {}: {err}", args.dir.display()))
    };
    std::fs::create_dir_all(&args.dir).map_err(failed)?;
    for program in [cli::Cli::command(), climax::args::ClimaxCli::command()] {
        clap_mangen::generate_to(program, &args.dir).map_err(failed)?;
    }
    Printer::stdout().line(&format!("manual pages written to {}", args.dir.display()))?;
    Ok(ExitCode::SUCCESS)
}
