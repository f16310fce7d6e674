//! `muster standalone`: a gateway for the client on standard input and output.

use std::process::ExitCode;

use clap::Args;

use super::serve::{self, Clients, Serve};
use crate::error::CommandError;

/// Serve one MCP client on standard input and output
///
/// Add it as a server to the configuration of an MCP client, or let `muster connect` do so. While that
/// client is connected, other clients can use the configured endpoint as with `muster serve`. If the
/// port is in use, only the first client is served.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  muster standalone
  muster standalone --config-path ./gateway --silent")]
pub(crate) struct Standalone {
    #[command(flatten)]
    serve: Serve,
}

pub(crate) fn run(args: &Standalone) -> Result<ExitCode, CommandError> {
    serve::run_for(&args.serve, Clients::Standalone)
}
