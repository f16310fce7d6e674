//! The HTTP transports: streamable HTTP of both eras on one endpoint, and the older HTTP+SSE.
//!
//! A request is served by the task of its connection; it starts no task and creates no queue. Its response is one JSON
//! document, unless a message precedes it: then the response becomes an event stream, whose body drives the rest of the
//! request. Dropping the body drops the request. Where replicas share sessions, a separate task drives the event stream
//! of a legacy request instead, and the stream can be resumed (`event_log.rs`).
//!
//! *When a client disconnects.* A modern request is cancelled when its connection closes, as the protocol
//! prescribes. A legacy request is not: it continues while the session has an open stream, at most for
//! [`ORPHAN_TIMEOUT`]. It is cancelled a moment after the last stream closes, by `notifications/cancelled`, or when the
//! session ends. Its response is lost, unless replicas share sessions and it was a stream: then it continues for a while
//! without any stream, and its client can resume it.

mod accept;
mod body;
mod caller_limits;
mod coarse_timer;
mod connections;
mod cors;
mod event_log;
mod exchange;
mod in_flight;
mod listeners;
mod options;
mod origin_check;
mod param_check;
mod replica_sessions;
mod request_headers;
mod responses;
mod resumed_stream;
mod route;
mod serving;
mod session_stream;
mod sessions;
mod shared_limits;
mod sse;
mod threads;
mod write_progress;

use std::{
    future::poll_fn,
    io,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
    time::Duration,
};

use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use muster_core::{backend::boxed, credentials::Peer, request::Change};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::{
    body::Body,
    caller_limits::CallLimits,
    coarse_timer::CoarseTimer,
    connections::{ConnectionPlace, Connections, Service},
    in_flight::InFlight,
    listeners::Listeners,
    replica_sessions::ReplicaSessions,
    route::Router,
    sessions::SessionTable,
    shared_limits::SharedLimits,
    write_progress::WriteProgress,
};
pub use self::{
    connections::ConnectionCounter,
    options::{HealthCheck, HealthResponse, HttpOptions, WallClock},
    threads::{ConnectionThreads, ThreadPool},
};
use crate::{
    change_notifications, client_channel::QUEUE, inline_repoll::InlineRepoll, server::Server,
    woken_poll::WokenPoll,
};

/// How long a connection may take to send the head of a request, or be idle between two. Clients close
/// idle connections earlier.
const HEAD_TIMEOUT: Duration = Duration::from_secs(120);

/// [`HEAD_TIMEOUT`] of a connection beyond the limit.
const SHORT_HEAD_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a legacy request continues after its connection broke.
const ORPHAN_TIMEOUT: Duration = Duration::from_secs(300);

/// The interval between sweeps of idle sessions.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);

/// The interval between checks whether callers with open streams are still admitted.
const RECHECK_INTERVAL: Duration = Duration::from_millis(500);

/// The queue of changes for a client that has not opened its stream. It will list everything again anyway.
const CHANGE_QUEUE: usize = 64;

/// How long clients may take to read the errors of requests that were cut off.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// The delay before the next accept when the system has no descriptors left.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// The state that all requests share.
#[derive(Debug)]
struct App {
    server: Server,
    options: HttpOptions,
    /// Sessions of streamable HTTP.
    sessions: SessionTable,
    /// The sessions of streamable HTTP at other replicas.
    replica_sessions: Option<ReplicaSessions>,
    /// Sessions of HTTP+SSE.
    sse_sessions: SessionTable,
    /// Subscriptions of modern clients.
    listeners: Arc<Listeners>,
    tasks: TaskTracker,
    in_flight: InFlight,
    call_limits: Arc<CallLimits>,
    /// The limits of all replicas together.
    shared_limits: Option<Arc<SharedLimits>>,
    /// Cancelled when draining begins: there are no new requests, and endless requests end.
    draining: CancellationToken,
    /// Cancelled when the remaining requests are cut off: each gets an error response.
    cut: CancellationToken,
    /// Whether `cut` is cancelled, for a check without a lock.
    is_cut: AtomicBool,
    /// Cancelled when the connections of clients that do not read their responses are closed.
    closed: CancellationToken,
}

