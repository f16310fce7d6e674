//! `muster agent`: a client of a running gateway, for people and for programs that speak only stdio.

use std::{path::PathBuf, process::ExitCode};

use clap::Args;
use muster_mcp::{
    client::bridge,
    stdio::{Input, Output},
};
use tracing::level_filters::LevelFilter;

use crate::{error::CommandError, log, process};

/// Connect to a running gateway
///
/// With --mcp-server it carries a client on standard input and output to the gateway and back: every
/// message as it is written, in both protocol eras. When the gateway restarts it connects again.
#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of its own on the command line"
)]
#[command(after_help = "\
Examples:
  muster agent --mcp-server
  muster agent --mcp-server --endpoint https://muster.example/mcp")]
pub(crate) struct Agent {
    /// The address of the gateway
    #[arg(long, value_name = "URL")]
    pub(crate) endpoint: Option<String>,
    /// Carry an MCP client on standard input and output
    #[arg(long)]
    pub(crate) mcp_server: bool,
    /// The folder that holds config.yaml [default: ~/.config/muster]
    #[arg(long, value_name = "DIR")]
    pub(crate) config_path: Option<PathBuf>,
    /// Write more log lines
    #[arg(long)]
    pub(crate) verbose: bool,
}

pub(crate) fn run(args: &Agent) -> Result<ExitCode, CommandError> {
    let url = args.endpoint.clone().unwrap_or_else(|| "http://localhost:8090/mcp".to_owned());
    let level = if args.verbose { LevelFilter::DEBUG } else { LevelFilter::WARN };
    log::install(level, None)
        .map_err(|err| CommandError::new(format!("cannot write log lines: {err}")))?;
    // One client, one thread: nothing has to be handed from one to another.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let carried = runtime.block_on(carry(bridge::Options::new(url)));
    // A thread may still wait for a terminal's next line; nobody waits for it.
    runtime.shutdown_background();
    carried.map(|()| ExitCode::SUCCESS)
}

async fn carry(options: bridge::Options) -> Result<(), CommandError> {
    let (input, output) = (Input::standard()?, Output::standard()?);
    let carried = bridge::serve(options, input, output, process::stop_requested()).await;
    carried.map_err(|err| CommandError::new(err.to_string()))
}
