//! `muster agent`: a REPL for a running gateway, and a bridge to it for stdio clients.

use std::{io::IsTerminal as _, path::PathBuf, process::ExitCode, sync::Arc};

use clap::{Args, ValueEnum};
use muster_client::{
    bridge::{login_server::LoginServer, user_login::UserLogin},
    env_vars,
    login::{self, AuthMode},
    remote::target::{self, GatewayTransport, Target, TargetOptions},
};
use muster_mcp::stdio::{Input, Output};
use muster_mcp_client::bridge::{self, UpstreamLocator};
use tracing::level_filters::LevelFilter;

use crate::{
    agent::{
        connection,
        console::{Colour, Console, Detail, Traffic},
        repl,
    },
    error::CommandError,
    log, process,
    terminal::Terminal,
};

/// Use a running gateway interactively, or bridge an MCP client to it
///
/// With --repl, list, describe and call tools interactively, with completion. With --mcp-server, bridge
/// an MCP client on standard input and output to the gateway; messages pass unchanged. Without either,
/// connect, show what the gateway offers and wait. Reconnects when the gateway restarts.
#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of its own on the command line"
)]
#[command(after_help = "\
Examples:
  muster agent --repl
  muster agent --mcp-server
  muster agent --mcp-server --endpoint https://muster.example/mcp")]
pub(crate) struct Agent {
    /// The endpoint of the gateway
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
    /// The context to use
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Start an interactive session
    #[arg(long, conflicts_with = "mcp_server")]
    repl: bool,
    /// Bridge an MCP client on standard input and output
    #[arg(long)]
    mcp_server: bool,
    /// The transport to the gateway
    #[arg(long, value_enum, default_value_t)]
    transport: Spoken,
    /// Print more details
    #[arg(long)]
    verbose: bool,
    /// Print without colour
    #[arg(long)]
    no_color: bool,
    /// Print requests and responses as JSON
    #[arg(long)]
    json_rpc: bool,
    /// The directory whose config.yaml sets the endpoint [default: ~/.config/muster]
    #[arg(long, value_name = "DIR")]
    config_path: Option<PathBuf>,
    /// Ignored; accepted for compatibility
    #[arg(long, value_name = "DURATION", default_value = "5m")]
    timeout: String,
    /// How to log in if the gateway requires it: auto, prompt or none
    #[arg(long, value_name = "MODE")]
    auth: Option<String>,
    /// Try to log in again without a page first
    #[arg(long)]
    silent: bool,
    /// With --mcp-server: after a login, do not open the pages of the servers behind the gateway that
    /// want one of their own
    #[arg(long)]
    disable_auto_sso: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum Spoken {
    /// Streamable HTTP
    #[default]
    StreamableHttp,
    /// HTTP with server-sent events, as in 2024-11-05
    Sse,
}

pub(crate) fn run(args: &Agent) -> Result<ExitCode, CommandError> {
    let target = Target::resolve(TargetOptions {
        endpoint: args.endpoint.as_deref(),
        context: args.context.as_deref(),
        config_path: args.config_path.as_ref(),
    })?;
    let target = match args.transport {
        Spoken::Sse => Target { transport: GatewayTransport::Sse, ..target },
        Spoken::StreamableHttp => target,
    };
    let mode = AuthMode::parse(args.auth.as_deref())?;
    let level = if args.verbose { LevelFilter::DEBUG } else { LevelFilter::WARN };
    log::install(level, log::ArgumentValues::Hidden, None, log::LogFormat::Text)
        .map_err(|err| CommandError::new(format!("cannot write log lines: {err}")))?;
    let done = if args.mcp_server {
        carry(&CarriedClient {
            target,
            mode,
            locator: None,
            tries_silent_login: args.silent,
            visits_servers: !args.disable_auto_sso,
        })
    } else {
        talk(args, target, mode)
    };
    done.map(|()| ExitCode::SUCCESS)
}

/// The options of bridging the client on standard input and output to a gateway.
pub(super) struct CarriedClient {
    /// The gateway. If a `locator` finds the address, this target only selects the login.
    pub(super) target: Target,
    /// How to log in.
    pub(super) mode: AuthMode,
    /// Finds the gateway, if its address may change.
    pub(super) locator: Option<Arc<dyn UpstreamLocator>>,
    /// Whether to try a silent login first, without showing a page.
    pub(super) tries_silent_login: bool,
    /// Whether to open the login pages of servers after a login at the gateway.
    pub(super) visits_servers: bool,
}

/// Bridges the client until it disconnects.
pub(super) fn carry(client: &CarriedClient) -> Result<(), CommandError> {
    let mode = client.mode;
    let target = &client.target.streamable().ok_or_else(|| {
        CommandError::new("a client is carried over streamable HTTP only")
            .hint("name the endpoint that ends in /mcp")
    })?;
    // One client needs only one thread.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let carried = runtime.block_on(process::releasing_memory(async {
        let (input, output) = (Input::standard()?, Output::standard()?);
        if client.tries_silent_login {
            login::try_silent_login(target, mode, &Terminal::Stderr).await;
        }
        let login = Arc::new(UserLogin::load(target, mode).await);
        let options = bridge::BridgeOptions {
            login: Arc::<UserLogin>::clone(&login),
            until_login: Some(Arc::new(LoginServer::new(Arc::clone(&login)))),
            locator: client.locator.clone(),
            address_header: Some(target::local_header),
            ..bridge::BridgeOptions::new(&target.url)
        };
        let visiting = async {
            match client.visits_servers {
                true => login.log_in_at_servers().await,
                false => std::future::pending().await,
            }
        };
        let carried = tokio::select! {
            carried = bridge::serve(options, input, output, process::stop_requested()) => carried,
            never = visiting => match never {},
        };
        carried.map_err(|err| CommandError::new(err.to_string()))
    }));
    // A blocking read of standard input cannot be cancelled: do not wait for its thread.
    runtime.shutdown_background();
    carried
}

fn talk(args: &Agent, target: Target, mode: AuthMode) -> Result<(), CommandError> {
    let coloured =
        !args.no_color && env_vars::get("NO_COLOR").is_none() && std::io::stdout().is_terminal();
    let lines = Console {
        colour: if coloured { Colour::On } else { Colour::Off },
        detail: if args.verbose { Detail::Verbose } else { Detail::Usual },
        traffic: if args.json_rpc { Traffic::Json } else { Traffic::Words },
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    if args.silent {
        runtime.block_on(login::try_silent_login(&target, mode, &Terminal::Stderr));
    }
    let done = if args.repl {
        repl::run(&runtime, (target, mode), lines)
    } else {
        runtime.block_on(watch(&target, mode, lines))
    };
    runtime.shutdown_background();
    done
}

/// Prints the inventory and waits until the process is asked to stop.
async fn watch(target: &Target, mode: AuthMode, lines: Console) -> Result<(), CommandError> {
    let remote = connection::connect(target, mode, lines).await?;
    connection::load(&remote, lines).await?;
    process::stop_requested().await;
    lines.info("Received interrupt signal, shutting down gracefully...");
    remote.close().await;
    Ok(())
}
