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

use std::process::ExitCode;

use self::args::{Cli, Command};
use crate::{entry, error::CommandError};

/// Runs the command that was typed.
pub fn main() -> ExitCode {
    if let Some(code) = muster_exec::serve::serve_if_launcher() {
        return code;
    }
    entry::enter(args::with_command(std::env::args_os().collect()), dispatch)
}

fn dispatch(cli: Cli) -> Result<ExitCode, CommandError> {
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
