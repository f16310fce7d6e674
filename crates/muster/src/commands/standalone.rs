//! `muster standalone`: the gateway for a client on standard input and output.

use std::{path::Path, process::ExitCode, sync::Arc, time::Duration};

use clap::Args;
use muster_client::{
    local_gateway::LocalGateway, login::AuthMode, remote::target::Target, user_dirs,
};

use muster_engine::state_folder::StateFolder;
use muster_exec::private_dir::PrivateDir;

use super::{
    agent::{self, CarriedClient},
    serve::{self, BackgroundRole, Serve},
};
use crate::error::CommandError;

/// The default time that the gateway keeps running after its last client has left.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// The idle timeout of a gateway that no other client can find.
const PRIVATE_IDLE_TIMEOUT: Duration = Duration::from_secs(1);

/// Serve one MCP client on standard input and output
///
/// Joins the gateway of the configuration directory, and starts it in the background if it is not running: all clients
/// share one gateway, and so one copy of each server. It ends ten minutes after its last client, or as
/// --idle-timeout says, or with `muster stop`. If it is killed, the next message of a client starts it again. Where the
/// state of the gateway cannot be stored, the client gets a gateway of its own, which ends with it.
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
    #[command(flatten)]
    agent: AgentFlags,
}

/// The flags of `muster agent` that `standalone` takes too. Those that are not shown are accepted for compatibility.
#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of its own on the command line"
)]
struct AgentFlags {
    /// How to log in if the gateway requires it: auto, prompt or none
    #[arg(long, value_name = "MODE")]
    auth: Option<String>,
    #[arg(long = "disable-auto-sso", hide = true)]
    _disable_auto_sso: bool,
    #[arg(long = "mcp-server", hide = true)]
    _mcp_server: bool,
    #[arg(long = "verbose", hide = true)]
    _verbose: bool,
    #[arg(long = "no-color", hide = true)]
    _no_color: bool,
    #[arg(long = "json-rpc", hide = true)]
    _json_rpc: bool,
    #[arg(long = "timeout", hide = true, value_name = "DURATION")]
    _timeout: Option<String>,
    #[arg(long = "transport", hide = true, value_name = "TRANSPORT")]
    _transport: Option<String>,
    #[arg(long, hide = true)]
    repl: bool,
    #[arg(long, hide = true, value_name = "URL")]
    endpoint: Option<String>,
    #[arg(long, hide = true, value_name = "NAME")]
    context: Option<String>,
}

impl AgentFlags {
    /// Refuses flags that need another command.
    fn check(&self) -> Result<(), CommandError> {
        let elsewhere = self.endpoint.is_some() || self.context.is_some();
        match (self.repl, elsewhere) {
            (true, _) => Err(CommandError::new("`muster standalone` serves an MCP client")
                .hint("explore a gateway with `muster agent --repl`")),
            (false, true) => Err(CommandError::new(
                "`muster standalone` uses the gateway of this machine",
            )
            .hint(
                "connect a client to another one with `muster agent --mcp-server --endpoint URL`",
            )),
            (false, false) => Ok(()),
        }
    }
}

pub(crate) fn run(args: &Standalone) -> Result<ExitCode, CommandError> {
    let serve = &args.serve;
    if serve.background {
        return Err(CommandError::new("`muster standalone` serves the client that starts it")
            .hint("start a gateway in the background with `muster serve --background`"));
    }
    args.agent.check()?;
    serve.check_surface_flags()?;
    serve::install_log(serve)?;
    let config = serve::config_path(serve.config_path.as_ref())?;
    let (folder, private) = state(serve, &config)?;
    let idle_timeout = match private {
        Some(_) => PRIVATE_IDLE_TIMEOUT,
        None => serve.idle_timeout.unwrap_or(IDLE_TIMEOUT),
    };
    // Use any free port: the gateway of another client without a folder may have the usual one.
    let port = serve.port.or(private.as_ref().map(|_| 0));
    let started = Serve { idle_timeout: Some(idle_timeout), port, ..serve.clone() };
    let arguments = started.arguments(&config, &folder, BackgroundRole::Starter);
    let gateway = LocalGateway::new(folder, arguments, serve::client_options(serve));
    let client = CarriedClient {
        target: Target::of_directory(&config),
        mode: AuthMode::parse(args.agent.auth.as_deref())?,
        locator: Some(Arc::new(gateway)),
        tries_silent_login: false,
        visits_servers: false,
    };
    let carried = agent::carry(&client).map(|()| ExitCode::SUCCESS);
    // Remove the temporary folder only after the client has left.
    drop(private);
    carried
}

/// The state folder. If the default one cannot be written to, a temporary folder for this client.
fn state(serve: &Serve, config: &Path) -> Result<(StateFolder, Option<PrivateDir>), CommandError> {
    let folder = user_dirs::state_folder(config, serve.state_path.as_deref());
    if serve.state_path.is_some() || user_dirs::chosen_state().is_some() {
        return Ok((folder?, None));
    }
    let reason = match folder {
        Ok(folder) => match folder.prepare() {
            Ok(()) => return Ok((folder, None)),
            Err(error) => format!("cannot write to {}: {error}", folder.path().display()),
        },
        Err(error) => error.to_string(),
    };
    let private = PrivateDir::create().map_err(|error| {
        CommandError::new(format!("there is no folder for state: {reason}; {error}"))
            .hint("name a folder that can be written to with --state-path")
    })?;
    tracing::warn!(
        "{reason}: this client gets a gateway of its own, which forgets executions, events and stored outputs when \
         the client leaves (name a folder with --state-path)"
    );
    Ok((StateFolder::at(private.path()), Some(private)))
}
