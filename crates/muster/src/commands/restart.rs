//! `muster restart`: restarts servers and services.

use std::process::ExitCode;

use clap::Args;

use super::{completion, gateway_args::GatewayArgs, resource_kinds, resource_verb};
use crate::error::CommandError;

/// Restart MCP servers or services, and wait until they run or have failed
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  muster restart mcpserver github
  muster restart service db-forward")]
pub(crate) struct Restart {
    /// The type to restart: mcpserver or service
    #[arg(value_name = "TYPE", add = completion::restarted())]
    kind: String,
    /// The names
    #[arg(value_name = "NAME", required = true, add = completion::names())]
    names: Vec<String>,
    #[command(flatten)]
    gateway: GatewayArgs,
}

pub(crate) fn run(args: &Restart) -> Result<ExitCode, CommandError> {
    let kind = resource_kinds::find(&args.kind, resource_kinds::RESTARTED)?;
    resource_verb::for_each(&args.gateway, kind, "core_service_restart", &args.names)
}
