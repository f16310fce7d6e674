//! `muster stop`: stops the gateway, or a service.

use std::{process::ExitCode, time::Duration};

use clap::Args;
use muster_client::{local_gateway, user_dirs};
use muster_engine::state_folder::{GatewayOwner, StateFolder};
use rustix::process::{Pid, Signal, kill_process};

use super::{
    completion,
    gateway_args::{GatewayArgs, one},
    resource_kinds, serve,
};
use crate::{
    error::CommandError,
    output::{Printer, shell_quoted, spinner},
    process,
};

/// Stop the gateway, or a service
///
/// Without arguments, stops the gateway of the configuration directory. It first finishes the calls in flight, for as long
/// as its drain timeout; --now skips that. With a type and a name, stops a service of a running gateway.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  muster stop
  muster stop --now
  muster stop service github")]
pub(crate) struct Stop {
    /// The type to stop: service
    #[arg(value_name = "TYPE", requires = "name", add = completion::stopped())]
    kind: Option<String>,
    /// The name of the service
    #[arg(value_name = "NAME", add = completion::names())]
    name: Option<String>,
    /// Cut off the calls in flight
    #[arg(long, conflicts_with = "kind")]
    now: bool,
    /// How long to wait for the end of the gateway
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = serve::parse_duration)]
    timeout: Duration,
    /// The state folder of the gateway, if it has a special one
    #[arg(long, value_name = "DIR")]
    state_path: Option<std::path::PathBuf>,
    #[command(flatten)]
    gateway: GatewayArgs,
}

pub(crate) fn run(args: &Stop) -> Result<ExitCode, CommandError> {
    let (Some(kind), Some(name)) = (&args.kind, &args.name) else {
        return process::block_on(stop_gateway(args));
    };
    resource_kinds::find(kind, resource_kinds::STOPPED)?;
    process::block_on(async {
        let session = args.gateway.open().await?;
        let done = session.show("core_service_stop", &one("name", name)).await;
        session.close().await;
        done
    })
}

async fn stop_gateway(args: &Stop) -> Result<(), CommandError> {
    args.gateway.refuse_endpoint("muster stop", args.state_path.is_some())?;
    let config = args.gateway.config_directory()?;
    let folder = user_dirs::state_folder(&config, args.state_path.as_deref())?;
    let config = shell_quoted(&config.to_string_lossy());
    let Some(owner) = folder.owner() else {
        return Printer::stdout().line(&format!("No gateway is running for {config}."));
    };
    let pid = signal(&folder, &owner, Signal::TERM)?;
    if args.now {
        // The second signal cuts off the calls that the first one waits for. It is a different signal, because two
        // pending signals of the same kind can be merged into one.
        signal(&folder, &owner, Signal::INT)?;
    }
    let stopping = local_gateway::stopped(&folder, args.timeout);
    if !spinner::around("Stopping the gateway...", args.gateway.quiet, stopping).await {
        return Err(CommandError::new(format!(
            "the gateway (pid {pid}) is still running after {} seconds",
            args.timeout.as_secs()
        ))
        .hint("cut off the calls in flight with `muster stop --now`"));
    }
    Printer::stdout().line(&format!("Stopped the gateway for {config} (pid {pid})."))
}

fn signal(folder: &StateFolder, owner: &GatewayOwner, signal: Signal) -> Result<u32, CommandError> {
    let folder = folder.path().display();
    let pid = owner.pid.ok_or_else(|| {
        CommandError::new(format!("the owner of {folder} is in another container"))
            .hint("stop it there")
    })?;
    let process = i32::try_from(pid).ok().and_then(Pid::from_raw);
    match process.map(|process| kill_process(process, signal)) {
        // The process may have ended meanwhile.
        Some(Ok(()) | Err(rustix::io::Errno::SRCH)) => Ok(pid),
        Some(Err(error)) => Err(CommandError::new(format!("cannot stop process {pid}: {error}"))),
        None => Err(CommandError::new(format!("{pid} is not a process id"))),
    }
}
