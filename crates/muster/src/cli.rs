//! The `muster` command: one MCP endpoint in front of everything.

mod usage;

use std::{ffi::OsString, path::Path, process::ExitCode};

use clap::{CommandFactory as _, Parser};
use clap_complete::CompleteEnv;

use crate::{
    climax,
    commands::{Command, completion},
    error::CommandError,
    log, output,
};

/// One MCP endpoint in front of every CLI and every MCP server you have
///
/// Agents see a handful of stable meta-tools (search, describe, call) in place of hundreds of tool
/// definitions.
#[derive(Debug, Parser)]
#[command(
    name = "muster",
    version = concat!("version ", env!("CARGO_PKG_VERSION")),
    after_help = AFTER_HELP
)]
pub struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

const AFTER_HELP: &str = "\
Examples:
  muster serve                      start on http://localhost:8090/mcp
  muster serve --config-path DIR    serve the configuration in a directory
  muster import                     take over the servers of the clients on this machine
  muster connect claude-code        let a client use the gateway
  muster doctor                     find what is wrong, and how to fix it
  muster list mcpservers            list the servers of the running gateway
  muster search WORDS               find tools by what they do
  muster call TOOL key=value        call a tool";

/// Parses the command line and runs the command. If the program is started as `climax`, for example by a
/// link, the command line is that of `climax`.
pub fn main() -> ExitCode {
    if let Some(code) = muster_exec::serve::serve_if_launcher() {
        return code;
    }
    if is_climax(std::env::args_os().next()) {
        return climax::run(std::env::args_os().skip(1));
    }
    CompleteEnv::with_factory(Cli::command).var(completion::ASKED_BY).complete();
    CompleteEnv::with_factory(|| completion::without_descriptions(Cli::command()))
        .var(completion::ASKED_BRIEFLY_BY)
        .complete();
    if let Some(code) = completion::complete_if_asked(&mut Cli::command()) {
        return code;
    }
    let words: Vec<String> =
        std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    let typed = match Cli::try_parse_from(std::env::args_os()) {
        Ok(typed) => typed,
        Err(error) => return usage::report(&error, &Cli::command(), &words),
    };
    let done = dispatch(typed);
    log::flush();
    done.unwrap_or_else(|error| {
        output::report("Error", &error);
        error.exit_code()
    })
}

fn is_climax(program: Option<OsString>) -> bool {
    program.is_some_and(|path| Path::new(&path).file_stem() == Some(climax::NAME.as_ref()))
}

fn dispatch(cli: Cli) -> Result<ExitCode, CommandError> {
    match cli.command {
        Some(command) => command.run(),
        None => {
            output::Printer::stdout().part(&Cli::command().render_help().to_string())?;
            Ok(ExitCode::SUCCESS)
        }
    }
}