/// How the requests in flight ended at shutdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DrainOutcome {
    /// All of them finished.
    Finished,
    /// Some were cut off.
    CutOff,
}

/// Serves the requests of one connection from `peer` until it closes.
pub async fn serve_connection<S>(server: Server, options: HttpOptions, stream: S, peer: Peer)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (app, connections) = App::new(server, options);
    if let Some(place) = connections.admit(peer.ip()) {
        connection(app, stream, peer, place).await;
    }
}

/// Serves clients on every listener until `stop`; then drains pending requests for the drain timeout, cuts off the rest,
/// and sends an error response for each.
pub async fn serve(
    server: Server,
    listeners: Vec<TcpListener>,
    options: HttpOptions,
    stop: impl Future<Output = ()>,
) -> io::Result<DrainOutcome> {
    let (app, connections) = App::new(server, options);
    let mut accepting = start(&app, listeners, &connections);
    stop.await;
    // The listeners close with their tasks.
    accepting.shutdown().await;
    Ok(app.drain().await)
}

/// Starts the tasks that accept connections, and those that maintain sessions.
///
/// Neither generic nor `async`: the code of a task is compiled in the crate that starts it. The code of all requests is
/// therefore optimised as this crate is, and not for size like the program that calls [`serve`].
fn start(
    app: &Arc<App>,
    listeners: Vec<TcpListener>,
    connections: &Arc<Connections>,
) -> JoinSet<()> {
    let mut accepting = JoinSet::new();
    for listener in listeners {
        accepting.spawn(boxed(accept(Arc::clone(app), listener, Arc::clone(connections))));
    }
    accepting.spawn(boxed(maintain_sessions(Arc::clone(app))));
    accepting.spawn(boxed(keep_sessions(Arc::clone(app))));
    accepting.spawn(boxed(recheck_callers(Arc::clone(app))));
    accepting
}

fn half_of_descriptors() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    limit.and_then(|limit| usize::try_from(limit / 2).ok()).unwrap_or(usize::MAX).max(1)
}

async fn accept(app: Arc<App>, listener: TcpListener, connections: Arc<Connections>) {
    loop {
        match listener.accept().await {
            Ok((stream, remote)) => match connections.admit(remote.ip()) {
                Some(place) => {
                    // Without `TCP_NODELAY`, small responses wait for the client's acknowledgement of earlier ones.
                    drop(stream.set_nodelay(true));
                    // A socket without an address is closed already.
                    let Ok(local) = stream.local_addr() else { continue };
                    let peer = Peer::new(remote, local);
                    start_connection(&app, stream, peer, place);
                }
                None => tracing::debug!("a connection of {} is refused: too many", remote.ip()),
            },
            Err(err) => {
                tracing::warn!("cannot accept a connection: {err}");
                connections.make_room();
                tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
            }
        }
    }
}

/// Serves a connection on a connection thread or, if there are none, on the runtime that accepts connections.
fn start_connection(app: &Arc<App>, stream: TcpStream, peer: Peer, place: ConnectionPlace) {
    let (tasks, app) = (app.tasks.clone(), Arc::clone(app));
    let Some(thread) = app.options.threads.place() else {
        tasks.spawn(connection(app, stream, peer, place));
        return;
    };
    let Ok(stream) = stream.into_std() else { return };
    let served = async move {
        let _held = thread.held;
        match TcpStream::from_std(stream) {
            Ok(stream) => connection(app, stream, peer, place).await,
            Err(error) => tracing::warn!("cannot serve a connection: {error}"),
        }
    };
    tasks.spawn_on(served, &thread.runtime);
}

