//! `muster stats`: statistics of calls.

use std::process::ExitCode;

use clap::Args;

use super::{calls::CallFilterArgs, gateway_args::GatewayArgs};
use crate::{error::CommandError, process};

/// Count the calls of tools, with errors and durations
///
/// Counts the calls in the history of the gateway, including those of earlier runs. `muster top` shows the
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

/// The number of tools to request: the maximum that the gateway returns.
const MAX_TOOLS: usize = 1_000;

pub(crate) fn run(args: &Stats) -> Result<ExitCode, CommandError> {
    let mut arguments = args.filter.arguments()?;
    arguments.set_value("limit", &MAX_TOOLS);
    let arguments = arguments.to_raw();
    process::block_on(async {
        let session = args.gateway.open().await?;
        let done = session.show("core_calls_stats", &arguments).await;
        session.close().await;
        done
    })
}
