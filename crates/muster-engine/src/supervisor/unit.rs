//! A unit: the task that keeps one MCP server connected while it should run, and retries with backoff when it fails.

use std::{future::pending, sync::Arc, time::Duration};

use jiff::Timestamp;
use muster_config::mcpserver::McpServer;
use muster_core::{
    backend::{Backend, BoxFuture},
    backoff::Backoff,
    connect::{ConnectError, Connection, Connector, ServerListing},
};
use muster_gateway::condition::ServerCondition;
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until, timeout},
};

use super::{
    DesiredState, UnitId, UnitObserver, UnitUpdate,
    connecting::{Connected, connect, connect_leased, list},
    in_flight::{Counted, InFlight},
    unit_events::{UnitEvent, UnitEvents},
};
use crate::{
    leased_servers::LeasedServers, redact, server_logs::ServerLogs, status::ServerStatus,
    timing::EngineTiming,
};

/// The number of consecutive failures after which a remote server counts as unreachable.
const UNREACHABLE_AFTER: u64 = 3;

/// The dependencies of a unit.
pub(crate) struct Deps {
    pub(crate) connect: Arc<dyn Connector>,
    pub(crate) timing: EngineTiming,
    pub(crate) observer: Arc<dyn UnitObserver>,
    pub(crate) retry: Retry,
    pub(crate) logs: ServerLogs,
    /// The servers that one replica runs for all, if there are several replicas.
    pub(crate) leased: Option<Arc<LeasedServers>>,
}

/// The retry policy of failures to connect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Retry {
    /// Retry all failures except a required login, for which a caller has to log in.
    ExceptLogin,
    /// Retry all failures, because a caller can neither log in nor restart the server while the process runs.
    Always,
}

/// The number of consecutive failed health checks before a server counts as lost: one may fail by chance.
const FAILED_CHECKS: u32 = 2;
/// The number of consecutive health checks that fail during calls before a server counts as lost: it hangs, and so do
/// its calls.
const BUSY_CHECKS: u32 = 30;

/// The task of one server.
pub(crate) struct Unit {
    id: UnitId,
    deps: Deps,
    desired: watch::Receiver<DesiredState>,
    server: Arc<McpServer>,
    status: ServerStatus,
    phase: Phase,
    /// Losses and failures since the connection was last healthy; `None` if it was never up.
    lost: Option<u64>,
}

/// The phase of a unit's connection.
enum Phase {
    Down { retry: Option<Instant> },
    Connecting(BoxFuture<'static, Result<Connected, ConnectError>>),
    Up(LiveConnection),
}

/// The connection to a server that is up.
struct LiveConnection {
    connection: Arc<dyn Connection>,
    events: UnitEvents,
    since: Instant,
    relist_at: Option<Instant>,
    listing: Option<BoxFuture<'static, Result<ServerListing, ConnectError>>>,
    /// When the next health check is due; `None` if there are no health checks.
    check_at: Option<Instant>,
    /// Whether the listing is a health check.
    is_check: bool,
    /// Health checks that failed in a row while no call was in flight.
    failed_checks: u32,
    /// Health checks that failed in a row while calls were in flight.
    busy_failures: u32,
    /// Whether the last change of its lists is unknown, because the server could not be listed.
    is_stale: bool,
    in_flight: InFlight,
}

/// Everything that a unit reacts to.
enum UnitInput {
    /// The desired state changed.
    DesiredStateChanged,
    /// The supervisor removed the unit.
    Removed,
    /// An attempt to connect ended.
    ConnectEnded(Box<Result<Connected, ConnectError>>),
    /// The backoff is over.
    RetryDue,
    /// The connection reported an event.
    Event(UnitEvent),
    /// The debounce interval after a list change is over.
    RelistDue,
    /// A health check is due.
    CheckDue,
    /// An attempt to list the server again ended.
    Listed(Result<ServerListing, ConnectError>),
}

impl Unit {
    /// Creates a unit that does not run yet, and the sender of its desired state. The unit ends with the sender.
    pub(crate) fn new(
        id: UnitId,
        server: Arc<McpServer>,
        deps: Deps,
    ) -> (Self, watch::Sender<DesiredState>) {
        let status = ServerStatus::idle(server.spec.kind);
        let desired = DesiredState { server: Arc::clone(&server), running: false, generation: 0 };
        let (sender, desired) = watch::channel(desired);
        let phase = Phase::Down { retry: None };
        (Self { id, deps, desired, server, status, phase, lost: None }, sender)
    }

