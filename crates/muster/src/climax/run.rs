//! `climax run`: the server.

use std::{
    collections::BTreeMap,
    io::{self, IsTerminal as _},
    process::ExitCode,
    sync::Arc,
};

use muster_auth::access::AccessControl;
use muster_client::{env_vars, user_dirs};
use muster_config::settings::Access;
use muster_core::{
    call::Caller,
    connect::Connector,
    policy::unmatched::UnmatchedRule,
    request::{ServerCapabilities, ServerInfo},
};
use muster_engine::static_servers::StaticServers;
use muster_exec::{descriptors, launcher::Launcher};
use muster_gateway::{
    dispatch::Dispatcher,
    front::Front,
    outputs::temporary::TemporaryOutputs,
    surface::{Surface, classic::Classic, discovery::DiscoverySurface},
};
use muster_mcp::{
    http::{self, ConnectionThreads, HttpOptions, ThreadPool},
    server::Server,
    stdio::{self, Input, Output},
};
use muster_mcp_client::McpConnector;
use tokio::net::TcpListener;

use super::{
    args::{Run, Transport},
    assembly::Assembly,
    load, servers,
};
use crate::{
    access_rules::{self, AccessRules},
    error::CommandError,
    listen, log, output, process,
};

pub(super) fn run(args: &Run) -> Result<ExitCode, CommandError> {
    let log_file = env_vars::get("CLIMAX_LOG_FILE");
    log::install(
        args.log_level.into(),
        log::ArgumentValues::Shown,
        log_file.as_deref().map(AsRef::as_ref),
        log::LogFormat::Text,
    )
    .map_err(|err| {
        let file = log_file.as_deref().unwrap_or_default();
        CommandError::new(format!("cannot write to `{file}`, the CLIMAX_LOG_FILE: {err}"))
    })?;
    let named = servers::tell_apart(&args.configs)?;
    let assembly = Assembly::new(
        load::configs(&named.clis)?,
        named.servers,
        load::policy_or_none(args.policy.as_deref())?,
    );
    warn_of_duplicates(&named.clis, &assembly);
    warn_of_unknown_rules(&assembly);
    let tools = assembly.state.catalog.sorted().count();
    tracing::info!("Server {} ready with {tools} tools", assembly.server_name());
    // Standard input has a single client, so one thread is enough. HTTP may have many.
    let mut builder = match args.transport {
        Transport::Stdio => tokio::runtime::Builder::new_current_thread(),
        Transport::StreamableHttp => tokio::runtime::Builder::new_multi_thread(),
    };
    let runtime = builder.enable_all().build()?;
    let threads = ConnectionThreads::new();
    let serving = serve(args, assembly, threads.pool());
    let served = runtime.block_on(process::releasing_memory(serving));
    // A blocking read of standard input cannot be cancelled: do not wait for its thread.
    runtime.shutdown_background();
    served.map(|()| ExitCode::SUCCESS)
}

async fn serve(args: &Run, assembly: Assembly, threads: ThreadPool) -> Result<(), CommandError> {
    let identity = ServerInfo {
        name: assembly.server_name(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        instructions: None,
    };
    let door = match args.transport {
        Transport::Stdio => None,
        Transport::StreamableHttp => {
            let listeners = listen::open(HOST, args.port, "`--port`").await?;
            let guard = guard(&listeners)?;
            Some((listeners, guard))
        }
    };
    descriptors::raise_limit();
    let launcher = Launcher::new();
    let connector = McpConnector::new(launcher.clone(), &identity).with_threads(threads.clone());
    let connector = Arc::new(connector);
    let connect: Arc<dyn Connector> = connector.clone();
    let offers = if assembly.servers.is_empty() { ServerCapabilities::default() } else { OFFERS };
    let (state, servers) = assembly.running(&launcher);
    let servers = StaticServers::start(state, servers, &connect);
    let outputs = TemporaryOutputs::default();
    let surface: Box<dyn Surface> = match args.classic {
        true => Box::new(Classic),
        false => Box::new(DiscoverySurface::storing(outputs.outputs())),
    };
    let name = identity.name.clone();
    let dispatcher = Arc::new(Dispatcher::new(servers.snapshot()));
    let front = Front::new(identity, offers, surface, dispatcher, servers.changes())
        .waiting_for(servers.untried());
    let server = Server::new(Arc::new(front));
    let served = match door {
        None => serve_stdio(server, &name).await,
        Some((listeners, guard)) => {
            output::hint(&format!("{name} is listening on {}", listen::url(HOST, &listeners)));
            let options = HttpOptions { guard: Some(guard), threads, ..HttpOptions::default() };
            http::serve(server, listeners, options, process::stop_requested()).await.map(drop)
        }
    };
    servers.shut_down().await;
    connector.shut_down().await;
    launcher.shut_down().await;
    Ok(served?)
}

/// The host to listen on: this machine only.
const HOST: &str = "localhost";

/// Admits processes of the same user, as `muster serve` does without logins, and callers with one of the user's static
/// tokens. Checks the addresses, because a socket that the service manager passed may have any.
fn guard(listeners: &[TcpListener]) -> Result<Arc<AccessControl>, CommandError> {
    let config = user_dirs::config().unwrap_or_default();
    let access = AccessRules::load(&Access::default(), false, &config)?;
    if let Some(address) = access_rules::exposed(listeners) {
        return Err(CommandError::new(format!(
            "refusing to listen on {address}: other machines could reach it, and `climax run` has no logins"
        ))
        .hint("pass a socket with a loopback address, or use `muster serve`"));
    }
    Ok(access.guard(None, None).0)
}

/// The capabilities to declare if there are MCP servers, which may have all of them.
const OFFERS: ServerCapabilities = ServerCapabilities {
    tools_change: true,
    resources: true,
    prompts: true,
    completions: true,
    logging: true,
};

async fn serve_stdio(server: Server, name: &str) -> io::Result<()> {
    if io::stdin().is_terminal() {
        output::hint(&format!(
            "{name} waits for an MCP client on standard input; agents start it themselves. Ctrl-C ends it"
        ));
    }
    let (input, output) = (Input::standard()?, Output::standard()?);
    tokio::select! {
        served = stdio::serve(server, Caller::local(), input, output) => served,
        () = process::stop_requested() => Ok(()),
    }
}

/// Logs each tool that a later config replaces, with the file that replaces it.
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

/// Warns about rules that match nothing, because they are most likely typos.
fn warn_of_unknown_rules(assembly: &Assembly) {
    // The tools of servers are unknown until the servers are connected.
    if !assembly.servers.is_empty() {
        return;
    }
    for UnmatchedRule { tool, argument, .. } in assembly.unmatched_rules() {
        match argument {
            None => tracing::warn!("Policy references unknown tool {tool} — skipping"),
            Some(argument) => tracing::warn!(
                "Policy references unknown argument {argument} of tool {tool} — skipping"
            ),
        }
    }
}
