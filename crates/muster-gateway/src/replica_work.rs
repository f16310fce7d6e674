//! Work that one replica does for another: requested by a message, and begun at most once.
//!
//! Messages may be lost, so the shared state is authoritative. The replica that does the work claims the ticket, once,
//! and renews the claim while it works; the replica that asked repeats its message until the ticket is claimed. The
//! result is stored, and read once. If the replica that does the work dies, the work is not taken over, and the replica
//! that asked learns that it may have been done in part. Work that nobody waits for any more is cancelled.
//!
//! Messages are encrypted, so only replicas can make one. A message that somebody recorded and sends again begins
//! nothing: it names its recipient, and work is numbered ([`begun`]).

mod begun;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use muster_core::{
    backend::{BoxFuture, boxed},
    backoff::Backoff,
    hex,
    json::{Raw, raw},
    lock::Lock,
    shared::{Recipient, ReplicaLink, StoreError},
};
use serde::{Deserialize, Serialize};
use thiserror::Error;
use tokio::{
    sync::oneshot,
    task::AbortHandle,
    time::{Instant, sleep, timeout},
};
use tokio_util::task::TaskTracker;

use self::begun::BegunWork;

/// How long a stored result is kept for the replica that asked.
const RESULT_TTL: Duration = Duration::from_secs(120);
/// How long a claim holds, and how often it is renewed.
const CLAIM: Duration = Duration::from_secs(30);
const RENEWAL: Duration = Duration::from_secs(10);
/// How long a claim holds that keeps work from beginning: longer than a message can be on its way.
const REFUSAL: Duration = Duration::from_secs(20 * 60);
/// How often a waiting replica checks for the result.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);
/// How long the other replica may take to claim a ticket.
const CLAIM_DEADLINE: Duration = Duration::from_secs(20);
/// How long the shared state may be unavailable, or a claim be missing, before a result counts as lost.
const LOST_DEADLINE: Duration = Duration::from_secs(60);
/// How long all replicas may seem dead after an outage of the shared state, until they have renewed their leases.
const RECOVERY: Duration = Duration::from_secs(10);
/// The delays between attempts to store a result.
const RETRY: Backoff = Backoff { first: Duration::from_millis(200), max: Duration::from_secs(5) };

/// The largest request to another replica, in bytes.
pub const MAX_REQUEST: usize = 4 * 1024 * 1024;
/// The largest result, in bytes.
pub const MAX_RESULT: usize = 32 * 1024 * 1024;

/// Why work that another replica was asked to do has no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum NoResult {
    /// It was not begun, and will not be.
    #[error("the replica that runs this call does not answer, and did not begin it; try again")]
    NotBegun,
    /// The replica died.
    #[error(
        "the replica that ran this call died: the call may have been carried out in part; repeat it only if that does no harm"
    )]
    Died,
    /// It may have been done.
    #[error(
        "the result of this call is lost: the call may have been carried out; repeat it only if that does no harm"
    )]
    Lost,
    /// The request is too large to be sent.
    #[error("an answer or a request for another replica may have at most {MAX_REQUEST} bytes")]
    TooLarge,
}

/// The names of a kind of work: topics of messages, and prefixes of keys.
#[derive(Debug, Clone, Copy)]
pub struct WorkNames {
    /// The topic of requests.
    pub ask: &'static str,
    /// The topic of notes that announce a stored result.
    pub done: &'static str,
    /// The topic of notes that cancel work nobody waits for any more.
    pub abandoned: &'static str,
    /// The prefix of claims.
    pub claim: &'static str,
    /// The prefix of results.
    pub result: &'static str,
}

/// Does the work that other replicas request.
pub trait ReplicaWorker: Send + Sync {
    /// Whether the work of a request has not begun: a claim in this replica's name is then left from an attempt to
    /// claim it that seemed to fail.
    fn is_open(&self, request: &Raw) -> bool;

    /// Does the work, and returns its result: at most [`MAX_RESULT`] bytes. Dropping the future ends the work.
    fn perform<'a>(&'a self, request: Raw, from: &'a Asker) -> BoxFuture<'a, Vec<u8>>;
}

/// The replica that asked, and the ticket of the work.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Asker {
    /// The id of the replica.
    pub replica: String,
    /// The ticket: it cannot be guessed.
    pub ticket: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct WorkRequest {
    request: Raw,
    from: Asker,
    /// The replica that is asked.
    to: String,
    /// The number of the work among all that this replica requested.
    number: u64,
}

