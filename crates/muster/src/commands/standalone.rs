//! `muster standalone`: the gateway for a client on standard input and output.

use std::{process::ExitCode, sync::Arc, time::Duration};

use clap::Args;
use muster_client::{
    local_gateway::LocalGateway, login::AuthMode, remote::target::Target, user_dirs,
};

use super::{
    agent::{self, CarriedClient},
    serve::{self, BackgroundRole, Serve},
};
use crate::error::CommandError;

/// How long the gateway goes on after its last client, by default.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// Serve one MCP client on standard input and output
///
/// Joins the gateway of the configuration directory, and starts it in the background if it is not running: all clients
/// share one gateway, and so one copy of each server. It ends ten minutes after its last client, or as
/// --idle-timeout says, or with `muster stop`. If it is killed, the next message of a client starts it again.
///
/// Add this command as a server to the configuration of an MCP client, or let `muster connect` do so.
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
    let serve = &args.serve;
    if serve.background {
        return Err(CommandError::new("`muster standalone` serves the client that starts it")
            .hint("start a gateway in the background with `muster serve --background`"));
    }
    serve::install_log(serve)?;
    let config = serve::config_path(serve)?;
    let folder = user_dirs::state_folder(&config, serve.state_path.as_deref())?;
    let idle_timeout = serve.idle_timeout.or(Some(IDLE_TIMEOUT));
    let started = Serve { idle_timeout, ..serve.clone() };
    let arguments = started.arguments(&config, &folder, BackgroundRole::Starter);
    let gateway = LocalGateway::new(folder, arguments, serve::client_options(serve));
    let client = CarriedClient {
        target: Target::of_directory(&config),
        mode: AuthMode::parse(None)?,
        locator: Some(Arc::new(gateway)),
        tries_silent_login: false,
        visits_servers: false,
    };
    agent::carry(&client).map(|()| ExitCode::SUCCESS)
}
