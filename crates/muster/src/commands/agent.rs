//! `muster agent`: a client of a running gateway, for people and for programs that speak only stdio.

use std::{io::IsTerminal as _, path::PathBuf, process::ExitCode, sync::Arc};

use clap::{Args, ValueEnum};
use muster_client::{
    bridge::{login_server::LoginServer, user_login::UserLogin},
    env_vars,
    login::{self, AuthMode},
    remote::target::{Target, TargetOptions, Transport},
};
use muster_mcp::stdio::{Input, Output};
use muster_mcp_client::bridge;
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

/// Connect to a running gateway
///
/// Without a mode it connects, tells what there is, and waits. With --repl it takes commands: tools can
/// be listed, described and called, with completion. With --mcp-server it carries a client on standard
/// input and output to the gateway and back: every message as it is written, in both protocol eras.
/// When the gateway restarts it connects again.
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
    /// The address of the gateway
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
    /// The context that names the gateway
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Take commands
    #[arg(long, conflicts_with = "mcp_server")]
    repl: bool,
    /// Carry an MCP client on standard input and output
    #[arg(long)]
    mcp_server: bool,
    /// What is spoken with the gateway
    #[arg(long, value_enum, default_value_t)]
    transport: Spoken,
    /// Say more about what goes on
    #[arg(long)]
    verbose: bool,
    /// Print without colour
    #[arg(long)]
    no_color: bool,
    /// Show requests and answers as JSON
    #[arg(long)]
    json_rpc: bool,
    /// The folder that holds config.yaml [default: ~/.config/muster]
    #[arg(long, value_name = "DIR")]
    config_path: Option<PathBuf>,
    /// Accepted for the sake of older scripts; has no effect
    #[arg(long, value_name = "DURATION", default_value = "5m")]
    timeout: String,
    /// What happens when the gateway wants a login: auto, prompt or none
    #[arg(long, value_name = "MODE")]
    auth: Option<String>,
    /// Try to log in anew without a page first
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
        Spoken::Sse => Target { transport: Transport::Sse, ..target },
        Spoken::StreamableHttp => target,
    };
    let mode = AuthMode::parse(args.auth.as_deref())?;
    let level = if args.verbose { LevelFilter::DEBUG } else { LevelFilter::WARN };
    log::install(level, None)
        .map_err(|err| CommandError::new(format!("cannot write log lines: {err}")))?;
    let done = if args.mcp_server { carry(args, &target, mode) } else { talk(args, target, mode) };
    done.map(|()| ExitCode::SUCCESS)
}

fn carry(args: &Agent, target: &Target, mode: AuthMode) -> Result<(), CommandError> {
    let target = &target.streamable().ok_or_else(|| {
        CommandError::new("a client is carried over streamable HTTP only")
            .hint("name the endpoint that ends in /mcp")
    })?;
    // One client, one thread: nothing has to be handed from one to another.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let carried = runtime.block_on(process::lasting(async {
        let (input, output) = (Input::standard()?, Output::standard()?);
        if args.silent {
            login::try_silent_login(target, mode, &Terminal::Stderr).await;
        }
        let login = Arc::new(UserLogin::load(target, mode).await);
        let options = bridge::BridgeOptions {
            login: Arc::<UserLogin>::clone(&login),
            until_login: Some(Arc::new(LoginServer::new(Arc::clone(&login)))),
            ..bridge::BridgeOptions::new(&target.url)
        };
        let visiting = async {
            match args.disable_auto_sso {
                true => std::future::pending().await,
                false => login.log_in_at_servers().await,
            }
        };
        let carried = tokio::select! {
            carried = bridge::serve(options, input, output, process::stop_requested()) => carried,
            never = visiting => match never {},
        };
        carried.map_err(|err| CommandError::new(err.to_string()))
    }));
    // A thread may still wait for a terminal's next line; nobody waits for it.
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

/// Tells what there is, and stays until it is asked to leave.
async fn watch(target: &Target, mode: AuthMode, lines: Console) -> Result<(), CommandError> {
    let remote = connection::connect(target, mode, lines).await?;
    connection::load(&remote, lines).await?;
    process::stop_requested().await;
    lines.info("Received interrupt signal, shutting down gracefully...");
    remote.close().await;
    Ok(())
}
