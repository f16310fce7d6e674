//! Calls that are suspended at another replica: resumed there, by a message.
//!
//! Messages may be lost, so what counts is in the shared state. The replica that runs a call claims each request to resume it,
//! once, and renews that claim while the call runs; the replica that the client asked repeats its message until then. The
//! result is stored, and read once. If the replica that runs the call dies, so does the call; the client learns that it may
//! have been carried out in part.

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
    time::Duration,
};

use muster_core::{
    backend::BoxFuture,
    backoff::Backoff,
    call::Caller,
    client::{ClientHandle, Continuation, InputError, InputMode, InputRequest, Notification},
    json::{Raw, raw},
    lock::Lock,
    request::RequestError,
    shared::{Recipient, ReplicaLink, StoreError},
};
use serde::{Deserialize, Serialize};
use tokio::{
    sync::oneshot,
    task::AbortHandle,
    time::{Instant, sleep, timeout},
};
use tokio_util::task::TaskTracker;

use super::{Served, SuspendedCalls, unguessable};

/// The topics of messages: calls to resume, those that were, and those whose client is gone.
pub(super) const RESUME: &str = "resume-call";
pub(super) const RESUMED: &str = "resumed-call";
const ABANDONED: &str = "abandoned-call";

/// How long a result waits for the replica that it is for.
const RESULT_TTL: Duration = Duration::from_secs(120);
/// How long a claim holds, and how often it is renewed.
const CLAIM: Duration = Duration::from_secs(30);
const RENEWAL: Duration = Duration::from_secs(10);
/// How often a waiting replica looks for the result.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);
/// How long the other replica may take to claim a call.
const CLAIM_DEADLINE: Duration = Duration::from_secs(20);
/// How long the shared state may be unavailable, or a claim be missing, before a result counts as lost.
const LOST_DEADLINE: Duration = Duration::from_secs(60);
/// How long all replicas may seem dead after the shared state was not available: they have to renew their leases.
const RECOVERY: Duration = Duration::from_secs(10);
/// The delays between attempts to store a result.
const RETRY: Backoff = Backoff { first: Duration::from_millis(200), max: Duration::from_secs(5) };
/// The largest answer of a client, and the largest result, that another replica is sent.
const MAX_ANSWER: usize = 4 * 1024 * 1024;
const MAX_RESULT: usize = 32 * 1024 * 1024;

const DIED: &str = "the replica that ran this call died: the call may have been carried out in part; repeat it only if \
                    that does no harm";
const LOST: &str = "the result of this call is lost: the call may have been carried out; repeat it only if that does no harm";
const NOT_RESUMED: &str =
    "the replica that runs this call does not answer, and did not resume it; try again";

/// The suspended calls of other replicas.
#[derive(Debug)]
pub(super) struct OtherReplicas {
    link: Arc<dyn ReplicaLink>,
    tasks: TaskTracker,
    /// The calls that this replica waits for, by ticket.
    waiting: Lock<BTreeMap<String, oneshot::Sender<()>>>,
    /// The calls that this replica runs for others, by ticket.
    running: Lock<BTreeMap<String, AbortHandle>>,
}

/// A call to resume.
#[derive(Debug, Serialize, Deserialize)]
struct ResumeMessage {
    handle: String,
    subject: String,
    capabilities: Raw,
    responses: Option<Raw>,
    /// The replica that the client asked, and its name for the result.
    asked: String,
    ticket: String,
}

/// The state of a call at another replica.
enum Remote {
    /// Its result.
    Done(Vec<u8>),
    /// It is claimed.
    Claimed,
    /// It is not claimed, or no longer.
    Unclaimed,
    /// Its replica is dead.
    Died,
}

