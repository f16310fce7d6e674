//! `muster serve`: starts the gateway.

mod args;
mod backends;
mod background;
pub(super) mod flags;
mod hints;
mod idle;
mod kubernetes;
mod logins;
mod logout;
mod metrics_page;
mod over_http;
mod readiness;
mod replicas;
mod setup_checks;
mod shutdown;
mod state;
mod surfaces;
mod telemetry;

use std::{path::PathBuf, process::ExitCode, sync::Arc, time::Duration};

use muster_auth::{access::directory::AccessDirectory, server::AuthServer};
use muster_client::{
    env_vars,
    secrets::{SecretConnector, SecretStore},
};
use muster_config::settings::{Aggregator, ServeTransport};
use muster_core::{policy::DestructiveTools, request::ServerInfo};
use muster_engine::{
    engine::{Engine, EngineOptions},
    store::{ConfigStore, Files},
    timing::EngineTiming,
};
use muster_exec::{descriptors, detached, launcher::Launcher};
use muster_mcp::{
    http::{ConnectionThreads, DrainOutcome, ThreadPool},
    server::Server,
};
use muster_mcp_client::McpConnector;
use tokio::net::TcpListener;
use tracing::level_filters::LevelFilter;

#[cfg(feature = "kubernetes")]
pub(crate) use self::kubernetes::access as cluster_access;
pub(crate) use self::{
    args::Serve,
    background::{BackgroundRole, parse_duration},
    flags::LoginFlags,
    state::options as client_options,
};
use self::{
    kubernetes::ClusterMode,
    over_http::HttpGateway,
    state::GatewayState,
    surfaces::{dispatcher, fronts, surface},
    telemetry::GatewayTelemetry,
};
use crate::{
    access_rules::{self, AccessRules},
    bundled,
    error::{CALLS_CUT_OFF, CommandError},
    listen, log, process,
};

