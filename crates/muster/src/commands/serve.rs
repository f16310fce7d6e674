//! `muster serve`: starts the gateway.

mod args;
mod backends;
mod background;
mod flags;
mod hints;
mod idle;
mod logins;
mod logout;
mod metrics_page;
mod state;
mod telemetry;

use std::{
    io,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use muster_auth::{
    access::{AccessControl, browser_sessions::BrowserSessions},
    client::OAuthClient,
    clock::Clock,
    server::AuthServer,
};
use muster_client::{
    env_vars, models,
    secrets::{SecretConnector, SecretStore},
};
use muster_config::settings::{Aggregator, ServeTransport, Settings};
use muster_console::{Console, ConsolePorts};
use muster_core::{
    call::Caller,
    credentials::WebPages,
    json::raw,
    policy::DestructiveTools,
    request::{ServerCapabilities, ServerInfo},
};
use muster_engine::{
    engine::{Engine, EngineOptions},
    store::{ConfigStore, Files},
    view::View,
};
use muster_exec::{descriptors, detached, launcher::Launcher};
use muster_gateway::{
    dispatch::Dispatcher,
    embeddings::ToolEmbeddings,
    front::Front,
    outputs::Outputs,
    surface::{Surface, discovery::DiscoverySurface, meta::Meta},
};
use muster_mcp::{
    curl_line::curl_line,
    http::{self, DrainOutcome, HealthResponse, HttpOptions},
    server::Server,
    stdio::{self, Input, Output},
};
use muster_mcp_client::McpConnector;
use muster_net::TrustStore;
use muster_telemetry::Telemetry;
use serde::Serialize;
use tokio::{net::TcpListener, sync::watch};
use tracing::level_filters::LevelFilter;

pub(crate) use self::{
    args::Serve,
    background::{BackgroundRole, parse_duration},
    flags::LoginFlags,
    state::options as client_options,
};
use self::{
    args::SurfaceArg, logout::Logout, metrics_page::MetricsPage, state::GatewayState,
    telemetry::GatewayTelemetry,
};
use crate::{
    access_rules::{self, AccessRules},
    bundled,
    error::{CALLS_CUT_OFF, CommandError},
    listen, log, process,
};

/// The capabilities of the gateway. Servers come and go, so it declares all that one of them may have.
const CAPABILITIES: ServerCapabilities = ServerCapabilities {
    tools_change: true,
    resources: true,
    prompts: true,
    completions: true,
    logging: true,
};

/// Serves clients until the process is asked to stop.
pub(crate) fn run(args: &Serve) -> Result<ExitCode, CommandError> {
    if args.background {
        return background::run(args);
    }
    if args.detached {
        detached::lead_session();
    }
    install_log(args)?;
    let config = config_path(args)?;
    let state = GatewayState::take(args, &config)?;
    let store = ConfigStore::new(config).with_state(state.path());
    if let Some(missing) = args.config_path.as_ref().filter(|path| !path.exists()) {
        tracing::warn!(
            "{} does not exist: the defaults are used, without a policy",
            missing.display()
        );
    }
    let files = store.load(&Files::default());
    if let Some(error) = files.config_error() {
        return Err(CommandError::new(format!("failed to initialize application: {error}")));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let served = runtime.block_on(process::releasing_memory(serve(args, state, store, files)));
    // A blocking read of standard input cannot be cancelled: do not wait for its thread.
    runtime.shutdown_background();
    served.map(|outcome| match outcome {
        DrainOutcome::Finished => ExitCode::SUCCESS,
        DrainOutcome::CutOff => ExitCode::from(CALLS_CUT_OFF),
    })
}

/// Writes log lines to standard error, as far as the arguments say.
pub(crate) fn install_log(args: &Serve) -> Result<(), CommandError> {
    let level = match (args.silent, args.debug) {
        (true, _) => LevelFilter::OFF,
        (false, true) => LevelFilter::DEBUG,
        (false, false) => LevelFilter::INFO,
    };
    log::install(level, log::ArgumentValues::Hidden, None)
        .map_err(|err| CommandError::new(format!("cannot write log lines: {err}")))?;
    if args.enable_events.is_some() {
        tracing::warn!("--enable-events is deprecated: events are always recorded");
    }
    Ok(())
}

/// The configuration directory.
pub(crate) fn config_path(args: &Serve) -> Result<PathBuf, CommandError> {
    if let Some(path) = &args.config_path {
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
) -> Result<DrainOutcome, CommandError> {
    let stop_requested = process::stop_requested();
    let hastened = process::stop_requested_times(2);
    let settings = Arc::clone(&files.settings);
    let aggregator = &Aggregator {
        port: args.port.unwrap_or(settings.aggregator.port),
        ..settings.aggregator.clone()
    };
    let access = AccessRules::load(&settings.access, args.insecure_bind, store.root())?;
    let mode = access.mode;
    let oauth = args.logins.over(&aggregator.oauth);
    let trust = trust(args)?;
    let logins = logins::of(&oauth.server, &files, mode, trust.clone())?;
    // Listen before anything is started: a gateway whose port is in use must not start servers.
    let listener = listener(args, aggregator, &access, logins.as_ref()).await?;
    let client = backends::of(&oauth.mcp_client, logins.as_ref(), mode, trust.clone(), &store)?;
    descriptors::raise_limit();
    let launcher = Launcher::new();
    let identity = identity();
    let connector = Arc::new(connector(args, &launcher, &identity)?);
    let connect =
        Arc::new(SecretConnector::new(SecretStore::of(store.root()), Arc::clone(&connector)));
    let observed = GatewayTelemetry::start(&settings, state.path(), trust);
    let telemetry = observed.telemetry.clone();
    let options = EngineOptions {
        bundled: bundled::clis(),
        destructive: if args.yolo { DestructiveTools::Allowed } else { DestructiveTools::Blocked },
        logins: client.as_ref().map(|client| client.logins()),
        telemetry: telemetry.clone(),
        ..EngineOptions::new(connect, launcher.clone(), process::environment())
    };
    let root = store.root().to_owned();
    let engine = Engine::start(store, files, options);
    let surface = surface(args, &engine, state.path());
    let dispatcher = dispatcher(&engine, &telemetry, surface.name());
    let fronts = fronts(args.surface, &identity, surface, &dispatcher, &engine, state.path());
    let server = Server::new(fronts.agents);
    let served = match listener {
        Listener::Stdio => {
            let served = serve_stdio(server, access_rules::pipe(mode)).await;
            served.map(|()| DrainOutcome::Finished)
        }
        Listener::Http(listeners) => {
            // Before anybody learns that the gateway is up; it is removed when the gateway ends.
            let operator = access.operator_file(&listeners);
            let url = listen::url(&aggregator.host, &listeners);
            engine.listening(url.clone());
            state.publish(&url);
            if !args.silent {
                let admitted = access.summary(&listeners, logins.as_ref());
                hints::print(&url, &root, &admitted, aggregator.transport);
            }
            let (guard, lists) = access.guard(logins.as_ref(), operator.as_ref());
            let console = console(&settings, &guard, &engine, &telemetry, fronts.console)?;
            let page = MetricsPage::new(&engine, telemetry, &settings.metrics, guard.clone());
            let mut options =
                http_options(&engine, &settings, guard, logins.as_ref(), client.as_ref());
            options.pages.push(Arc::new(page.counting(Arc::clone(&options.connections))));
            options.pages.extend(console);
            let (hasten, connections) =
                (Arc::clone(&options.hasten), Arc::clone(&options.connections));
            let idle = idle::until_idle(args.idle_timeout, &connections, state.folder(), &engine);
            let stop = until_either(stop_requested, idle, &engine);
            tokio::select! {
                served = http::serve(server, listeners, options, stop) => served,
                never = logins::keep_up(logins.as_ref(), lists, engine.view()) => match never {},
                never = idle::hasten_after(hastened, &hasten) => match never {},
            }
        }
    };
    engine.shut_down().await;
    observed.finish().await;
    logins::settle(logins.as_ref(), client.as_deref()).await;
    connector.shut_down().await;
    launcher.shut_down().await;
    Ok(served?)
}

/// The dispatcher of calls that agents make through a surface.
fn dispatcher(engine: &Engine, telemetry: &Telemetry, surface: &'static str) -> Arc<Dispatcher> {
    let dispatcher = Dispatcher::new(engine.state())
        .with_principals(engine.principals())
        .with_observer(telemetry.observer())
        .serving(surface);
    Arc::new(dispatcher)
}

/// Waits until the user stops the gateway, or nobody needs it any more.
async fn until_either(
    stop_requested: impl Future<Output = ()>,
    idle: impl Future<Output = ()>,
    engine: &Engine,
) {
    tokio::select! {
        () = stop_requested => (),
        () = idle => (),
    }
    engine.prepare_end();
}

/// The options of HTTP, with the pages of logins.
fn http_options(
    engine: &Engine,
    settings: &Settings,
    guard: Arc<AccessControl>,
    logins: Option<&AuthServer>,
    client: Option<&Arc<OAuthClient>>,
) -> HttpOptions {
    let (view, waiting) = (engine.view(), logins.cloned());
    let mut options = HttpOptions {
        health: Arc::new(move || health(&view, waiting.as_ref())),
        grace: Duration::from_secs(settings.aggregator.drain_timeout.into()),
        on_cut: engine.interrupter(),
        concurrent_calls: settings.aggregator.limits.concurrent_calls.into(),
        calls_per_second: settings.aggregator.limits.calls_per_second.into(),
        guard: Some(Arc::<AccessControl>::clone(&guard)),
        ..logins::options(logins)
    };
    options.hosts.extend(settings.access.allowed_hosts.iter().cloned());
    if let Some(client) = client {
        options.hosts.extend(client.host());
        options.pages.push(Arc::new(client.pages()));
    }
    if logins.is_some() {
        let principals = engine.principals();
        options.pages.push(Arc::new(Logout { guard, principals }));
    }
    options
}

/// How the gateway introduces itself.
fn identity() -> ServerInfo {
    ServerInfo {
        name: "muster-aggregator".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        instructions: None,
    }
}

/// The gateway as its clients see it.
struct Fronts {
    agents: Arc<Front>,
    /// The console shows meta-tools, whatever agents see.
    console: Arc<Front>,
}

fn fronts(
    shown: SurfaceArg,
    identity: &ServerInfo,
    surface: Box<dyn Surface>,
    dispatcher: &Arc<Dispatcher>,
    engine: &Engine,
    state: &Path,
) -> Fronts {
    let front = |surface| {
        let (identity, changes) = (identity.clone(), engine.changes());
        Arc::new(Front::new(identity, CAPABILITIES, surface, Arc::clone(dispatcher), changes))
    };
    let agents = front(surface);
    let console = match shown {
        SurfaceArg::Muster => Arc::clone(&agents),
        SurfaceArg::Climax => front(Box::new(Meta::storing(Outputs::at(state.join("outputs"))))),
    };
    Fronts { agents, console }
}

/// The pages for operators, unless they are switched off.
fn console(
    settings: &Settings,
    guard: &Arc<AccessControl>,
    engine: &Engine,
    telemetry: &Telemetry,
    surface: Arc<Front>,
) -> Result<Option<Arc<dyn WebPages>>, CommandError> {
    if !settings.console.enabled {
        return Ok(None);
    }
    let sessions = BrowserSessions::new(Arc::<AccessControl>::clone(guard), Clock::system())
        .map_err(|error| CommandError::new(error.to_string()))?;
    let calls = || Dispatcher::new(engine.state()).with_principals(engine.principals());
    let changes = calls().with_observer(telemetry.observer()).serving("console");
    let ports = ConsolePorts { reads: Arc::new(calls()), changes: Arc::new(changes), surface };
    Ok(Some(Arc::new(Console::new(sessions, ports, curl_line))))
}

/// The certificate authorities that connections trust.
fn trust(args: &Serve) -> Result<TrustStore, CommandError> {
    match args.logins.certificates()? {
        None => Ok(TrustStore::system()),
        Some(pem) => TrustStore::system()
            .with_pem(&pem)
            .map_err(|err| args.logins.bad_certificates(&err.to_string())),
    }
}

/// The connector to servers, with the same trust store.
fn connector(
    args: &Serve,
    launcher: &Launcher,
    identity: &ServerInfo,
) -> Result<McpConnector, CommandError> {
    Ok(McpConnector::new(launcher.clone(), identity).with_trust_store(trust(args)?))
}

/// The surface that clients see, with search by meaning if a model is installed.
fn surface(args: &Serve, engine: &Engine, state: &Path) -> Box<dyn Surface> {
    match args.surface {
        SurfaceArg::Climax => {
            Box::new(DiscoverySurface::storing(Outputs::at(state.join("outputs"))))
        }
        SurfaceArg::Muster => {
            let meta = Meta::storing(Outputs::at(state.join("outputs")));
            let Some(folder) = models::default_model() else { return Box::new(meta) };
            let embeddings = ToolEmbeddings::new(Box::new(move || models::load(&folder)));
            let embeddings = Arc::new(embeddings.cached_in(state.join("meanings/vectors")));
            engine.embed(Arc::clone(&embeddings));
            Box::new(meta.with_embeddings(embeddings))
        }
    }
}

/// Where clients connect.
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
                // The clients that it was started for find it at any port.
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

async fn serve_stdio(server: Server, caller: Caller) -> io::Result<()> {
    let (input, output) = (Input::standard()?, Output::standard()?);
    tokio::select! {
        served = stdio::serve(server, caller, input, output) => served,
        () = process::stop_requested() => Ok(()),
    }
}

fn health(view: &watch::Receiver<Arc<View>>, logins: Option<&AuthServer>) -> HealthResponse {
    #[derive(Serialize)]
    struct Body {
        status: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<&'static str>,
        servers: Servers,
    }
    #[derive(Serialize)]
    struct Servers {
        total: usize,
        connected: usize,
    }
    let view = view.borrow();
    let servers = Servers { total: view.servers.len(), connected: view.connected() };
    let reason = logins.and_then(AuthServer::pending_reason);
    let status = if reason.is_some() { "degraded" } else { "ok" };
    HealthResponse { body: raw(&Body { status, reason, servers }), ..HealthResponse::ok() }
}