impl OtherReplicas {
    /// Resumes the calls of this replica for others from now on.
    pub(super) fn connect(
        link: Arc<dyn ReplicaLink>,
        tasks: TaskTracker,
        calls: &Weak<SuspendedCalls>,
    ) -> Self {
        let of_others = calls.clone();
        let resume = move |message: Vec<u8>| {
            if let Some(calls) = of_others.upgrade()
                && let Ok(message) = serde_json::from_slice(&message)
            {
                calls.resume_for_another(message);
            }
        };
        let ours = calls.clone();
        let resumed = move |message: Vec<u8>| {
            let Some(calls) = ours.upgrade() else { return };
            let Some(others) = &calls.others else { return };
            let ticket = String::from_utf8(message).unwrap_or_default();
            let waiting = others.waiting.lock().remove(&ticket);
            if waiting.is_none_or(|waiting| waiting.send(()).is_err()) {
                tracing::debug!("the client of a resumed call is gone");
            }
        };
        let of_others = calls.clone();
        let abandoned = move |message: Vec<u8>| {
            let Some(calls) = of_others.upgrade() else { return };
            let Some(others) = &calls.others else { return };
            let ticket = String::from_utf8(message).unwrap_or_default();
            if let Some(task) = others.running.lock().remove(&ticket) {
                task.abort();
            }
        };
        link.listen(RESUME, Arc::new(resume));
        link.listen(RESUMED, Arc::new(resumed));
        link.listen(ABANDONED, Arc::new(abandoned));
        Self { link, tasks, waiting: Lock::default(), running: Lock::default() }
    }

    /// This replica.
    pub(super) fn own_id(&self) -> &str {
        self.link.id()
    }

    /// Resumes a call at another replica.
    pub(super) async fn resume(
        &self,
        replica: &str,
        handle: &str,
        caller: &Caller,
        client: &Arc<dyn ClientHandle>,
        continuation: &Continuation,
    ) -> Served {
        let Some(ticket) = unguessable() else {
            return Err(RequestError::Internal("there is no source of randomness".to_owned()));
        };
        let message = ResumeMessage {
            handle: handle.to_owned(),
            subject: caller.subject.to_string(),
            capabilities: client.capabilities(),
            responses: continuation.responses.clone(),
            asked: self.link.id().to_owned(),
            ticket: ticket.clone(),
        };
        let message = Box::<str>::from(raw(&message)).into_string().into_bytes();
        if message.len() > MAX_ANSWER {
            let message = format!("an answer may have at most {MAX_ANSWER} bytes");
            return Err(RequestError::InvalidParams(message));
        }
        let (done, is_done) = oneshot::channel();
        self.waiting.lock().insert(ticket.clone(), done);
        let mut waiting = Ticket { others: self, replica, ticket: &ticket, is_over: false };
        let served = self.result(replica, &ticket, &message, is_done).await;
        waiting.is_over = true;
        served
    }

    /// Sends a call to resume until it is claimed, and waits for its result.
    async fn result(
        &self,
        replica: &str,
        ticket: &str,
        message: &[u8],
        mut is_done: oneshot::Receiver<()>,
    ) -> Served {
        let lost = |reason: &str| Err(RequestError::Internal(reason.to_owned()));
        let began = Instant::now();
        let (mut claimed, mut is_notified) = (None, false);
        // When the shared state last answered, and whether it ever did not.
        let (mut answered, mut has_failed) = (began, false);
        // Since when the other replica seems dead.
        let mut dead_since = None;
        loop {
            if claimed.is_none() {
                let to = Recipient::Replica(replica);
                if let Err(error) = self.link.send(to, RESUME, message.to_vec()).await {
                    tracing::debug!("a call is not resumed yet: {error}");
                }
            }
            match is_notified {
                true => sleep(CHECK_INTERVAL).await,
                false => is_notified = timeout(CHECK_INTERVAL, &mut is_done).await.is_ok(),
            }
            let found = match self.look_up(replica, ticket).await {
                Ok(found) => found,
                Err(error) => {
                    tracing::debug!("the result of a call is not known yet: {error}");
                    (has_failed, dead_since) = (true, None);
                    if answered.elapsed() >= LOST_DEADLINE {
                        return lost(LOST);
                    }
                    continue;
                }
            };
            answered = Instant::now();
            if !matches!(found, Remote::Died) {
                dead_since = None;
            }
            match (found, claimed) {
                (Remote::Done(stored), _) => {
                    // It expires otherwise.
                    drop(self.link.state().remove(&result_key(ticket)).await);
                    let unreadable = |_| RequestError::Internal("an unreadable result".to_owned());
                    return serde_json::from_slice::<Served>(&stored).map_err(unreadable)?;
                }
                (Remote::Died, _) => {
                    if dead_since.get_or_insert(answered).elapsed() >= RECOVERY {
                        return lost(DIED);
                    }
                }
                (Remote::Claimed, _) => claimed = Some(Instant::now()),
                (Remote::Unclaimed, Some(at)) if at.elapsed() >= LOST_DEADLINE => {
                    return lost(LOST);
                }
                (Remote::Unclaimed, None) if began.elapsed() >= CLAIM_DEADLINE => {
                    // Claimed here, it cannot be claimed there any more.
                    let own = self.link.id().as_bytes().to_vec();
                    match self.link.state().claim(&claim_key(ticket), own, CLAIM).await {
                        // A claim that was not renewed may have expired unseen.
                        Ok(true) => return lost(if has_failed { LOST } else { NOT_RESUMED }),
                        Ok(false) => (),
                        Err(_) => has_failed = true,
                    }
                }
                (Remote::Unclaimed, _) => (),
            }
        }
    }