    pub(crate) async fn run(mut self) {
        loop {
            match self.next().await {
                UnitInput::DesiredStateChanged => self.apply().await,
                UnitInput::Removed => break self.close().await,
                UnitInput::ConnectEnded(ended) => match *ended {
                    Ok(connected) => self.connected(connected).await,
                    Err(error) => self.connect_failed(error).await,
                },
                UnitInput::RetryDue => self.start().await,
                UnitInput::Event(UnitEvent::ListsChanged) => self.lists_changed(),
                UnitInput::Event(UnitEvent::ResourceUpdated(uri)) => {
                    self.report(UnitUpdate::ResourceUpdated(uri)).await;
                }
                UnitInput::Event(UnitEvent::Moved) => self.moved().await,
                UnitInput::Event(UnitEvent::Closed(reason)) => self.connection_lost(&reason).await,
                UnitInput::RelistDue => self.relist(),
                UnitInput::CheckDue => self.check(),
                UnitInput::Listed(listed) => self.listed(listed).await,
            }
        }
    }

    async fn next(&mut self) -> UnitInput {
        tokio::select! {
            biased;
            changed = self.desired.changed() => match changed {
                Ok(()) => UnitInput::DesiredStateChanged,
                Err(_) => UnitInput::Removed,
            },
            input = self.phase.next() => input,
        }
    }

    /// Starts, restarts or stops the server as the desired state says.
    async fn apply(&mut self) {
        let desired = self.desired.borrow_and_update().clone();
        self.server = desired.server;
        if desired.generation == self.status.generation {
            return;
        }
        let was_up = matches!(self.phase, Phase::Up(_));
        if was_up {
            self.status.condition = ServerCondition::Stopping;
            self.report(UnitUpdate::Disconnected(self.status.clone())).await;
            self.close().await;
        }
        self.status.generation = desired.generation;
        self.status.next_retry = None;
        self.lost = None;
        if desired.running {
            if was_up {
                sleep(self.deps.timing.restart_pause).await;
            }
            self.start().await;
        } else {
            self.phase = Phase::Down { retry: None };
            self.status.condition = ServerCondition::down(self.server.spec.kind);
            self.status.error = None;
            // Otherwise, the next request of a caller who logged in would connect it again.
            self.status.needs_login = false;
            self.status.challenge = None;
            self.report(UnitUpdate::Disconnected(self.status.clone())).await;
        }
    }

    /// Connects to a server that has moved to another replica. This does not count as a failure.
    async fn moved(&mut self) {
        self.close().await;
        self.status.condition = ServerCondition::Starting;
        self.report(UnitUpdate::Disconnected(self.status.clone())).await;
        self.connect().await;
    }

    /// Begins to connect, and counts a restart if it was tried before.
    async fn start(&mut self) {
        if self.status.last_attempt.replace(Timestamp::now()).is_some() {
            self.status.restarts += 1;
        }
        self.connect().await;
    }

    async fn connect(&mut self) {
        self.status.condition = ServerCondition::Starting;
        self.status.next_retry = None;
        let (server, logs) = (Arc::clone(&self.server), self.deps.logs.clone());
        let connector = Arc::clone(&self.deps.connect);
        let close_timeout = self.deps.timing.close_timeout;
        let leased = self.deps.leased.clone().filter(|_| server.spec.runs_on_one());
        self.phase = Phase::Connecting(match leased {
            None => Box::pin(connect(connector, server, logs, close_timeout)),
            Some(leased) => {
                Box::pin(connect_leased(leased, connector, server, logs, close_timeout))
            }
        });
        self.report(UnitUpdate::StatusChanged(self.status.clone())).await;
    }

