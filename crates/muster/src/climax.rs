//! The `climax` command: any CLI as MCP tools.

pub mod args;
mod assembly;
mod completions;
mod list;
mod load;
mod run;
mod servers;
mod show;
mod skill;
mod tokens;
mod validate;

use std::{ffi::OsString, process::ExitCode};

use self::args::{ClimaxCli, Command};
use crate::{entry, error::CommandError};

/// The name of the program.
pub(crate) const NAME: &str = "climax";

/// Runs a command line, which is given without the name of the program.
pub(crate) fn run(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    let words = std::iter::once(NAME.into()).chain(words).collect();
    entry::enter(args::with_command(words), dispatch)
}

fn dispatch(cli: ClimaxCli) -> Result<ExitCode, CommandError> {
    match cli.command {
        Command::Run(args) => run::run(&args),
        Command::Validate(args) => validate::run(&args),
        Command::List(args) => list::run(&args),
        Command::Show(args) => show::run(&args),
        Command::Skill(args) => skill::run(&args),
        Command::Tokens(args) => tokens::run(&args),
        Command::Completions(args) => completions::run(&args),
    }
}
