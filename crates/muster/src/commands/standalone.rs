//! `muster standalone`: a gateway and the bridge to it in one process.

use std::process::ExitCode;

use clap::Args;

use super::serve::{self, Clients};
use crate::{cli::Serve, error::CommandError};

/// Serve everything that is configured to the client on standard input and output
///
/// One entry in the configuration of an MCP client is all it takes. While that client is there, others
/// are served at the configured address as by `muster serve`; when the address is in use, this client
/// is served alone.
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
    serve::run(&args.serve, Clients::Standalone)
}
