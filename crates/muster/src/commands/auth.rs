//! `muster auth`: manages logins at gateways and the servers behind them.

mod login;
mod logout;
mod status;
mod whoami;

use std::{path::PathBuf, process::ExitCode};

use clap::{Args, Subcommand};
use muster_api::auth::ServerAuthStatus;
use muster_client::remote::target::{Target, TargetError, TargetOptions};

use super::completion;
use crate::{error::CommandError, output::Printer, process};

/// Log in to gateways and show your logins
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  muster auth status
  muster auth login --endpoint https://muster.example/mcp
  muster auth login --server github
  muster auth whoami
  muster auth logout --all --yes")]
pub(crate) struct Auth {
    #[command(subcommand)]
    command: AuthCommand,
    #[command(flatten)]
    at: AuthTarget,
}

/// The gateway and the verbosity of a command.
#[derive(Debug, Args)]
struct AuthTarget {
    /// The endpoint of the gateway [default: the current context, or config.yaml]
    #[arg(long, global = true, value_name = "URL")]
    endpoint: Option<String>,
    /// The context to use
    #[arg(long, global = true, value_name = "NAME", add = completion::contexts())]
    context: Option<String>,
    /// The directory whose config.yaml sets the endpoint [default: ~/.config/muster]
    #[arg(long, global = true, value_name = "DIR")]
    config_path: Option<PathBuf>,
    /// Print no progress
    #[arg(short, long, global = true)]
    quiet: bool,
}

#[derive(Debug, Subcommand)]
enum AuthCommand {
    /// Log in with the browser
    Login {
        /// Also log in to every server behind the gateway that requires it
        #[arg(long)]
        all: bool,
        /// Log in to this server behind the gateway
        #[arg(long, value_name = "NAME", add = completion::servers())]
        server: Option<String>,
        /// Try without showing a login page first
        #[arg(long)]
        silent: bool,
    },
    /// Log out: end the login at the gateway and delete the stored token
    Logout {
        /// Log out from all gateways and from the servers behind them
        #[arg(long)]
        all: bool,
        /// Log out without asking
        #[arg(short, long)]
        yes: bool,
        /// Show how to log out from this server behind the gateway
        #[arg(short, long, value_name = "NAME", add = completion::servers())]
        server: Option<String>,
    },
    /// Show where you are logged in
    Status {
        /// Show only this server behind the gateway
        #[arg(long, value_name = "NAME", add = completion::servers())]
        server: Option<String>,
    },
    /// Show who you are
    Whoami,
    /// Refresh the token without the browser
    Refresh,
}

pub(crate) fn run(args: &Auth) -> Result<ExitCode, CommandError> {
    let at = &args.at;
    process::block_on(async {
        match &args.command {
            AuthCommand::Login { all, server, silent } => {
                let prompt = if *silent { login::Prompt::SilentFirst } else { login::Prompt::Page };
                match server {
                    Some(server) => login::server(&at.target()?, server, prompt, at).await,
                    None if *all => login::all(&at.target()?, prompt, at).await,
                    None => login::gateway_with_sso(&at.target()?, prompt, at).await,
                }
            }
            AuthCommand::Logout { all: true, yes, .. } => logout::all(*yes, at).await,
            AuthCommand::Logout { server: Some(server), .. } => {
                logout::server(&at.target()?, server).await
            }
            AuthCommand::Logout { server: None, .. } => logout::gateway(&at.target()?, at).await,
            AuthCommand::Status { server: Some(server) } => {
                status::server(&at.target()?, server).await
            }
            AuthCommand::Status { server: None } => status::all(&at.target()?).await,
            AuthCommand::Whoami => whoami::whoami(&at.target()?).await,
            AuthCommand::Refresh => whoami::refresh(&at.target()?, at).await,
        }
    })
}

/// Finds a server behind the gateway by name.
fn find(servers: Vec<ServerAuthStatus>, name: &str) -> Result<ServerAuthStatus, CommandError> {
    servers.into_iter().find(|server| server.name == name).ok_or_else(|| {
        CommandError::new(format!(
            "server '{name}' not found. Use 'muster auth status' to see available servers"
        ))
    })
}

impl AuthTarget {
    fn target(&self) -> Result<Target, TargetError> {
        Target::resolve(TargetOptions {
            endpoint: self.endpoint.as_deref(),
            context: self.context.as_deref(),
            config_path: self.config_path.as_ref(),
        })
    }

    /// Prints progress, unless the command is quiet.
    fn say(&self, text: &str) -> Result<(), CommandError> {
        if self.quiet { Ok(()) } else { Printer::stdout().line(text) }
    }
}
