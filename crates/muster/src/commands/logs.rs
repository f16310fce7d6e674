//! `muster logs`: shows what local servers write to standard error.

use std::{process::ExitCode, time::Duration};

use clap::Args;
use muster_api::{
    error::ErrorKind,
    mcp_server::{ServerLog, ServerLogLine},
};
use muster_core::json::RawObject;

use super::{
    completion,
    gateway_args::{GatewayArgs, GatewaySession},
    resource_kinds::{self, ResourceKind},
    resource_verb::nearest,
};
use crate::{
    error::CommandError,
    output::{Printer, format::OutputFormat, reply::log_line},
    process,
};

const TOOL: &str = "core_mcpserver_logs";
/// The polling interval for new lines.
const INTERVAL: Duration = Duration::from_secs(1);

/// Show what a local MCP server writes to standard error
///
/// The gateway keeps the last 1000 lines of each server. Lines on standard output that are not messages are shown
/// too: they break the protocol.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  muster logs mcpserver github
  muster logs mcpserver github --tail 20
  muster logs mcpserver github --follow")]
pub(crate) struct Logs {
    /// The type: mcpserver
    #[arg(value_name = "TYPE", add = completion::logged())]
    kind: String,
    /// The name of the server
    #[arg(value_name = "NAME", add = completion::names())]
    name: String,
    /// Show new lines as they are written
    #[arg(short, long)]
    follow: bool,
    /// The number of lines to show first
    #[arg(long, value_name = "N", default_value_t = 100)]
    tail: u32,
    #[command(flatten)]
    gateway: GatewayArgs,
}

pub(crate) fn run(args: &Logs) -> Result<ExitCode, CommandError> {
    resource_kinds::find(&args.kind, resource_kinds::LOGGED)?;
    process::block_on(async {
        let session = args.gateway.open().await?;
        let done = match args.follow {
            true => follow(&session, args).await,
            false => show(&session, args).await,
        };
        session.close().await;
        done
    })
}

fn arguments(name: &str, tail: u32, after: u64) -> RawObject<'static> {
    let mut object = RawObject::new();
    object.set_value("name", name);
    object.set_value("tail", &tail);
    object.set_value("after", &after);
    object
}

async fn show(session: &GatewaySession, args: &Logs) -> Result<(), CommandError> {
    let arguments = arguments(&args.name, args.tail, 0).to_raw();
    let response = session.request(TOOL, &arguments).await?;
    if response.failed {
        let error = session.failure(TOOL, &response);
        return Err(match response.error_kind() {
            Some(ErrorKind::NotFound) => {
                nearest(session, ResourceKind::McpServer, &args.name, error).await
            }
            Some(ErrorKind::Other) | None => error,
        });
    }
    session.print(TOOL, &response)
}

async fn follow(session: &GatewaySession, args: &Logs) -> Result<(), CommandError> {
    let printer = Printer::stdout();
    let mut stop = std::pin::pin!(process::stop_requested());
    let (mut tail, mut after) = (args.tail, 0);
    loop {
        let arguments = arguments(&args.name, tail, after).to_raw();
        let log: ServerLog = session.remote.reply(TOOL, &arguments).await?;
        for line in &log.lines {
            printer.line(&match session.style.format {
                OutputFormat::Json | OutputFormat::Yaml => json(line)?,
                OutputFormat::Table | OutputFormat::Wide => log_line(line),
            })?;
        }
        after = log.lines.last().map_or(after, |line| line.number);
        // After the first page, fetch every new line.
        tail = u32::MAX;
        tokio::select! {
            () = &mut stop => return Ok(()),
            () = tokio::time::sleep(INTERVAL) => (),
        }
    }
}

fn json(line: &ServerLogLine) -> Result<String, CommandError> {
    serde_json::to_string(line)
        .map_err(|err| CommandError::new(format!("cannot write the line as JSON: {err}")))
}
