//! `climax run`: the server.

use std::{
    collections::BTreeMap,
    io::{self, IsTerminal as _},
    process::ExitCode,
    sync::Arc,
};

use muster_core::request::{Identity, Offers};
use muster_exec::launcher::Launcher;
use muster_gateway::{
    dispatch::{Dispatcher, State},
    front::Front,
    surface::{Surface, classic::Classic, discovery::Discovery},
};
use muster_mcp::{
    server::Server,
    stdio::{self, Input, Output},
};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::{broadcast, watch},
};

use super::{
    args::{Run, Transport},
    assembly::Assembly,
    load,
};
use crate::{env_vars, error::CommandError, log, output};

pub(super) fn run(args: &Run) -> Result<ExitCode, CommandError> {
    let log_file = env_vars::get("CLIMAX_LOG_FILE");
    log::install(args.log_level.into(), log_file.as_deref().map(AsRef::as_ref)).map_err(|err| {
        let file = log_file.as_deref().unwrap_or_default();
        CommandError::new(format!("cannot write to `{file}`, the CLIMAX_LOG_FILE: {err}"))
    })?;
    let assembly =
        Assembly::new(load::configs(&args.configs)?, load::policy_or_none(args.policy.as_deref())?);
    warn_of_duplicates(&args.configs, &assembly);
    warn_of_unknown_rules(&assembly.state);
    let identity = Identity {
        name: assembly.server_name(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        instructions: None,
    };
    let tools = assembly.state.catalog.sorted().count();
    tracing::info!("Server {} ready with {tools} tools", identity.name);
    if io::stdin().is_terminal() {
        output::advise(&format!(
            "{} waits for an MCP client on standard input; agents start it themselves. Ctrl-C ends it",
            identity.name
        ));
    }
    let surface: Box<dyn Surface> =
        if args.classic { Box::new(Classic) } else { Box::new(Discovery) };
    match args.transport {
        Transport::Stdio => serve(identity, surface, assembly)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn serve(
    identity: Identity,
    surface: Box<dyn Surface>,
    assembly: Assembly,
) -> Result<(), CommandError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let launcher = Launcher::new();
    let served = runtime.block_on(async {
        let (_writer, reader) = watch::channel(Arc::new(assembly.running(&launcher)));
        let (changes, _) = broadcast::channel(16);
        let front = Front::new(
            identity,
            Offers::default(),
            surface,
            Arc::new(Dispatcher::new(reader)),
            changes,
        );
        let server = Server::new(Arc::new(front));
        let (input, output) = (Input::standard()?, Output::standard()?);
        let served = tokio::select! {
            served = stdio::serve(server, input, output) => served,
            stopped = stop_requested() => stopped,
        };
        launcher.shut_down().await;
        served
    });
    // A thread may still wait for a terminal's next line; nobody waits for it.
    runtime.shutdown_background();
    Ok(served?)
}

async fn stop_requested() -> io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        _ = terminate.recv() => (),
        _ = interrupt.recv() => (),
    }
    Ok(())
}

/// Each replacement is told, with the file that won.
fn warn_of_duplicates(words: &[String], assembly: &Assembly) {
    let mut seen = BTreeMap::new();
    for (word, config) in words.iter().zip(&assembly.configs) {
        for tool in &config.tools {
            if seen.insert(tool.name.as_str(), word).is_some() {
                tracing::warn!("Duplicate tool name {} — overwriting (from {word})", tool.name);
                tracing::warn!("Duplicate tool name {} in index — overwriting", tool.name);
            }
        }
    }
}

/// A rule about something that is not there is most likely a typing error.
fn warn_of_unknown_rules(state: &State) {
    for (tool, rule) in &state.policy.rules {
        let Some(entry) = state.catalog.sorted().find(|entry| *entry.local_name == **tool) else {
            tracing::warn!("Policy references unknown tool {tool} — skipping");
            continue;
        };
        let params = entry.params.as_deref().unwrap_or_default();
        for argument in rule.args.keys() {
            if !params.iter().any(|param| param.name == *argument) {
                tracing::warn!(
                    "Policy references unknown argument {argument} of tool {tool} — skipping"
                );
            }
        }
    }
}
