//! `muster approve`: approves what agents added or changed.

use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::{
    completion,
    gateway_args::{GatewayArgs, one},
    resource_kinds,
};
use crate::{
    error::CommandError,
    output::{Printer, format::OutputFormat, next_step},
    process,
};

/// Approve an MCP server that an agent added or changed
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  muster get mcpserver github
  muster approve mcpserver github")]
pub(crate) struct Approve {
    #[command(subcommand)]
    kind: ApprovedKind,
    #[command(flatten)]
    gateway: GatewayArgs,
}

#[derive(Debug, Subcommand)]
#[command(subcommand_value_name = "TYPE", subcommand_help_heading = "Types")]
enum ApprovedKind {
    /// Approve an MCP server, so that it can be connected
    Mcpserver {
        /// The name of the MCP server
        #[arg(add = completion::services())]
        name: String,
    },
    #[command(external_subcommand)]
    Unknown(Vec<String>),
}

pub(crate) fn run(args: &Approve) -> Result<ExitCode, CommandError> {
    match &args.kind {
        ApprovedKind::Mcpserver { name } => process::block_on(async {
            let session = args.gateway.open().await?;
            session.show("core_mcpserver_approve", &one("name", name)).await?;
            if matches!(session.style.format, OutputFormat::Table | OutputFormat::Wide) {
                let server = session.remote.reply("core_mcpserver_get", &one("name", name)).await?;
                Printer::stdout().line(&next_step::state_of(&server))?;
            }
            session.close().await;
            Ok(())
        }),
        ApprovedKind::Unknown(words) => {
            let word = words.first().map(String::as_str).unwrap_or_default();
            Err(resource_kinds::unknown(word, &["mcpserver"]))
        }
    }
}