/// The state of a ticket at another replica.
enum Remote {
    /// Its result.
    Done(Vec<u8>),
    /// It is claimed.
    Claimed,
    /// It is not claimed, or the claim has expired.
    Unclaimed,
    /// Its replica is dead.
    Died,
}

/// Work of one kind, in both directions: done for other replicas, and requested from them. Clones share it.
#[derive(Clone)]
pub struct ReplicaWork(Arc<Inner>);

struct Inner {
    link: Arc<dyn ReplicaLink>,
    names: WorkNames,
    tasks: TaskTracker,
    worker: Weak<dyn ReplicaWorker>,
    /// The tickets that this replica waits for.
    waiting: Lock<BTreeMap<String, oneshot::Sender<()>>>,
    /// The tasks that this replica runs for others, by ticket.
    running: Lock<BTreeMap<String, AbortHandle>>,
    /// The work that began at this replica.
    begun: Lock<BegunWork>,
    /// The number of the last work that this replica requested.
    last: AtomicU64,
}

impl fmt::Debug for ReplicaWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplicaWork").field("names", &self.0.names).finish_non_exhaustive()
    }
}

/// Returns a random name that cannot be guessed; `None` without a source of randomness.
pub fn unguessable() -> Option<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).ok()?;
    Some(hex::encode(&bytes))
}

impl ReplicaWork {
    /// Starts to do the work that other replicas request.
    pub fn connect(
        link: Arc<dyn ReplicaLink>,
        names: WorkNames,
        tasks: TaskTracker,
        worker: Weak<dyn ReplicaWorker>,
    ) -> Self {
        let (waiting, running, begun) = (Lock::default(), Lock::default(), Lock::default());
        let last = AtomicU64::new(0);
        let inner = Arc::new(Inner { link, names, tasks, worker, waiting, running, begun, last });
        let listen = |topic, handle: fn(&Arc<Inner>, &[u8])| {
            let inner_of = Arc::downgrade(&inner);
            let listener = move |message: Vec<u8>| {
                if let Some(inner) = inner_of.upgrade() {
                    handle(&inner, &message);
                }
            };
            inner.link.listen(topic, Arc::new(listener));
        };
        listen(names.ask, Inner::asked);
        listen(names.done, |inner, ticket| {
            let waiting = inner.waiting.lock().remove(&text(ticket));
            if waiting.is_none_or(|waiting| waiting.send(()).is_err()) {
                tracing::debug!("nobody waits for a result of another replica any more");
            }
        });
        listen(names.abandoned, |inner, ticket| {
            if let Some(task) = inner.running.lock().remove(&text(ticket)) {
                task.abort();
            }
        });
        Self(inner)
    }

    /// The link of this replica to the others.
    pub fn link(&self) -> &Arc<dyn ReplicaLink> {
        &self.0.link
    }

    /// Asks another replica to do something, and waits for the result. `gone` completes when that replica no longer
    /// does such work. Dropping the future cancels the work.
    pub async fn ask(
        &self,
        replica: &str,
        ticket: &str,
        request: Raw,
        gone: impl Future<Output = ()> + Send,
    ) -> Result<Vec<u8>, NoResult> {
        let inner = &*self.0;
        let from = Asker { replica: inner.link.id().to_owned(), ticket: ticket.to_owned() };
        let (to, number) = (replica.to_owned(), inner.last.fetch_add(1, Ordering::Relaxed) + 1);
        let ask = raw(&WorkRequest { request, from, to, number });
        let message = Box::<str>::from(ask).into_string().into_bytes();
        if message.len() > MAX_REQUEST {
            return Err(NoResult::TooLarge);
        }
        let (done, is_done) = oneshot::channel();
        inner.waiting.lock().insert(ticket.to_owned(), done);
        let mut waiting = Waiting { inner: &self.0, replica, ticket, is_over: false };
        let result = tokio::select! {
            biased;
            result = inner.result(replica, ticket, &message, is_done) => result,
            () = gone => inner.last_result(ticket).await.ok_or(NoResult::Died),
        };
        waiting.is_over = !matches!(result, Err(NoResult::Died));
        result
    }
}

fn text(message: &[u8]) -> String {
    String::from_utf8_lossy(message).into_owned()
}

impl Inner {
    fn claim_key(&self, ticket: &str) -> String {
        format!("{}:{ticket}", self.names.claim)
    }

    fn result_key(&self, ticket: &str) -> String {
        format!("{}:{ticket}", self.names.result)
    }

