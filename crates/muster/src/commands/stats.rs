//! `muster stats`: calls in numbers.

use std::process::ExitCode;

use clap::Args;

use super::{calls::CallFilterArgs, gateway_args::GatewayArgs};
use crate::{error::CommandError, process};

/// Count the calls of tools, with errors and durations
///
/// Counts the calls in the history of the gateway, also those of earlier runs. `muster top` shows the
/// running gateway.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  muster stats
  muster stats --since 24h
  muster stats --server github --output json")]
pub(crate) struct Stats {
    #[command(flatten)]
    filter: CallFilterArgs,
    #[command(flatten)]
    gateway: GatewayArgs,
}

pub(crate) fn run(args: &Stats) -> Result<ExitCode, CommandError> {
    let arguments = args.filter.arguments()?.to_raw();
    process::block_on(async {
        let session = args.gateway.open().await?;
        let done = session.show("core_calls_stats", &arguments).await;
        session.close().await;
        done
    })
}