    async fn look_up(&self, replica: &str, ticket: &str) -> Result<Remote, StoreError> {
        let state = self.link.state();
        // In this order, so that the last result is not missed.
        let is_alive = self.link.is_alive(replica).await?;
        let claimed_by = state.get(&claim_key(ticket)).await?;
        let is_claimed = claimed_by.is_some_and(|by| by == replica.as_bytes());
        Ok(match state.get(&result_key(ticket)).await? {
            Some(result) => Remote::Done(result),
            None if !is_alive => Remote::Died,
            None if is_claimed => Remote::Claimed,
            None => Remote::Unclaimed,
        })
    }

    /// Claims a request to resume a call; `false` if that cannot be done, or was.
    async fn claim(&self, ticket: &str, is_suspended: impl Fn() -> bool) -> bool {
        let (key, own) = (claim_key(ticket), self.link.id().as_bytes());
        let (end, mut retries) = (Instant::now() + CLAIM_DEADLINE, 0);
        let attempt = async || {
            let state = self.link.state();
            if state.claim(&key, own.to_vec(), CLAIM).await? {
                return Ok(true);
            }
            // An earlier attempt may have succeeded although it seemed to fail.
            Ok(is_suspended() && state.swap(&key, own, own.to_vec(), CLAIM).await?)
        };
        loop {
            let error: StoreError = match attempt().await {
                Ok(is_claimed) => return is_claimed,
                Err(error) => error,
            };
            tracing::debug!("a call is not resumed yet: {error}");
            if Instant::now() >= end {
                return false;
            }
            sleep(RETRY.delay(retries)).await;
            retries += 1;
        }
    }

    /// Renews the claim of a call; returns if the replica that its client asked is dead.
    async fn keep_claim(&self, ticket: &str, asked: &str) {
        let mut dead_since = None;
        loop {
            sleep(RENEWAL).await;
            let own = self.link.id().as_bytes().to_vec();
            if let Err(error) = self.link.state().put(&claim_key(ticket), own, CLAIM).await {
                tracing::debug!("the claim of a call is not renewed: {error}");
            }
            if !matches!(self.link.is_alive(asked).await, Ok(false)) {
                dead_since = None;
            } else if dead_since.get_or_insert_with(Instant::now).elapsed() >= RECOVERY {
                return;
            }
        }
    }

    /// Stores a result for the replica that its client asked.
    async fn deliver(&self, asked: &str, ticket: String, result: Vec<u8>) {
        let (end, mut retries) = (Instant::now() + LOST_DEADLINE, 0);
        let key = result_key(&ticket);
        while let Err(error) = self.link.state().put(&key, result.clone(), RESULT_TTL).await {
            if Instant::now() >= end {
                tracing::warn!("the result of a call does not reach its client: {error}");
                return;
            }
            sleep(RETRY.delay(retries)).await;
            retries += 1;
        }
        let to = Recipient::Replica(asked);
        if let Err(error) = self.link.send(to, RESUMED, ticket.into_bytes()).await {
            tracing::debug!("the result of a call waits for its client: {error}");
        }
    }
}