    /// Sends a request until it is claimed, and waits for its result.
    async fn result(
        &self,
        replica: &str,
        ticket: &str,
        message: &[u8],
        mut is_done: oneshot::Receiver<()>,
    ) -> Result<Vec<u8>, NoResult> {
        let began = Instant::now();
        let (mut claimed, mut is_notified) = (None, false);
        // When the shared state last answered, and whether a claim may have been missed since the beginning.
        let (mut answered, mut has_failed) = (began, false);
        // Since when the other replica has seemed dead.
        let mut dead_since = None;
        loop {
            if claimed.is_none() {
                let to = Recipient::Replica(replica);
                if let Err(error) = self.link.send(to, self.names.ask, message.to_vec()).await {
                    tracing::debug!("another replica is not asked yet: {error}");
                }
            }
            match is_notified {
                true => sleep(CHECK_INTERVAL).await,
                false => is_notified = timeout(CHECK_INTERVAL, &mut is_done).await.is_ok(),
            }
            if is_notified && let Some(result) = self.last_result(ticket).await {
                return Ok(result);
            }
            let found = match self.look_up(replica, ticket).await {
                Ok(found) => found,
                Err(error) => {
                    tracing::debug!("a result of another replica is not known yet: {error}");
                    (has_failed, dead_since) = (true, None);
                    if answered.elapsed() >= LOST_DEADLINE {
                        return Err(NoResult::Lost);
                    }
                    continue;
                }
            };
            // A claim may have come and gone unseen if this replica was paused.
            has_failed |= answered.elapsed() >= CLAIM;
            answered = Instant::now();
            if !matches!(found, Remote::Died) {
                dead_since = None;
            }
            match (found, claimed) {
                (Remote::Done(result), _) => {
                    // Best effort: otherwise it expires.
                    drop(self.link.state().remove(&self.result_key(ticket)).await);
                    return Ok(result);
                }
                (Remote::Died, _) => {
                    if dead_since.get_or_insert(answered).elapsed() >= RECOVERY {
                        return Err(NoResult::Died);
                    }
                }
                (Remote::Claimed, _) => claimed = Some(Instant::now()),
                (Remote::Unclaimed, Some(at)) if at.elapsed() >= LOST_DEADLINE => {
                    return Err(NoResult::Lost);
                }
                (Remote::Unclaimed, None) if began.elapsed() >= CLAIM_DEADLINE => {
                    // Claim the ticket here, so that the other replica cannot begin the work any more.
                    let own = self.link.id().as_bytes().to_vec();
                    match self.link.state().claim(&self.claim_key(ticket), own, REFUSAL).await {
                        // A claim may have expired unseen while the shared state was unavailable.
                        Ok(true) if has_failed || is_notified => return Err(NoResult::Lost),
                        Ok(true) => return Err(NoResult::NotBegun),
                        Ok(false) => (),
                        Err(_) => has_failed = true,
                    }
                }
                (Remote::Unclaimed, _) => (),
            }
        }
    }

    /// Takes the stored result, if there is one.
    async fn last_result(&self, ticket: &str) -> Option<Vec<u8>> {
        let key = self.result_key(ticket);
        let result = self.link.state().get(&key).await.ok().flatten()?;
        // Best effort: otherwise it expires.
        drop(self.link.state().remove(&key).await);
        Some(result)
    }

    async fn look_up(&self, replica: &str, ticket: &str) -> Result<Remote, StoreError> {
        let state = self.link.state();
        // Check that the replica is alive first: it may store its result and then die, and the result must not be
        // missed.
        let is_alive = self.link.is_alive(replica).await?;
        let claimed_by = state.get(&self.claim_key(ticket)).await?;
        let is_claimed = claimed_by.is_some_and(|by| by == replica.as_bytes());
        Ok(match state.get(&self.result_key(ticket)).await? {
            Some(result) => Remote::Done(result),
            None if !is_alive => Remote::Died,
            None if is_claimed => Remote::Claimed,
            None => Remote::Unclaimed,
        })
    }

    /// Starts the work of a request in the background.
    fn asked(self: &Arc<Self>, message: &[u8]) {
        let Ok(ask) = serde_json::from_slice(message) else { return };
        let WorkRequest { request, from, to, number } = ask;
        if to != self.link.id() {
            tracing::warn!("a message to another replica was received: somebody redirected it");
            return;
        }
        let mut running = self.running.lock();
        let has_begun = !self.begun.lock().may_begin(&from.replica, number);
        if has_begun || running.contains_key(&from.ticket) {
            return;
        }
        let (inner, ticket) = (Arc::clone(self), from.ticket.clone());
        let task = self.tasks.spawn(boxed(async move { inner.serve(request, from, number).await }));
        running.insert(ticket, task.abort_handle());
    }

