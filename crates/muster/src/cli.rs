//! The `muster` command: one MCP endpoint in front of everything.

use std::{path::PathBuf, process::ExitCode};

use clap::{Args, CommandFactory as _, Parser, Subcommand, ValueEnum};

use crate::{commands, entry, error::CommandError, output};

/// One MCP endpoint in front of every CLI and every MCP server you have
///
/// Agents see a handful of stable meta-tools (search, describe, call) in place of hundreds of tool
/// definitions.
#[derive(Debug, Parser)]
#[command(name = "muster", version, infer_long_args = true, after_help = AFTER_HELP)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "\
Examples:
  muster serve                      start on http://localhost:8090/mcp
  muster serve --config-path DIR    with the servers, CLIs and policies of a folder";

#[derive(Debug, Subcommand)]
enum Command {
    Serve(Serve),
    Completions(Completions),
}

/// Serve everything that is configured behind one endpoint
///
/// Reads `config.yaml`, `mcpservers/*.yaml`, `clis/*.yaml` and `policies/*.yaml` of the config folder,
/// and follows their changes. Without any of them it serves the bundled CLIs whose programs are
/// installed.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  muster serve
  muster serve --config-path ./gateway --debug
  muster serve --surface climax")]
pub struct Serve {
    /// The folder that holds config.yaml and the resource folders [default: ~/.config/muster]
    #[arg(long, value_name = "DIR")]
    pub(crate) config_path: Option<PathBuf>,
    /// Which meta-tools clients are shown
    #[arg(long, value_enum, default_value_t)]
    pub(crate) surface: Shown,
    /// Let tools run that are known to destroy things
    #[arg(long)]
    pub(crate) yolo: bool,
    /// Write more log lines
    #[arg(long, conflicts_with = "silent")]
    pub(crate) debug: bool,
    /// Write no log lines
    #[arg(long)]
    pub(crate) silent: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Shown {
    /// The eleven meta-tools of muster
    #[default]
    Muster,
    /// The two of CLImax: climax_search and climax_call
    Climax,
}

/// Print a completion script for a shell
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  muster completions bash > /etc/bash_completion.d/muster")]
pub struct Completions {
    /// The shell
    shell: clap_complete::Shell,
}

/// Runs the command that was typed.
pub fn main() -> ExitCode {
    if let Some(code) = muster_exec::serve::serve_if_asked() {
        return code;
    }
    entry::enter(std::env::args_os(), dispatch)
}

fn dispatch(cli: Cli) -> Result<ExitCode, CommandError> {
    match cli.command {
        Command::Serve(args) => commands::serve::run(&args),
        Command::Completions(args) => {
            output::completions(args.shell, &mut Cli::command(), "muster")?;
            Ok(ExitCode::SUCCESS)
        }
    }
}
