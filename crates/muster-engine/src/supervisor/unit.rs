//! One server: connected when it is wanted, connected again when it is lost.

use std::{future::pending, sync::Arc, time::Duration};

use jiff::Timestamp;
use muster_config::mcpserver::McpServer;
use muster_core::{
    backend::{Backend, BoxFuture},
    connect::{Connect, ConnectError, Connection, Listing},
};
use muster_gateway::condition::Condition;
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until, timeout},
};

use super::{
    Hear, Timing, UnitId, Wish, Word,
    backoff::pause,
    ear::{self, Ear, Notice},
};
use crate::{redact, status::Report};

/// From this failure on a remote server counts as unreachable.
const UNREACHABLE: u64 = 3;

/// What a unit works with.
pub(crate) struct Means {
    pub(crate) connect: Arc<dyn Connect>,
    pub(crate) timing: Timing,
    pub(crate) words: Arc<dyn Hear>,
}

/// The task of one server.
pub(crate) struct Unit {
    id: UnitId,
    means: Means,
    wishes: watch::Receiver<Wish>,
    server: Arc<McpServer>,
    report: Report,
    phase: Phase,
    /// Losses and failures in a row since it was last up for a while; none while it was never up.
    lost: Option<u64>,
}

/// Where a unit is.
enum Phase {
    Down { retry: Option<Instant> },
    Connecting(BoxFuture<'static, Result<Joined, ConnectError>>),
    Up(Link),
}

/// A server that has just been connected.
struct Joined {
    connection: Arc<dyn Connection>,
    listing: Listing,
    ear: Ear,
}

/// A server that is up.
struct Link {
    connection: Arc<dyn Connection>,
    ear: Ear,
    since: Instant,
    relist_at: Option<Instant>,
    listing: Option<BoxFuture<'static, Result<Listing, ConnectError>>>,
}

/// Everything that can happen to a unit.
enum Happening {
    /// What is wanted has changed.
    Wished,
    /// Nobody wants anything any more.
    Abandoned,
    /// An attempt to connect is over.
    Joined(Box<Result<Joined, ConnectError>>),
    /// It is time to try again.
    RetryDue,
    /// The server said something.
    Noticed(Notice),
    /// The server's lists have changed and have settled.
    RelistDue,
    /// It has listed what it offers anew.
    Listed(Result<Listing, ConnectError>),
}

impl Unit {
    pub(crate) fn new(id: UnitId, means: Means, wishes: watch::Receiver<Wish>) -> Self {
        let server = Arc::clone(&wishes.borrow().server);
        let report = Report::idle(server.spec.kind);
        let phase = Phase::Down { retry: None };
        Self { id, means, wishes, server, report, phase, lost: None }
    }

    pub(crate) async fn run(mut self) {
        loop {
            match self.next().await {
                Happening::Wished => self.follow().await,
                Happening::Abandoned => break self.hang_up().await,
                Happening::Joined(joined) => match *joined {
                    Ok(joined) => self.up(joined).await,
                    Err(error) => self.refused(error).await,
                },
                Happening::RetryDue => self.start().await,
                Happening::Noticed(Notice::ListsChanged) => self.lists_changed(),
                Happening::Noticed(Notice::Updated(uri)) => self.say(Word::Updated(uri)).await,
                Happening::Noticed(Notice::Closed(reason)) => self.closed(&reason).await,
                Happening::RelistDue => self.relist(),
                Happening::Listed(listed) => self.listed(listed).await,
            }
        }
    }

    async fn next(&mut self) -> Happening {
        tokio::select! {
            biased;
            changed = self.wishes.changed() => match changed {
                Ok(()) => Happening::Wished,
                Err(_) => Happening::Abandoned,
            },
            happening = self.phase.next() => happening,
        }
    }