    async fn serve(&self, request: Raw, from: Asker, number: u64) {
        let _running = Running { inner: self, ticket: &from.ticket };
        let Some(worker) = self.worker.upgrade() else { return };
        if !self.claim(&from.ticket, || worker.is_open(&request)).await {
            return;
        }
        self.begun.lock().note(&from.replica, number);
        let work = async {
            let result = worker.perform(request, &from).await;
            self.deliver(&from, result).await;
        };
        tokio::select! {
            () = work => (),
            () = self.keep_claim(&from) => {
                tracing::debug!("work for another replica ended: that replica is dead");
            }
        }
    }

    /// Claims a ticket; `false` if it is claimed already, or the shared state stays unavailable.
    async fn claim(&self, ticket: &str, is_open: impl Fn() -> bool) -> bool {
        let (key, own) = (self.claim_key(ticket), self.link.id().as_bytes());
        let (end, mut retries) = (Instant::now() + CLAIM_DEADLINE, 0);
        let attempt = async |has_failed: bool| {
            let state = self.link.state();
            if state.claim(&key, own.to_vec(), CLAIM).await? {
                return Ok(true);
            }
            // An earlier attempt may have succeeded although it seemed to fail.
            Ok(has_failed && is_open() && state.swap(&key, own, own.to_vec(), CLAIM).await?)
        };
        loop {
            let error: StoreError = match attempt(retries > 0).await {
                Ok(is_claimed) => return is_claimed,
                Err(error) => error,
            };
            tracing::debug!("work for another replica does not begin yet: {error}");
            if Instant::now() >= end {
                return false;
            }
            sleep(RETRY.delay(retries)).await;
            retries += 1;
        }
    }

    /// Keeps renewing a claim; returns once the replica that asked is dead.
    async fn keep_claim(&self, from: &Asker) {
        let mut dead_since = None;
        loop {
            sleep(RENEWAL).await;
            let own = self.link.id().as_bytes().to_vec();
            let key = self.claim_key(&from.ticket);
            if let Err(error) = self.link.state().put(&key, own, CLAIM).await {
                tracing::debug!("the claim of work for another replica is not renewed: {error}");
            }
            if !matches!(self.link.is_alive(&from.replica).await, Ok(false)) {
                dead_since = None;
            } else if dead_since.get_or_insert_with(Instant::now).elapsed() >= RECOVERY {
                return;
            }
        }
    }

    /// Stores a result for the replica that asked.
    async fn deliver(&self, from: &Asker, result: Vec<u8>) {
        let (end, mut retries) = (Instant::now() + LOST_DEADLINE, 0);
        let key = self.result_key(&from.ticket);
        while let Err(error) = self.link.state().put(&key, result.clone(), RESULT_TTL).await {
            if Instant::now() >= end {
                tracing::warn!("a result does not reach the replica that it is for: {error}");
                return;
            }
            sleep(RETRY.delay(retries)).await;
            retries += 1;
        }
        let to = Recipient::Replica(&from.replica);
        let ticket = from.ticket.clone().into_bytes();
        if let Err(error) = self.link.send(to, self.names.done, ticket).await {
            tracing::debug!("a result waits for the replica that it is for: {error}");
        }
    }
}

/// A ticket that this replica waits for. Dropping it before the result arrives cancels the work.
struct Waiting<'a> {
    inner: &'a Arc<Inner>,
    replica: &'a str,
    ticket: &'a str,
    is_over: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.inner.waiting.lock().remove(self.ticket);
        if self.is_over || tokio::runtime::Handle::try_current().is_err() {
            return;
        }
        let inner = Arc::clone(self.inner);
        let (replica, ticket) = (self.replica.to_owned(), self.ticket.to_owned());
        self.inner.tasks.spawn(boxed(async move {
            // Claim the ticket, so that work that has not begun yet never begins.
            let (key, own) = (inner.claim_key(&ticket), inner.link.id().as_bytes().to_vec());
            let claimed = inner.link.state().claim(&key, own, REFUSAL).await;
            let to = Recipient::Replica(&replica);
            let sent = inner.link.send(to, inner.names.abandoned, ticket.into_bytes()).await;
            if let Err(error) = claimed.map(drop).and(sent) {
                tracing::debug!("work goes on that nobody waits for: {error}");
            }
        }));
    }
}

/// Work in progress for another replica. Dropping it removes the work from `running`.
struct Running<'a> {
    inner: &'a Inner,
    ticket: &'a str,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.inner.running.lock().remove(self.ticket);
    }
}

#[cfg(test)]
mod tests;
