//! `muster delete`: deletes resources.

use std::{
    io::{self, IsTerminal as _},
    process::ExitCode,
};

use clap::Args;

use super::{
    completion,
    gateway_args::GatewayArgs,
    resource_kinds::{self, ResourceKind},
    resource_verb,
};
use crate::{
    error::CommandError,
    output::{self, Printer},
};

/// Delete MCP servers, workflows, service classes or services
///
/// Servers are disconnected and services are stopped first. Definitions are deleted with their files.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  muster delete workflow deploy
  muster delete mcpserver github files --yes")]
pub(crate) struct Delete {
    /// The type to delete: mcpserver, workflow, serviceclass or service
    #[arg(value_name = "TYPE", add = completion::deleted())]
    kind: String,
    /// The names
    #[arg(value_name = "NAME", required = true, add = completion::names())]
    names: Vec<String>,
    /// Delete without asking
    #[arg(short, long)]
    yes: bool,
    #[command(flatten)]
    gateway: GatewayArgs,
}

pub(crate) fn run(args: &Delete) -> Result<ExitCode, CommandError> {
    let kind = resource_kinds::find(&args.kind, resource_kinds::DELETED)?;
    if !args.yes && !is_confirmed(kind, &args.names)? {
        Printer::stdout().line("Nothing was deleted")?;
        return Ok(ExitCode::FAILURE);
    }
    let tool = format!("core_{}_delete", kind.as_str());
    resource_verb::for_each(&args.gateway, kind, &tool, &args.names)
}

fn is_confirmed(kind: ResourceKind, names: &[String]) -> Result<bool, CommandError> {
    let what = format!("{} {}", kind.as_str(), names.join(", "));
    if !io::stdin().is_terminal() {
        return Err(CommandError::new(format!("deleting {what} must be confirmed"))
            .hint("add --yes to delete without a question"));
    }
    output::confirm(&format!("Delete {what}? [y/N] "))
}