    async fn connected(&mut self, connected: Connected) {
        let Connected { connection, listing, events } = connected;
        self.status = ServerStatus {
            condition: ServerCondition::up(self.server.spec.kind),
            error: None,
            failures: 0,
            last_connected: Some(Timestamp::now()),
            protocol: Some(listing.protocol.clone()),
            challenge: None,
            needs_login: false,
            ..self.status.clone()
        };
        let in_flight = InFlight::default();
        let backend: Arc<dyn Backend> = Arc::new(Counted {
            backend: Arc::clone(&connection) as Arc<dyn Backend>,
            in_flight: in_flight.clone(),
        });
        let since = Instant::now();
        self.lost.get_or_insert(0);
        let interval =
            self.deps.timing.check_interval.filter(|_| !self.server.spec.kind.is_local());
        let live = LiveConnection {
            connection,
            events,
            since,
            relist_at: None,
            listing: None,
            check_at: interval.map(|interval| since + interval),
            is_check: false,
            failed_checks: 0,
            busy_failures: 0,
            is_stale: false,
            in_flight,
        };
        self.phase = Phase::Up(live);
        self.report(UnitUpdate::Connected(self.status.clone(), listing, backend)).await;
    }

    async fn connect_failed(&mut self, error: ConnectError) {
        let local = self.server.spec.kind.is_local();
        let always = self.deps.retry == Retry::Always;
        self.status.failures += 1;
        self.status.error = Some(redact::error(&error.to_string()));
        let retry = match error {
            ConnectError::Unauthorized { challenge } if !local => {
                self.status.condition = ServerCondition::AuthRequired;
                self.status.error = None;
                self.status.failures = 0;
                self.status.challenge = challenge;
                self.status.needs_login = true;
                always.then(|| self.next_restart_backoff())
            }
            error => {
                let transient = !local && matches!(error, ConnectError::Transient(_));
                let many = self.status.failures >= UNREACHABLE_AFTER;
                self.status.condition = match transient && many {
                    true => ServerCondition::Unreachable,
                    false => ServerCondition::Failed,
                };
                let EngineTiming { initial_backoff, max_backoff, .. } = self.deps.timing;
                // A local server, or one that was up, may be back in a moment.
                Some(match self.lost.is_some() || always || local {
                    true => self.next_restart_backoff(),
                    false => jittered(
                        Backoff { first: initial_backoff, max: max_backoff },
                        self.status.failures.saturating_sub(1),
                    ),
                })
            }
        };
        self.wait(retry).await;
    }

    async fn connection_lost(&mut self, reason: &str) {
        if let Phase::Up(live) = &self.phase
            && live.since.elapsed() >= self.deps.timing.healthy_after
        {
            self.lost = None;
        }
        self.close().await;
        self.status.condition = ServerCondition::Failed;
        self.status.failures += 1;
        self.status.error = Some(redact::error(reason));
        let backoff = self.next_restart_backoff();
        self.wait(Some(backoff)).await;
    }

    /// Counts another loss or failure. Returns the backoff before the next attempt.
    fn next_restart_backoff(&mut self) -> Duration {
        let EngineTiming { restart_backoff, initial_backoff, max_backoff, .. } = self.deps.timing;
        let lost = self.lost.get_or_insert(0);
        *lost += 1;
        let backoff = Backoff { first: restart_backoff.min(initial_backoff), max: max_backoff };
        jittered(backoff, *lost - 1)
    }

    /// Reports that the server is down, and when it is retried.
    async fn wait(&mut self, backoff: Option<Duration>) {
        self.status.next_retry =
            backoff.and_then(|backoff| Timestamp::now().checked_add(backoff).ok());
        self.phase = Phase::Down { retry: backoff.map(|backoff| Instant::now() + backoff) };
        self.report(UnitUpdate::Disconnected(self.status.clone())).await;
    }

    fn lists_changed(&mut self) {
        if let Phase::Up(live) = &mut self.phase {
            live.relist_at.get_or_insert_with(|| Instant::now() + self.deps.timing.relist_debounce);
        }
    }

    fn relist(&mut self) {
        let limit = self.server.spec.connect_timeout();
        if let Phase::Up(live) = &mut self.phase {
            live.relist_at = None;
            let connection = Arc::clone(&live.connection);
            live.listing = Some(Box::pin(async move { list(&*connection, limit).await }));
        }
    }