    /// Does what is wanted now.
    async fn follow(&mut self) {
        let wish = self.wishes.borrow_and_update().clone();
        self.server = wish.server;
        if wish.round == self.report.round {
            return;
        }
        let was_up = matches!(self.phase, Phase::Up(_));
        if was_up {
            self.report.condition = Condition::Stopping;
            self.say(Word::Down(self.report.clone())).await;
            self.hang_up().await;
        }
        self.report.round = wish.round;
        self.report.next_retry = None;
        self.lost = None;
        if wish.running {
            if was_up {
                sleep(self.means.timing.restart_pause).await;
            }
            self.start().await;
        } else {
            self.phase = Phase::Down { retry: None };
            self.report.condition = Condition::down(self.server.spec.kind);
            self.report.error = None;
            self.say(Word::Down(self.report.clone())).await;
        }
    }

    /// Begins to connect.
    async fn start(&mut self) {
        if self.report.last_attempt.replace(Timestamp::now()).is_some() {
            self.report.restarts += 1;
        }
        self.report.condition = Condition::Starting;
        self.report.next_retry = None;
        self.phase = Phase::Connecting(Box::pin(join(
            Arc::clone(&self.means.connect),
            Arc::clone(&self.server),
            self.means.timing.goodbye,
        )));
        self.say(Word::Doing(self.report.clone())).await;
    }

    async fn up(&mut self, joined: Joined) {
        let Joined { connection, listing, ear } = joined;
        self.report = Report {
            condition: Condition::up(self.server.spec.kind),
            error: None,
            failures: 0,
            last_connected: Some(Timestamp::now()),
            protocol: Some(listing.protocol.clone()),
            challenge: None,
            needs_login: false,
            ..self.report.clone()
        };
        let backend: Arc<dyn Backend> = Arc::clone(&connection) as Arc<dyn Backend>;
        let since = Instant::now();
        self.lost.get_or_insert(0);
        self.phase = Phase::Up(Link { connection, ear, since, relist_at: None, listing: None });
        self.say(Word::Up(self.report.clone(), listing, backend)).await;
    }

    /// It could not be connected.
    async fn refused(&mut self, error: ConnectError) {
        let local = self.server.spec.kind.is_local();
        self.report.failures += 1;
        self.report.error = Some(redact::error(&error.to_string()));
        let retry = match error {
            ConnectError::Unauthorized { challenge } if !local => {
                self.report.condition = Condition::AuthRequired;
                self.report.error = None;
                self.report.failures = 0;
                self.report.challenge = challenge;
                self.report.needs_login = true;
                None
            }
            error => {
                let transient = !local && matches!(error, ConnectError::Transient(_));
                let many = self.report.failures >= UNREACHABLE;
                self.report.condition = match transient && many {
                    true => Condition::Unreachable,
                    false => Condition::Failed,
                };
                let Timing { initial_backoff, longest_backoff, .. } = self.means.timing;
                match self.lost {
                    // What was up may come back, whatever it says now.
                    Some(_) => Some(self.lost_again()),
                    None if transient => {
                        Some(pause(initial_backoff, longest_backoff, self.report.failures))
                    }
                    None => None,
                }
            }
        };
        self.wait(retry).await;
    }

    /// It was up and is gone.
    async fn closed(&mut self, reason: &str) {
        if let Phase::Up(link) = &self.phase
            && link.since.elapsed() >= self.means.timing.steady
        {
            self.lost = None;
        }
        self.hang_up().await;
        self.report.condition = Condition::Failed;
        self.report.failures += 1;
        self.report.error = Some(redact::error(reason));
        let pause = self.lost_again();
        self.wait(Some(pause)).await;
    }

    /// Counts another loss. Gives the time to wait.
    fn lost_again(&mut self) -> Duration {
        let Timing { first_restart, initial_backoff, longest_backoff, .. } = self.means.timing;
        let lost = self.lost.get_or_insert(0);
        *lost += 1;
        pause(first_restart.min(initial_backoff), longest_backoff, *lost)
    }

