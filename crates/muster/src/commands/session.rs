//! `muster session`: who is logged in to the gateway.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use muster_core::json::RawObject;

use super::gateway_args::GatewayArgs;
use crate::{error::CommandError, process};

/// Show who is logged in to the gateway, and log them out
///
/// A login is listed from its first request on. Both commands work at any of several replicas, for the logins and browsers
/// of all of them. `muster token` manages the tokens of clients that cannot log in.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  muster session list
  muster session list --output json
  muster session end 8mQ1xGv0b2Kd")]
pub(crate) struct Session {
    #[command(subcommand)]
    action: SessionAction,
    #[command(flatten)]
    gateway: GatewayArgs,
}

#[derive(Debug, Subcommand)]
enum SessionAction {
    /// List the logins that requests came from since the gateway started, and the browsers at the console
    #[command(visible_alias = "ls")]
    List,
    /// Log a user or a browser out
    End {
        /// The id of the session, as shown by `muster session list`
        #[arg(value_name = "ID", allow_hyphen_values = true)]
        id: String,
    },
}

pub(crate) fn run(args: &Session) -> Result<ExitCode, CommandError> {
    process::block_on(async {
        let session = args.gateway.open().await?;
        let mut wanted = RawObject::new();
        let tool = match &args.action {
            SessionAction::List => "core_session_list",
            SessionAction::End { id } => {
                wanted.set_value("id", id);
                "core_session_end"
            }
        };
        let done = session.show(tool, &wanted.to_raw()).await;
        session.close().await;
        done
    })
}
