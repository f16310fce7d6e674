//! `muster top`: live statistics of the backends.

use std::{io::IsTerminal as _, process::ExitCode, time::Duration};

use clap::Args;
use muster_api::stats::Stats;
use muster_client::remote::no_arguments;

use crate::{
    commands::gateway_args::GatewayArgs,
    error::CommandError,
    output::{Printer, format::OutputFormat, reply::stats},
    process,
};

/// Watch the backends of a running gateway
///
/// Shows the state of each backend, its number of calls and failures, and their durations. Press Ctrl+C
/// to exit.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  muster top
  muster top --once
  muster top --once --output json")]
pub(crate) struct Top {
    /// Print once and exit
    #[arg(long)]
    once: bool,
    /// The refresh interval in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0)]
    interval: f64,
    #[command(flatten)]
    gateway: GatewayArgs,
}

pub(crate) fn run(args: &Top) -> Result<ExitCode, CommandError> {
    if !(0.1..=3600.0).contains(&args.interval) {
        return Err(CommandError::new("--interval must be between 0.1 and 3600 seconds"));
    }
    process::block_on(watch(args))
}

async fn watch(args: &Top) -> Result<(), CommandError> {
    let session = args.gateway.open().await?;
    if matches!(session.style.format, OutputFormat::Json | OutputFormat::Yaml) {
        let done = session.show("core_stats", &no_arguments()).await;
        session.close().await;
        return done;
    }
    let printer = Printer::stdout();
    let redraws = !args.once && std::io::stdout().is_terminal();
    let mut before: Option<Stats> = None;
    loop {
        let stats: Stats = session.remote.reply("core_stats", &no_arguments()).await?;
        let shown = stats::table(&stats, before.as_ref());
        // Clear the screen right before printing, so that it does not flicker.
        if redraws {
            printer.clear()?;
        }
        printer.line(&shown)?;
        before = Some(stats);
        if args.once {
            break;
        }
        tokio::select! {
            () = tokio::time::sleep(Duration::from_secs_f64(args.interval)) => (),
            () = process::stop_requested() => break,
        }
    }
    session.close().await;
    Ok(())
}