/// Serves clients until the process is asked to stop. Starts a background process instead if the arguments say so.
pub(crate) fn run(args: &Serve) -> Result<ExitCode, CommandError> {
    args.check_surface_flags()?;
    if args.background {
        return background::run(args);
    }
    if args.detached {
        detached::lead_session();
    }
    install_log(args)?;
    let config = config_path(args.config_path.as_ref())?;
    let state = GatewayState::take(args, &config)?;
    let store = ConfigStore::new(config).with_state(state.path());
    if let Some(missing) = args.config_path.as_ref().filter(|path| !path.exists()) {
        tracing::warn!(
            "{} does not exist: the defaults are used, without a policy",
            missing.display()
        );
    }
    let mut files = store.load_settings();
    if let Some(error) = files.config_error() {
        return Err(CommandError::new(format!("failed to initialize application: {error}")));
    }
    if !files.settings.kubernetes {
        files = store.load(&Files::default());
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let threads = ConnectionThreads::new();
    let serving = serve(args, state, store, files, threads.pool());
    let served = runtime.block_on(process::releasing_memory(serving));
    // A blocking read of standard input cannot be cancelled: do not wait for its thread.
    runtime.shutdown_background();
    served.map(|outcome| match outcome {
        DrainOutcome::Finished => ExitCode::SUCCESS,
        DrainOutcome::CutOff => ExitCode::from(CALLS_CUT_OFF),
    })
}

/// Installs the log on standard error, at the level of the arguments.
pub(crate) fn install_log(args: &Serve) -> Result<(), CommandError> {
    let level = match (args.silent, args.debug) {
        (true, _) => LevelFilter::OFF,
        (false, true) => LevelFilter::DEBUG,
        (false, false) => LevelFilter::INFO,
    };
    log::install(level, log::ArgumentValues::Hidden, None, args.log_format)
        .map_err(|err| CommandError::new(format!("cannot write log lines: {err}")))?;
    if args.enable_events.is_some() {
        tracing::warn!("--enable-events is deprecated: events are always recorded");
    }
    Ok(())
}

/// The configuration directory.
pub(crate) fn config_path(named: Option<&PathBuf>) -> Result<PathBuf, CommandError> {
    if let Some(path) = named {
        return Ok(path.clone());
    }
    let home = env_vars::get("HOME").ok_or_else(|| {
        CommandError::new("there is no home directory to look for a configuration in")
            .hint("set HOME, or name a folder with --config-path")
    })?;
    Ok(PathBuf::from(home).join(".config/muster"))
}

async fn serve(
    args: &Serve,
    mut state: GatewayState,
    store: ConfigStore,
    files: Files,
    threads: ThreadPool,
) -> Result<DrainOutcome, CommandError> {
    let signals = shutdown::stop_signals();
    let settings = Arc::clone(&files.settings);
    let Some(mut cluster) = ClusterMode::of(&settings).await? else {
        return Ok(DrainOutcome::Finished);
    };
    let (store, files) = cluster.definitions(store, files);
    let aggregator = &aggregator(args, &settings.aggregator);
    let access = AccessRules::load(&settings.access, args.insecure_bind, store.root())?;
    let mode = access.mode;
    let oauth = args.logins.over(&aggregator.oauth);
    let trust = args.logins.trust()?;
    let secrets = cluster.secrets();
    let login_secrets = (&store, secrets.as_deref());
    let logins = logins::of(&oauth.server, &files, mode, trust.clone(), login_secrets).await?;
    let replica = replicas::of(&settings.replicas, &oauth.server, &trust)?;
    // Listen first: a gateway whose port is in use must not start servers.
    let listener = listener(args, aggregator, &access, logins.as_ref()).await?;
    // A client on standard input cannot be served by another replica, so share no state.
    let replica = replica.filter(|_| matches!(listener, Listener::Http(_)));
    let stores = (logins.as_ref(), replica.as_deref());
    let client = backends::of(&oauth.mcp_client, stores, mode, trust.clone(), (&store, secrets))?;
    descriptors::raise_limit();
    let launcher = Launcher::new();
    let identity = identity();
    let connector = connector(args, &launcher, &identity, &threads)?;
    let connect = with_secrets(&connector, &store, &cluster);
    let observed = GatewayTelemetry::start(&settings, state.path(), trust);
    let telemetry = observed.telemetry.clone();
    let directory = access.directory(store.root(), logins.as_ref());
    let options = EngineOptions {
        bundled: bundled::clis(),
        destructive: if args.yolo { DestructiveTools::Allowed } else { DestructiveTools::Blocked },
        logins: client.as_ref().map(|client| client.logins()),
        telemetry: telemetry.clone(),
        replica: replica.as_ref().map(replicas::link),
        directory: Some(Arc::<AccessDirectory>::clone(&directory)),
        timing: timing(&cluster),
        executions: cluster.executions(),
        ..EngineOptions::new(connect, launcher.clone(), state.environment(store.root(), &settings))
    };
    let root = store.root().to_owned();
    let engine = Engine::start(store, files, options);
    cluster.report(&engine);
    let surface = surface(args, &settings.search, &engine, state.path(), replica.as_ref());
    let dispatcher = dispatcher(&engine, &telemetry, surface.name());
    let parts = (&dispatcher, &engine);
    let fronts = fronts(args.surface, &identity, surface, parts, state.path(), replica.as_ref());
    let server = Server::new(fronts.agents);
    let served = match listener {
        Listener::Stdio => {
            let drain = Duration::from_secs(aggregator.drain_timeout.into());
            shutdown::serve_stdio(server, access_rules::pipe(mode), &engine, drain, signals).await
        }
        Listener::Http(listeners) => {
            let gateway = HttpGateway {
                args,
                settings: &settings,
                aggregator,
                logins: logins.as_ref(),
                client: client.as_ref(),
                replica: replica.as_ref(),
                engine: &engine,
                telemetry,
                directory: &directory,
                root: &root,
                threads,
                upstream: connector.open_connections(),
            };
            let served =
                gateway.serve(access, (server, fronts.console), listeners, &mut state, signals);
            Box::pin(served).await?
        }
    };
    cluster.shut_down(engine).await;
    replicas::retire(replica.as_deref()).await;
    observed.finish().await;
    logins::settle(logins.as_ref(), client.as_deref()).await;
    connector.shut_down().await;
    launcher.shut_down().await;
    Ok(served?)
}

/// The intervals of the engine.
fn timing(cluster: &ClusterMode) -> EngineTiming {
    EngineTiming { check_interval: cluster.check_interval(), ..EngineTiming::default() }
}

/// The settings of the endpoint, overridden by flags.
fn aggregator(args: &Serve, settings: &Aggregator) -> Aggregator {
    Aggregator { port: args.port.unwrap_or(settings.port), ..settings.clone() }
}

/// Wraps the connector so that it resolves secrets, of the cluster or of the configuration directory.
fn with_secrets(
    connector: &Arc<McpConnector>,
    store: &ConfigStore,
    cluster: &ClusterMode,
) -> Arc<SecretConnector<McpConnector>> {
    let connect = SecretConnector::new(SecretStore::of(store.root()), Arc::clone(connector));
    Arc::new(connect.in_cluster(cluster.secrets()))
}

/// The server info of the gateway in the MCP handshake.
fn identity() -> ServerInfo {
    ServerInfo {
        name: "muster-aggregator".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        instructions: None,
    }
}

/// The connector to servers.
fn connector(
    args: &Serve,
    launcher: &Launcher,
    identity: &ServerInfo,
    threads: &ThreadPool,
) -> Result<Arc<McpConnector>, CommandError> {
    let connector = McpConnector::new(launcher.clone(), identity).with_threads(threads.clone());
    Ok(Arc::new(connector.with_trust_store(args.logins.trust()?)))
}

/// The endpoint to which clients connect.
enum Listener {
    Stdio,
    Http(Vec<TcpListener>),
}

async fn listener(
    args: &Serve,
    aggregator: &Aggregator,
    access: &AccessRules,
    logins: Option<&AuthServer>,
) -> Result<Listener, CommandError> {
    match aggregator.transport {
        // A gateway in the background has no client on its standard input.
        ServeTransport::Stdio if !args.detached => Ok(Listener::Stdio),
        ServeTransport::Stdio | ServeTransport::StreamableHttp | ServeTransport::Sse => {
            let setting = "`aggregator.port` in config.yaml";
            let listeners = match listen::open(&aggregator.host, aggregator.port, setting).await {
                // A gateway that clients start on demand may use any port, because they find it by its state folder.
                Err(err) if args.idle_timeout.is_some() => {
                    tracing::warn!("using another port: {err}");
                    listen::open(&aggregator.host, 0, setting).await?
                }
                opened => opened?,
            };
            access.check_bind(&listeners, logins)?;
            Ok(Listener::Http(listeners))
        }
    }
}
