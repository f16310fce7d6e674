//! `muster delete`: deletes resources.

use std::{
    fs,
    io::{self, IsTerminal as _},
    process::ExitCode,
};

use clap::Args;

use super::{completion, edit, gateway_args::GatewayArgs, resource_kinds, resource_verb};
use crate::{
    error::CommandError,
    output::{self, Printer},
};

/// Delete MCP servers, workflows, service classes, services, policies, toolsets or CLIs
///
/// Servers are disconnected and services are stopped first. Definitions are deleted with their files. Policies, toolsets
/// and CLIs are files of the configuration directory on this machine; a running gateway notices that they are gone.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  muster delete workflow deploy
  muster delete mcpserver github files --yes
  muster delete policy strict --config-path ./gateway")]
pub(crate) struct Delete {
    /// The type to delete: mcpserver, workflow, serviceclass, service, policy, toolset or cli
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
    if let Some(kind) = FILES.into_iter().find(|kind| *kind == args.kind) {
        return delete_files(args, kind);
    }
    let kind = resource_kinds::find(&args.kind, resource_kinds::DELETED)
        .map_err(|_| resource_kinds::unknown(&args.kind, &all_kinds()))?;
    if !args.yes && !is_confirmed(kind.as_str(), &args.names)? {
        Printer::stdout().line("Nothing was deleted")?;
        return Ok(ExitCode::FAILURE);
    }
    let tool = format!("core_{}_delete", kind.as_str());
    resource_verb::for_each(&args.gateway, kind, &tool, &args.names)
}

/// The kinds that exist only as files.
const FILES: [&str; 3] = ["policy", "toolset", "cli"];

/// The kinds that can be deleted.
pub(super) fn all_kinds() -> Vec<&'static str> {
    resource_kinds::DELETED.iter().map(|(name, _)| *name).chain(FILES).collect()
}

/// Deletes files of the configuration directory. Finds all files before it deletes the first.
fn delete_files(args: &Delete, kind: &str) -> Result<ExitCode, CommandError> {
    if args.gateway.endpoint.is_some() || args.gateway.context.is_some() {
        return Err(CommandError::new(format!("a {kind} is a file on the machine of its gateway"))
            .hint("name its configuration directory with --config-path"));
    }
    let root = args.gateway.config_directory()?;
    let found = args.names.iter().map(|name| edit::find(&root, kind, Some(name)));
    let paths = found.collect::<Result<Vec<_>, _>>()?;
    if !args.yes && !is_confirmed(kind, &args.names)? {
        Printer::stdout().line("Nothing was deleted")?;
        return Ok(ExitCode::FAILURE);
    }
    for path in paths {
        fs::remove_file(&path)
            .map_err(|err| CommandError::new(format!("cannot delete {}: {err}", path.display())))?;
        Printer::stdout().line(&format!("{} deleted", path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn is_confirmed(kind: &str, names: &[String]) -> Result<bool, CommandError> {
    let what = format!("{kind} {}", names.join(", "));
    if !io::stdin().is_terminal() {
        return Err(CommandError::new(format!("deleting {what} must be confirmed"))
            .hint("add --yes to delete without a question"));
    }
    output::confirm(&format!("Delete {what}? [y/N] "))
}