    /// Starts a health check: lists a remote server, because between calls nothing else would notice that it is gone.
    fn check(&mut self) {
        self.relist();
        if let Phase::Up(live) = &mut self.phase {
            live.check_at = None;
            live.is_check = true;
        }
    }

    /// Notes the end of a listing. Returns whether the list should be reported, and whether too many health checks
    /// failed.
    fn listing_ended(&mut self, is_alive: bool) -> (bool, bool) {
        let Phase::Up(live) = &mut self.phase else { return (false, false) };
        if !std::mem::take(&mut live.is_check) {
            live.is_stale = !is_alive;
            return (is_alive, false);
        }
        // A successful check makes up for a change that could not be listed.
        let is_news = is_alive && std::mem::take(&mut live.is_stale);
        match (is_alive, live.in_flight.is_idle()) {
            (true, _) => (live.failed_checks, live.busy_failures) = (0, 0),
            (false, true) => live.failed_checks += 1,
            // A busy server may be slow to list, and closing the connection would cut its calls.
            (false, false) => live.busy_failures += 1,
        }
        let interval = self.deps.timing.check_interval;
        let next = if is_alive { interval } else { interval.map(|interval| interval / 4) };
        live.check_at = next.map(|next| Instant::now() + next);
        let is_lost = live.failed_checks >= FAILED_CHECKS || live.busy_failures >= BUSY_CHECKS;
        (is_news, is_lost)
    }

    async fn listed(&mut self, listed: Result<ServerListing, ConnectError>) {
        let (is_news, is_lost) = self.listing_ended(listed.is_ok());
        match listed {
            Ok(listing) if is_news => self.report(UnitUpdate::Relisted(listing)).await,
            Ok(_) => (),
            Err(error) if is_lost => self.connection_lost(&error.to_string()).await,
            Err(error) => {
                let name = &self.server.name;
                tracing::warn!(server = name, "cannot list the server again: {error}");
            }
        }
    }

    /// Closes the connection within the timeout. Dropping the connection ends it in any case.
    async fn close(&mut self) {
        let down = Phase::Down { retry: None };
        if let Phase::Up(live) = std::mem::replace(&mut self.phase, down) {
            drop(timeout(self.deps.timing.close_timeout, live.connection.close()).await);
        }
    }

    async fn report(&mut self, update: UnitUpdate) {
        self.deps.observer.observe(&self.server.name, self.id, update).await;
    }
}

impl Phase {
    /// The next input of this phase. Cancel-safe.
    async fn next(&mut self) -> UnitInput {
        match self {
            Self::Down { retry: None } => pending().await,
            Self::Down { retry: Some(at) } => {
                sleep_until(*at).await;
                UnitInput::RetryDue
            }
            Self::Connecting(connecting) => UnitInput::ConnectEnded(Box::new(connecting.await)),
            Self::Up(live) => live.next().await,
        }
    }
}

impl LiveConnection {
    async fn next(&mut self) -> UnitInput {
        // One listing at a time: a change during it is listed afterwards.
        let relist_at = self.relist_at.filter(|_| self.listing.is_none());
        // List a change before a health check, whose list is usually not reported.
        let check_at = self.check_at.filter(|_| self.listing.is_none() && self.relist_at.is_none());
        let (due, check_due) = (until(relist_at), until(check_at));
        let listing = async {
            match &mut self.listing {
                Some(listing) => listing.await,
                None => pending().await,
            }
        };
        let input = tokio::select! {
            biased;
            event = self.events.next() => UnitInput::Event(event),
            listed = listing => UnitInput::Listed(listed),
            () = due => UnitInput::RelistDue,
            () = check_due => UnitInput::CheckDue,
        };
        if matches!(input, UnitInput::Listed(_)) {
            self.listing = None;
        }
        input
    }
}

/// A delay with jitter: servers that were lost together are not all reconnected together.
fn jittered(backoff: Backoff, retries: u64) -> Duration {
    backoff.jittered(retries, getrandom::u64().unwrap_or_default())
}

/// Waits until a moment; forever if there is none.
async fn until(moment: Option<Instant>) {
    match moment {
        Some(at) => sleep_until(at).await,
        None => pending().await,
    }
}