    /// Says that it is down, and until when.
    async fn wait(&mut self, pause: Option<Duration>) {
        self.report.next_retry = pause.and_then(|pause| Timestamp::now().checked_add(pause).ok());
        self.phase = Phase::Down { retry: pause.map(|pause| Instant::now() + pause) };
        self.say(Word::Down(self.report.clone())).await;
    }

    fn lists_changed(&mut self) {
        if let Phase::Up(link) = &mut self.phase {
            link.relist_at.get_or_insert_with(|| Instant::now() + self.means.timing.relist);
        }
    }

    fn relist(&mut self) {
        let limit = self.server.spec.limit();
        if let Phase::Up(link) = &mut self.phase {
            link.relist_at = None;
            let connection = Arc::clone(&link.connection);
            link.listing = Some(Box::pin(async move { list(&*connection, limit).await }));
        }
    }

    async fn listed(&mut self, listed: Result<Listing, ConnectError>) {
        match listed {
            Ok(listing) => self.say(Word::Relisted(listing)).await,
            Err(error) => {
                let name = &self.server.name;
                tracing::warn!(server = name, "what it offers stays as it was: {error}");
            }
        }
    }

    /// Says goodbye, for as long as that may take. Dropping the connection ends it in any case.
    async fn hang_up(&mut self) {
        let down = Phase::Down { retry: None };
        if let Phase::Up(link) = std::mem::replace(&mut self.phase, down) {
            drop(timeout(self.means.timing.goodbye, link.connection.close()).await);
        }
    }

    async fn say(&mut self, word: Word) {
        self.means.words.hear(&self.server.name, self.id, word).await;
    }
}

impl Phase {
    /// What happens next here. Dropping the future loses nothing.
    async fn next(&mut self) -> Happening {
        match self {
            Self::Down { retry: None } => pending().await,
            Self::Down { retry: Some(at) } => {
                sleep_until(*at).await;
                Happening::RetryDue
            }
            Self::Connecting(joining) => Happening::Joined(Box::new(joining.await)),
            Self::Up(link) => link.next().await,
        }
    }
}

impl Link {
    async fn next(&mut self) -> Happening {
        // One list at a time: what changes meanwhile is listed afterwards.
        let relist_at = self.relist_at.filter(|_| self.listing.is_none());
        let due = async {
            match relist_at {
                Some(at) => sleep_until(at).await,
                None => pending().await,
            }
        };
        let listing = async {
            match &mut self.listing {
                Some(listing) => listing.await,
                None => pending().await,
            }
        };
        let happening = tokio::select! {
            biased;
            notice = self.ear.next() => Happening::Noticed(notice),
            listed = listing => Happening::Listed(listed),
            () = due => Happening::RelistDue,
        };
        if matches!(happening, Happening::Listed(_)) {
            self.listing = None;
        }
        happening
    }
}

async fn join(
    connect: Arc<dyn Connect>,
    server: Arc<McpServer>,
    goodbye: Duration,
) -> Result<Joined, ConnectError> {
    let limit = server.spec.limit();
    let (events, ear) = ear::pair(&server.name);
    let endpoint = server.spec.endpoint();
    let connecting = connect.connect(&server.name, &endpoint, limit, events);
    let connection = timeout(limit, connecting).await.map_err(|_| too_slow("connect", limit))??;
    match list(&*connection, limit).await {
        Ok(listing) => Ok(Joined { connection, listing, ear }),
        Err(error) => {
            drop(timeout(goodbye, connection.close()).await);
            Err(error)
        }
    }
}

async fn list(connection: &dyn Connection, limit: Duration) -> Result<Listing, ConnectError> {
    timeout(limit, connection.list()).await.map_err(|_| too_slow("list its tools", limit))?
}

fn too_slow(what: &str, limit: Duration) -> ConnectError {
    ConnectError::Transient(format!("it took longer than {} s to {what}", limit.as_secs()))
}