/// A call that this replica waits for. If it is dropped before its result, its client is gone.
struct Ticket<'a> {
    others: &'a OtherReplicas,
    replica: &'a str,
    ticket: &'a str,
    is_over: bool,
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        self.others.waiting.lock().remove(self.ticket);
        if self.is_over || tokio::runtime::Handle::try_current().is_err() {
            return;
        }
        let link = Arc::clone(&self.others.link);
        let (replica, ticket) = (self.replica.to_owned(), self.ticket.to_owned());
        self.others.tasks.spawn(async move {
            // A call that is not resumed yet stays suspended, and expires.
            let own = link.id().as_bytes().to_vec();
            let claimed = link.state().claim(&claim_key(&ticket), own, CLAIM).await;
            let to = Recipient::Replica(&replica);
            let sent = link.send(to, ABANDONED, ticket.into_bytes()).await;
            if let Err(error) = claimed.map(drop).and(sent) {
                tracing::debug!("a call continues without its client: {error}");
            }
        });
    }
}

/// A call that this replica runs for another, until it is dropped.
struct RunningForAnother<'a> {
    others: &'a OtherReplicas,
    ticket: &'a str,
}

impl Drop for RunningForAnother<'_> {
    fn drop(&mut self) {
        self.others.running.lock().remove(self.ticket);
    }
}

impl SuspendedCalls {
    /// Resumes a call for the replica that its client asked, in the background.
    fn resume_for_another(self: Arc<Self>, message: ResumeMessage) {
        let Some(others) = &self.others else { return };
        let mut running = others.running.lock();
        if running.contains_key(&message.ticket) {
            // The message was repeated.
            return;
        }
        let (calls, ticket) = (Arc::clone(&self), message.ticket.clone());
        let task = self.tasks.spawn(async move { calls.run_for_another(message).await });
        running.insert(ticket, task.abort_handle());
    }

    async fn run_for_another(&self, message: ResumeMessage) {
        let Some(others) = &self.others else { return };
        let ResumeMessage { handle, subject, capabilities, responses, asked, ticket } = message;
        let _running = RunningForAnother { others, ticket: &ticket };
        let is_suspended = || self.calls.lock().contains_key(&handle);
        if !others.claim(&ticket, is_suspended).await {
            return;
        }
        let caller = Caller { subject: subject.into(), ..Caller::local() };
        let client: Arc<dyn ClientHandle> = Arc::new(RemoteClient { capabilities });
        let continuation = Continuation { responses, state: Some(raw(&handle)) };
        let work = async {
            let served = self.resume_here(&handle, &caller, &client, &continuation).await;
            let mut encoded = serde_json::to_vec(&served).unwrap_or_default();
            if encoded.len() > MAX_RESULT {
                let message = "the result is too large for another replica".to_owned();
                let error: Served = Err(RequestError::Internal(message));
                encoded = serde_json::to_vec(&error).unwrap_or_default();
            }
            others.deliver(&asked, ticket.clone(), encoded).await;
        };
        tokio::select! {
            () = work => (),
            () = others.keep_claim(&ticket, &asked) => {
                tracing::debug!("a call was cancelled: the replica of its client is dead");
            }
        }
    }
}

/// A client that is connected to another replica: it does not see notifications.
#[derive(Debug)]
struct RemoteClient {
    capabilities: Raw,
}

impl ClientHandle for RemoteClient {
    fn capabilities(&self) -> Raw {
        self.capabilities.clone()
    }

    fn input_mode(&self) -> InputMode {
        InputMode::InResult
    }

    fn notify(&self, _: Notification) {}

    fn request_input(&self, _: InputRequest) -> BoxFuture<'_, Result<Raw, InputError>> {
        Box::pin(std::future::ready(Err(InputError::Disconnected)))
    }
}

fn result_key(ticket: &str) -> String {
    format!("resumed:{ticket}")
}

fn claim_key(ticket: &str) -> String {
    format!("resuming:{ticket}")
}
