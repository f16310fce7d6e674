//! `muster console`: opens the console of a gateway in the browser.

use std::process::ExitCode;

use clap::Args;
use muster_client::console;
use muster_exec::browser;

use super::gateway_args::GatewayArgs;
use crate::{
    error::CommandError,
    output::{self, Printer},
    process,
};

/// Open the console of a running gateway in your browser, logged in
///
/// Prints the address, which logs one browser in and is good for a minute. The address of a gateway on another machine is
/// printed only. The console is for operators: your own gateway on this machine knows you, others need a login or a token of
/// an operator.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  muster console
  muster console --no-open")]
pub(crate) struct ConsoleArgs {
    /// Print the address only
    #[arg(long)]
    no_open: bool,
    #[command(flatten)]
    gateway: GatewayArgs,
}

pub(crate) fn run(args: &ConsoleArgs) -> Result<ExitCode, CommandError> {
    process::block_on(async {
        // Connect first, which logs in if the gateway requires it.
        args.gateway.open().await?.close().await;
        let target = args.gateway.target()?;
        let url = console::login_url(&target).await?;
        Printer::stdout().line(&url)?;
        if args.no_open {
            return Ok(());
        }
        if !target.is_local() {
            // Do not pass the address of a remote gateway to a browser: all users of this machine can see
            // its arguments. A local gateway admits only its own user, so others cannot use the address.
            output::hint("open the address in your browser within a minute");
        } else if browser::open(&url).is_err() {
            output::hint("no browser could be started: open the address yourself");
        }
        Ok(())
    })
}