async fn connection<S>(app: Arc<App>, stream: S, peer: Peer, place: ConnectionPlace)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let local = Some(peer.local.ip().to_canonical());
    let peer = Arc::new(peer);
    let service = service_fn(|request| {
        let app = Arc::clone(&app);
        let (peer, busy) = (Arc::clone(&peer), place.busy.clone());
        let router = Router { app, local, peer, busy };
        let (service, in_service) = (place.service, place.busy.begin());
        async move {
            let mut response = match service {
                Service::Full => router.respond(request).await,
                Service::HealthOnly => router.respond_if_health(&request),
            };
            if let Body::Events(events) = response.body_mut() {
                events.hold(in_service);
            }
            Ok::<_, std::convert::Infallible>(response)
        }
    });
    let head_timeout = match place.service {
        Service::Full => HEAD_TIMEOUT,
        Service::HealthOnly => SHORT_HEAD_TIMEOUT,
    };
    let connection = http1::Builder::new()
        .timer(CoarseTimer)
        .keep_alive(place.service == Service::Full)
        .header_read_timeout(head_timeout)
        .serve_connection(TokioIo::new(WriteProgress::new(stream, place.busy.clone())), service);
    let (mut connection, repoll) = (std::pin::pin!(connection), InlineRepoll::new());
    let mut draining = std::pin::pin!(app.draining.cancelled());
    let mut ticks = coarse_timer::interval_for(
        app.options.keep_alive.min(head_timeout).min(app.options.body_limit),
    );
    let is_alone = || app.in_flight.is_at_most_one();
    let (mut closing, mut cutting, mut is_evicted) = (false, false, false);
    let mut cut = std::pin::pin!(app.cut.cancelled());
    let mut closed = std::pin::pin!(app.closed.cancelled());
    let mut evicted = std::pin::pin!(place.evicted.cancelled());
    let interrupted = WokenPoll::new();
    let served = loop {
        let event = {
            let mut interruption = std::pin::pin!(async {
                tokio::select! {
                    biased;
                    _ = ticks.tick() => ConnectionEvent::Tick,
                    () = evicted.as_mut(), if !is_evicted => ConnectionEvent::Evicted,
                    () = draining.as_mut(), if !closing => ConnectionEvent::Draining,
                    () = cut.as_mut(), if closing && !cutting => ConnectionEvent::Cut,
                    () = closed.as_mut(), if cutting => ConnectionEvent::Closed,
                }
            });
            poll_fn(|cx| match repoll.poll(cx, connection.as_mut(), is_alone) {
                Poll::Ready(served) => Poll::Ready(ConnectionEvent::Served(served)),
                Poll::Pending => interrupted.poll(cx, interruption.as_mut()),
            })
            .await
        };
        match event {
            ConnectionEvent::Served(served) => break served,
            ConnectionEvent::Tick if is_evicted && place.busy.makes_room() => break Ok(()),
            // The next poll of the connection checks its deadlines.
            ConnectionEvent::Tick => (),
            ConnectionEvent::Evicted => {
                // A request may have arrived in the meantime: it is served, and then the connection closes.
                is_evicted = true;
                connection.as_mut().graceful_shutdown();
                if place.busy.makes_room() {
                    break Ok(());
                }
            }
            ConnectionEvent::Draining => {
                closing = true;
                connection.as_mut().graceful_shutdown();
            }
            // The next poll lets the pending requests respond.
            ConnectionEvent::Cut => cutting = true,
            ConnectionEvent::Closed => break Ok(()),
        }
    };
    if let Err(err) = served {
        tracing::debug!("connection ended: {err}");
    }
}

/// The events that the task of a connection waits for.
enum ConnectionEvent {
    /// The connection has ended.
    Served(hyper::Result<()>),
    /// Deadlines may have passed.
    Tick,
    /// Another connection needs its place.
    Evicted,
    /// Draining has begun: there are no new requests.
    Draining,
    /// Remaining requests are cut off.
    Cut,
    /// Connections whose clients do not read their responses are closed.
    Closed,
}

/// Notifies legacy clients of changes, and evicts idle sessions.
async fn maintain_sessions(app: Arc<App>) {
    let mut changes = app.server.changes();
    let every = app.options.session_idle.clamp(Duration::from_millis(1), SWEEP_INTERVAL);
    let mut sweep = tokio::time::interval(every);
    let mut has_changes = true;
    loop {
        tokio::select! {
            change = changes.next(), if has_changes => match change {
                Some(change) => app.notify(&change),
                None => has_changes = false,
            },
            _ = sweep.tick() => {
                app.sessions.sweep();
                app.sse_sessions.sweep();
            }
        }
    }
}

/// Renews the sessions in use in the shared state, because their clients may only listen.
async fn keep_sessions(app: Arc<App>) {
    let Some(shared) = &app.replica_sessions else { return };
    let every = app.options.session_idle.clamp(Duration::from_millis(1), SWEEP_INTERVAL);
    let mut ticks = tokio::time::interval(every);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        shared.keep(&app).await;
    }
}

