//! Calls that are suspended at another replica: resumed there, by a message.
//!
//! The replica that resumes a call stores its result for the one that the client asked, once. If it dies, so does the call;
//! the client learns that it may have been carried out in part.

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
    time::Duration,
};

use muster_core::{
    backend::BoxFuture,
    call::Caller,
    client::{ClientHandle, Continuation, InputError, InputMode, InputRequest, Notification},
    json::{Raw, raw},
    lock::Lock,
    request::RequestError,
    shared::{Recipient, ReplicaLink, StoreError},
};
use serde::{Deserialize, Serialize};
use tokio::{sync::oneshot, time::timeout};

use super::{Served, SuspendedCalls, unguessable};

/// The topics of messages: calls to resume, and those that were.
const RESUME: &str = "resume-call";
const RESUMED: &str = "resumed-call";

/// How long a result waits for the replica that it is for.
const RESULT_TTL: Duration = Duration::from_secs(60);
/// How often a waiting replica checks that the other one is alive.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);
/// The largest answer of a client, and the largest result, that another replica is sent.
const MAX_ANSWER: usize = 4 * 1024 * 1024;
const MAX_RESULT: usize = 32 * 1024 * 1024;

const DIED: &str = "the replica that ran this call died: the call may have been carried out in part; repeat it only if \
                    that does no harm";

/// The suspended calls of other replicas.
#[derive(Debug)]
pub(super) struct OtherReplicas {
    link: Arc<dyn ReplicaLink>,
    /// The calls that this replica waits for, by ticket.
    waiting: Lock<BTreeMap<String, oneshot::Sender<()>>>,
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

impl OtherReplicas {
    /// Resumes the calls of this replica for others from now on.
    pub(super) fn connect(link: Arc<dyn ReplicaLink>, calls: &Weak<SuspendedCalls>) -> Self {
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
        link.listen(RESUME, Arc::new(resume));
        link.listen(RESUMED, Arc::new(resumed));
        Self { link, waiting: Lock::default() }
    }

    /// This replica.
    pub(super) fn own_id(&self) -> &str {
        self.link.id()
    }

    /// Resumes a call at another replica; `None` if that replica is dead, and the call with it.
    pub(super) async fn resume(
        &self,
        replica: &str,
        handle: &str,
        caller: &Caller,
        client: &Arc<dyn ClientHandle>,
        continuation: &Continuation,
    ) -> Option<Served> {
        match self.link.is_alive(replica).await {
            Ok(true) => (),
            Ok(false) => return None,
            Err(error) => return Some(Err(unavailable(&error))),
        }
        let Some(ticket) = unguessable() else {
            return Some(Err(RequestError::Internal(
                "there is no source of randomness".to_owned(),
            )));
        };
        let message = ResumeMessage {
            handle: handle.to_owned(),
            subject: caller.subject.to_string(),
            capabilities: client.capabilities(),
            responses: continuation.responses.clone(),
            asked: self.link.id().to_owned(),
            ticket: ticket.clone(),
        };
        let (done, is_done) = oneshot::channel();
        self.waiting.lock().insert(ticket.clone(), done);
        let _ticket = Ticket { others: self, ticket: &ticket };
        let message = Box::<str>::from(raw(&message)).into_string().into_bytes();
        if message.len() > MAX_ANSWER {
            let message = format!("an answer may have at most {MAX_ANSWER} bytes");
            return Some(Err(RequestError::InvalidParams(message)));
        }
        if let Err(error) = self.link.send(Recipient::Replica(replica), RESUME, message).await {
            return Some(Err(unavailable(&error)));
        }
        Some(self.result(replica, &ticket, is_done).await)
    }

    async fn result(
        &self,
        replica: &str,
        ticket: &str,
        mut is_done: oneshot::Receiver<()>,
    ) -> Served {
        loop {
            let is_told = timeout(CHECK_INTERVAL, &mut is_done).await.is_ok();
            // Looked up before the result is, so that the last one is not missed.
            let is_alive =
                self.link.is_alive(replica).await.map_err(|error| unavailable(&error))?;
            let stored = self.link.state().take(&key(ticket)).await;
            if let Some(stored) = stored.map_err(|error| unavailable(&error))? {
                let unreadable = |_| RequestError::Internal("an unreadable result".to_owned());
                return serde_json::from_slice::<Served>(&stored).map_err(unreadable)?;
            }
            if is_told || !is_alive {
                return Err(RequestError::Internal(DIED.to_owned()));
            }
        }
    }
}

/// A call that this replica waits for, until it is dropped.
struct Ticket<'a> {
    others: &'a OtherReplicas,
    ticket: &'a str,
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        self.others.waiting.lock().remove(self.ticket);
    }
}

impl SuspendedCalls {
    /// Resumes a call for the replica that its client asked, in the background.
    fn resume_for_another(self: Arc<Self>, message: ResumeMessage) {
        let tasks = self.tasks.clone();
        tasks.spawn(async move {
            let Some(others) = &self.others else { return };
            let ResumeMessage { handle, subject, capabilities, responses, asked, ticket } = message;
            let caller = Caller { subject: subject.into(), ..Caller::local() };
            let client: Arc<dyn ClientHandle> = Arc::new(DistantClient { capabilities });
            let continuation = Continuation { responses, state: Some(raw(&handle)) };
            let served = self.resume_here(&handle, &caller, &client, &continuation).await;
            let mut encoded = serde_json::to_vec(&served).unwrap_or_default();
            if encoded.len() > MAX_RESULT {
                let message = "the result is too large for another replica".to_owned();
                let error: Served = Err(RequestError::Internal(message));
                encoded = serde_json::to_vec(&error).unwrap_or_default();
            }
            let stored = others.link.state().put(&key(&ticket), encoded, RESULT_TTL).await;
            let told = match stored {
                Ok(()) => {
                    let to = Recipient::Replica(&asked);
                    others.link.send(to, RESUMED, ticket.into_bytes()).await
                }
                Err(error) => Err(error),
            };
            if let Err(error) = told {
                tracing::warn!("the result of a call does not reach its client: {error}");
            }
        });
    }
}

/// A client that is connected to another replica: it does not see notifications.
#[derive(Debug)]
struct DistantClient {
    capabilities: Raw,
}

impl ClientHandle for DistantClient {
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

fn key(ticket: &str) -> String {
    format!("resumed:{ticket}")
}

fn unavailable(error: &StoreError) -> RequestError {
    RequestError::Internal(format!("{error}; try again"))
}
