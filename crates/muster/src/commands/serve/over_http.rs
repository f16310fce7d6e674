//! The gateway over HTTP: its endpoint and its web pages.

use std::{path::Path, sync::Arc, time::Duration};

use muster_auth::{
    access::{AccessControl, browser_sessions::BrowserSessions, directory::AccessDirectory},
    client::OAuthClient,
    clock::Clock,
    server::AuthServer,
};
use muster_config::settings::{Aggregator, Settings};
use muster_console::{Console, ConsolePorts};
use muster_core::{json::raw, shared::ReplicaLink as _};
use muster_engine::{engine::Engine, view::View};
use muster_gateway::{dispatch::Dispatcher, front::Front};
use muster_mcp::{
    curl_line::curl_line,
    http::{self, DrainOutcome, HealthResponse, HttpOptions, ThreadPool},
    server::Server,
};
use muster_mcp_client::OpenConnections;
use muster_shared::Replica;
use muster_telemetry::Telemetry;
use serde::Serialize;
use tokio::{net::TcpListener, sync::watch};

use super::{
    args::Serve,
    hints, idle, logins,
    logout::Logout,
    metrics_page::MetricsPage,
    readiness::{Readiness, pending_reason},
    replicas,
    setup_checks::DirectoryChecks,
    shutdown::{self, StopSignals},
    state::GatewayState,
};
use crate::{access_rules::AccessRules, error::CommandError, listen, log::LogFormat};

/// The parts of the endpoint and its pages.
pub(super) struct HttpGateway<'a> {
    pub(super) args: &'a Serve,
    pub(super) settings: &'a Settings,
    pub(super) aggregator: &'a Aggregator,
    pub(super) logins: Option<&'a AuthServer>,
    pub(super) client: Option<&'a Arc<OAuthClient>>,
    pub(super) replica: Option<&'a Arc<Replica>>,
    pub(super) engine: &'a Engine,
    pub(super) telemetry: Telemetry,
    pub(super) directory: &'a AccessDirectory,
    pub(super) root: &'a Path,
    pub(super) threads: ThreadPool,
    /// Counts the HTTP connections to servers.
    pub(super) upstream: OpenConnections,
}

impl HttpGateway<'_> {
    /// Serves clients, and the console by its own front, until the gateway is stopped or idle.
    pub(super) async fn serve<S: Future<Output = ()>, K: Future<Output = ()>>(
        self,
        access: AccessRules,
        (server, console): (Server, Arc<Front>),
        listeners: Vec<TcpListener>,
        state: &mut GatewayState,
        signals: StopSignals<S, K>,
    ) -> Result<std::io::Result<DrainOutcome>, CommandError> {
        let Self { args, logins, replica, engine, .. } = self;
        // Write the operator file before publishing that the gateway is up. It is removed when it is dropped.
        let operator = access.operator_file(&listeners);
        let url = listen::url(&self.aggregator.host, &listeners);
        engine.listening(url.clone());
        state.publish(&url);
        if !args.silent {
            let admitted = access.summary(&listeners, logins);
            match args.log_format {
                LogFormat::Text => {
                    hints::print(&url, self.root, &admitted, self.aggregator.transport);
                }
                LogFormat::Json => tracing::info!(url, admitted, "listening on {url}"),
            }
        }
        let (guard, lists) = access.guard(logins, operator.as_ref());
        let recent = self.directory.recent.clone();
        if let Some(replica) = replica {
            recent.share(replicas::link(replica));
        }
        let console = self.console(&guard, console)?;
        let metrics = &self.settings.metrics;
        let page = MetricsPage::new(engine, self.telemetry.clone(), metrics, guard.clone());
        let mut options = self.options(guard);
        let page = page.counting(Arc::clone(&options.connections), self.upstream.clone());
        options.pages.push(Arc::new(page));
        if let Some(console) = console {
            options.pages.push(Arc::new(console));
        }
        let skip_drain = Arc::clone(&options.skip_drain);
        let connections = Arc::clone(&options.connections);
        let idle = idle::until_idle(args.idle_timeout, &connections, state.folder(), engine);
        let stop = until_either(signals.stop, idle, engine);
        Ok(tokio::select! {
            served = http::serve(server, listeners, options, stop) => served,
            never = logins::keep_up(logins, lists, engine.view()) => match never {},
            never = replicas::keep_up(replica.map(|replica| &**replica)) => match never {},
            never = recent.publish() => match never {},
            never = shutdown::notify_after(signals.skip_drain, &skip_drain) => match never {},
        })
    }

    /// The HTTP options, with the pages of logins.
    fn options(&self, guard: Arc<AccessControl>) -> HttpOptions {
        let Self { settings, logins, client, replica, engine, .. } = *self;
        let (view, waiting, sharing) = (engine.view(), logins.cloned(), replica.cloned());
        let readiness = Readiness::new(view.clone(), waiting.clone(), sharing.clone());
        let mut options = HttpOptions {
            health: Arc::new(move || health(&view, waiting.as_ref(), sharing.as_deref())),
            ready: Arc::new(move || readiness.check()),
            replica: replica.map(replicas::link),
            drain_timeout: Duration::from_secs(settings.aggregator.drain_timeout.into()),
            before_cut_off: engine.interrupter(),
            threads: self.threads.clone(),
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
            let user_connections = engine.user_connections();
            options.pages.push(Arc::new(Logout { guard, user_connections }));
        }
        options
    }

    /// The console, unless it is switched off.
    fn console(
        &self,
        guard: &Arc<AccessControl>,
        surface: Arc<Front>,
    ) -> Result<Option<Console>, CommandError> {
        let Self { settings, engine, telemetry, replica, .. } = self;
        if !settings.console.enabled {
            return Ok(None);
        }
        let sessions = BrowserSessions::new(Arc::<AccessControl>::clone(guard), Clock::system())
            .map_err(|error| CommandError::new(error.to_string()))?;
        let sessions = match replica {
            Some(replica) => sessions.shared_in(Arc::clone(replica.state())),
            None => sessions,
        };
        let calls = || Dispatcher::new(engine.state()).with_principals(engine.user_connections());
        let changes = calls().with_observer(telemetry.observer()).serving("console");
        let ports = ConsolePorts {
            reads: Arc::new(calls()),
            changes: Arc::new(changes),
            surface,
            checks: Arc::new(DirectoryChecks::new(self.root)),
        };
        let sessions = Arc::new(sessions);
        let console = Console::new(Arc::clone(&sessions), ports, curl_line);
        // `set` fails only on a second call, and there is only one console.
        drop(self.directory.browsers.set(sessions));
        Ok(Some(console))
    }
}

/// Waits until the user stops the gateway or it is idle.
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

fn health(
    view: &watch::Receiver<Arc<View>>,
    logins: Option<&AuthServer>,
    replica: Option<&Replica>,
) -> HealthResponse {
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
    let reason = pending_reason(logins, replica);
    let status = if reason.is_some() { "degraded" } else { "ok" };
    HealthResponse { body: raw(&Body { status, reason, servers }), ..HealthResponse::ok() }
}