/// Ends the sessions and subscriptions in use of callers that are no longer admitted.
async fn recheck_callers(app: Arc<App>) {
    let Some(guard) = app.options.guard.clone() else { return };
    let mut ticks = tokio::time::interval(RECHECK_INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        for sessions in [&app.sessions, &app.sse_sessions] {
            for session in sessions.all().into_iter().filter(|session| session.is_in_use()) {
                if !guard.still_admits(&session.caller).await {
                    tracing::info!(
                        "session {} is ended: its caller is no longer admitted",
                        session.log_name()
                    );
                    sessions.end(&session.id);
                }
            }
        }
        for (caller, ended) in app.listeners.all() {
            if !guard.still_admits(&caller).await {
                tracing::info!("a subscription is ended: its caller is no longer admitted");
                ended.cancel();
            }
        }
    }
}

impl App {
    /// Creates the state and the connection table of a server.
    fn new(server: Server, options: HttpOptions) -> (Arc<Self>, Arc<Connections>) {
        let limit = options.max_connections.min(half_of_descriptors());
        let connections = Connections::new(limit, Arc::clone(&options.connections));
        let replica = options.replica.clone();
        let replica_sessions = replica.map(|link| ReplicaSessions::new(link, options.session_idle));
        let names = replica_sessions.as_ref().map(|shared| &shared.names);
        let app = Self {
            sessions: SessionTable::new(server.clone(), &options, CHANGE_QUEUE).shared_by(names),
            replica_sessions,
            sse_sessions: SessionTable::new(server.clone(), &options, QUEUE),
            call_limits: CallLimits::new(options.concurrent_calls, options.calls_per_second),
            shared_limits: options.replica.as_ref().and_then(|link| {
                let clock = Arc::clone(&options.wall_clock);
                let limits =
                    SharedLimits::new(Arc::clone(link.state()), options.calls_per_second, clock);
                limits.map(Arc::new)
            }),
            server,
            options,
            listeners: Arc::default(),
            tasks: TaskTracker::new(),
            in_flight: InFlight::default(),
            draining: CancellationToken::new(),
            cut: CancellationToken::new(),
            is_cut: AtomicBool::new(false),
            closed: CancellationToken::new(),
        };
        let app = Arc::new(app);
        if let Some(shared) = &app.replica_sessions {
            shared.listen(&app);
        }
        (app, connections)
    }

    /// The maximum size of a body, and how long it may take.
    fn body_limits(&self) -> (usize, Duration) {
        (self.options.max_body, self.options.body_limit)
    }

    fn notify(&self, change: &Change) {
        for session in self.sessions.all().iter().chain(&self.sse_sessions.all()) {
            let Some(change) = change.visible_to(&session.caller.owner()) else { continue };
            if !session.is_reachable() {
                session.is_outdated.store(true, Ordering::Relaxed);
                continue;
            }
            let line = change_notifications::line(change);
            if session.state.is_notified_of(change) && session.out.try_send(line).is_err() {
                tracing::debug!(
                    "a change notification was dropped: the queue of the client is full"
                );
            }
        }
    }

    async fn drain(&self) -> DrainOutcome {
        self.draining.cancel();
        self.tasks.close();
        let outcome = tokio::select! {
            biased;
            () = self.tasks.wait() => DrainOutcome::Finished,
            () = self.options.skip_drain.notified() => DrainOutcome::CutOff,
            () = tokio::time::sleep(self.options.drain_timeout) => DrainOutcome::CutOff,
        };
        if outcome == DrainOutcome::CutOff {
            tracing::warn!("some requests did not finish in time and are cut off");
            (self.options.before_cut_off)();
            self.is_cut.store(true, Ordering::Release);
            self.cut.cancel();
            if tokio::time::timeout(ANSWER_TIMEOUT, self.tasks.wait()).await.is_err() {
                self.closed.cancel();
                self.tasks.wait().await;
            }
        }
        self.sessions.end_all();
        self.sse_sessions.end_all();
        self.server.unsubscribed().await;
        outcome
    }
}

/// The local address that a client connected to.
type Local = Option<IpAddr>;
