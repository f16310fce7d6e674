//! The `climax` command: any CLI as MCP tools.

pub mod args;
mod assembly;
mod completions;
mod list;
mod load;
mod run;
mod skill;
mod tokens;
mod validate;

use std::{ffi::OsString, process::ExitCode};

use clap::{CommandFactory as _, FromArgMatches as _};

use self::args::{Cli, Command};
use crate::{error::CommandError, output};

/// Runs the command that was typed.
pub fn main() -> ExitCode {
    if let Some(code) = muster_exec::serve::serve_if_asked() {
        return code;
    }
    let words: Vec<OsString> = std::env::args_os().collect();
    let parsed = Cli::command()
        .try_get_matches_from(args::with_command(words))
        .and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(err) => {
            // What clap has to say goes where clap wants it; there is nowhere to report a failure.
            drop(err.print());
            return ExitCode::from(u8::try_from(err.exit_code()).unwrap_or(2));
        }
    };
    match dispatch(cli.command) {
        Ok(code) => code,
        Err(error) => {
            output::report(&error);
            error.exit_code()
        }
    }
}

fn dispatch(command: Command) -> Result<ExitCode, CommandError> {
    match command {
        Command::Run(args) => run::run(&args),
        Command::Validate(args) => validate::run(&args),
        Command::List(args) => list::run(&args),
        Command::Skill(args) => skill::run(&args),
        Command::Tokens(args) => tokens::run(&args),
        Command::Completions(args) => completions::run(&args),
    }
}
