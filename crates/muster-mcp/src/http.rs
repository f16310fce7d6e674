//! Many clients over HTTP: streamable HTTP in both eras on one endpoint, and the older HTTP+SSE.
//!
//! A request is served by the task of its connection; nothing is started for it. It is answered with
//! one JSON document, unless there is something to say before the answer: then the answer becomes an
//! event stream, whose body carries the rest of the work. Dropping the body drops the work.
//!
//! *When a client goes away.* A modern request is cancelled when its connection closes, as the
//! protocol has it. A legacy one is not, but its answer can no longer be delivered: it runs on while
//! the session still has its standing stream, at most [`ADRIFT_LIMIT`], and is cancelled a moment
//! after the client shows no other sign of life, when it is taken back by `notifications/cancelled`,
//! or when the session ends.

mod accept;
mod body;
mod cors;
mod exchange;
mod guard;
mod options;
mod params;
mod reply;
mod route;
mod sessions;
mod sse;
mod standing;
mod tick;
mod under_way;
mod work;

use std::{future::poll_fn, io, net::IpAddr, sync::Arc, time::Duration};

use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use muster_core::request::Change;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use self::options::{Health, HealthCheck, HttpOptions};
use self::{route::Arrival, sessions::Sessions, tick::Ticking, under_way::UnderWay};
use crate::{back::AHEAD, listen, server::Server, steady::Steady};

/// How long a connection may take to send the head of a request, or say nothing between two. Clients
/// that keep connections open close them earlier by themselves.
const HEAD_LIMIT: Duration = Duration::from_secs(120);

/// How long a legacy request runs on whose client is not there to take the answer.
const ADRIFT_LIMIT: Duration = Duration::from_secs(300);

/// How often idle sessions are looked for.
const SWEEP_EVERY: Duration = Duration::from_secs(60);

/// Changes waiting for a client that has not opened its stream. It will ask for all lists anew.
const CHANGES_AHEAD: usize = 64;

/// How long to wait before accepting again when the system has no descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Everything that requests share.
#[derive(Debug)]
struct App {
    server: Server,
    options: HttpOptions,
    /// Sessions of streamable HTTP.
    sessions: Sessions,
    /// Sessions of HTTP+SSE.
    streams: Sessions,
    tasks: TaskTracker,
    under_way: UnderWay,
    /// No new requests; what would go on for ever ends.
    draining: CancellationToken,
    /// No more waiting.
    cut: CancellationToken,
}

/// Serves clients on every listener until `stop`, then finishes what is running, up to the grace
/// period, and cuts the rest.
pub async fn serve(
    server: Server,
    listeners: Vec<TcpListener>,
    options: HttpOptions,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
    let app = Arc::new(App {
        sessions: Sessions::new(server.clone(), &options, CHANGES_AHEAD),
        streams: Sessions::new(server.clone(), &options, AHEAD),
        server,
        options,
        tasks: TaskTracker::new(),
        under_way: UnderWay::default(),
        draining: CancellationToken::new(),
        cut: CancellationToken::new(),
    });
    let room = Arc::new(Semaphore::new(
        app.options.max_connections.min(half_of_descriptors()).min(Semaphore::MAX_PERMITS),
    ));
    let mut accepting = JoinSet::new();
    for listener in listeners {
        accepting.spawn(accept(Arc::clone(&app), listener, Arc::clone(&room)));
    }
    accepting.spawn(keep_house(Arc::clone(&app)));
    stop.await;
    // The listeners close with their tasks.
    accepting.shutdown().await;
    app.drain().await;
    Ok(())
}

fn half_of_descriptors() -> usize {
    let most = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    most.and_then(|most| usize::try_from(most / 2).ok()).unwrap_or(usize::MAX).max(1)
}

async fn accept(app: Arc<App>, listener: TcpListener, room: Arc<Semaphore>) {
    loop {
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, peer)) => {
                let peer = peer.ip().to_canonical();
                app.tasks.spawn(connection(Arc::clone(&app), stream, peer, permit));
            }
            Err(err) => {
                tracing::warn!("cannot accept a connection: {err}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn connection(app: Arc<App>, stream: TcpStream, peer: IpAddr, permit: OwnedSemaphorePermit) {
    // Without it small answers wait for the client's acknowledgement of earlier ones.
    drop(stream.set_nodelay(true));
    let local = stream.local_addr().ok().map(|address| address.ip().to_canonical());
    let service = service_fn(|request| {
        let app = Arc::clone(&app);
        let arrival = Arrival { app, local, peer };
        async move { Ok::<_, std::convert::Infallible>(arrival.answer(request).await) }
    });
    let connection = http1::Builder::new()
        .timer(Ticking)
        .header_read_timeout(HEAD_LIMIT)
        .serve_connection(TokioIo::new(stream), service);
    let (mut connection, steady) = (std::pin::pin!(connection), Steady::new());
    let mut draining = std::pin::pin!(app.draining.cancelled());
    let mut ticks = tick::every(app.options.keep_alive.min(HEAD_LIMIT).min(app.options.body_limit));
    let alone = || app.under_way.is_at_most_one();
    let mut leaving = false;
    let served = loop {
        tokio::select! {
            biased;
            served = poll_fn(|cx| steady.poll(cx, connection.as_mut(), alone)) => break served,
            _ = ticks.tick() => (),
            () = draining.as_mut(), if !leaving => {
                leaving = true;
                connection.as_mut().graceful_shutdown();
            }
            () = app.cut.cancelled(), if leaving => break Ok(()),
        }
    };
    if let Err(err) = served {
        tracing::debug!("connection ended: {err}");
    }
    drop(permit);
}

/// Tells legacy clients of changes, and ends sessions that nobody uses.
async fn keep_house(app: Arc<App>) {
    let mut changes = app.server.changes();
    let every = app.options.session_idle.clamp(Duration::from_millis(1), SWEEP_EVERY);
    let mut sweep = tokio::time::interval(every);
    let mut hearing = true;
    loop {
        tokio::select! {
            change = changes.next(), if hearing => match change {
                Some(change) => app.announce(&change),
                None => hearing = false,
            },
            _ = sweep.tick() => {
                app.sessions.sweep();
                app.streams.sweep();
            }
        }
    }
}

impl App {
    /// How large a body may be, and how long it may take.
    fn body_limits(&self) -> (usize, Duration) {
        (self.options.max_body, self.options.body_limit)
    }

    fn announce(&self, change: &Change) {
        for session in self.sessions.all().iter().chain(&self.streams.all()) {
            let Some(change) = change.visible_to(&session.caller.owner()) else { continue };
            let line = listen::line(change);
            if session.state.hears(change) && session.out.try_send(line).is_err() {
                tracing::debug!("a client that does not listen was not told of a change");
            }
        }
    }

    async fn drain(&self) {
        self.draining.cancel();
        self.tasks.close();
        if tokio::time::timeout(self.options.grace, self.tasks.wait()).await.is_err() {
            tracing::warn!("some requests did not finish in time and were cancelled");
            self.cut.cancel();
            self.tasks.wait().await;
        }
        self.sessions.end_all();
        self.streams.end_all();
        self.server.settled().await;
    }
}

/// The address of ours that a client connected to.
type Local = Option<IpAddr>;
