//! Calls that are suspended until their client repeats the request with the input they need.
//!
//! A legacy backend requests input in the middle of a call. A modern client receives such requests as
//! the result of its own request, together with a handle, and repeats the request with its answers and
//! that handle. In between the call is suspended here. A handle is valid once, for the same caller, and
//! expires; a call whose client never returns is cancelled.
//!
//! Most calls request nothing. They are polled inline, without a task or a channel; only a call that does
//! request input is moved into its own task.

mod inbox;
mod other_replicas;

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use muster_core::{
    backend::{BoxFuture, boxed},
    call::Caller,
    client::{ClientHandle, Continuation, InputRequired},
    json::{RawObject, raw},
    lock::Lock,
    request::{RequestError, Response},
    shared::{ReplicaLink, is_replica_id},
};
use tokio::{sync::oneshot, task::AbortHandle};
use tokio_util::task::TaskTracker;

use self::{
    inbox::{Event, Inbox, PendingInput},
    other_replicas::OtherReplicas,
};
use crate::replica_work::unguessable;

/// How long a call stays suspended before it expires.
const EXPIRY: Duration = Duration::from_secs(600);
/// Requests made at the same time arrive one by one; they are collected for this long.
const BATCH_WINDOW: Duration = Duration::from_millis(30);
/// How many calls may be suspended. Beyond it the oldest is cancelled.
const MAX_SUSPENDED: usize = 1_000;
const HANDLE_PREFIX: &str = "muster-suspended-";

/// The result of serving a request.
type Served = Result<Response, RequestError>;

/// The calls that are suspended, by handle.
#[derive(Debug, Default)]
pub(crate) struct SuspendedCalls {
    tasks: TaskTracker,
    /// Calls that are suspended at other replicas.
    others: Option<OtherReplicas>,
    calls: Lock<BTreeMap<String, SuspendedCall>>,
}

#[derive(Debug)]
struct SuspendedCall {
    subject: Arc<str>,
    since: Instant,
    call: RunningCall,
}

/// A call that has requested input, running in its own task.
#[derive(Debug)]
struct RunningCall {
    inbox: Arc<Inbox>,
    /// Input that was requested and not yet given, by key.
    pending: Vec<(String, PendingInput)>,
    result: oneshot::Receiver<Served>,
    _task: AbortOnDrop,
}

#[derive(Debug)]
struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Whether a continuation carries a handle of a suspended call.
pub(crate) fn is_suspended(continuation: &Continuation) -> bool {
    handle(continuation).is_some_and(|handle| handle.starts_with(HANDLE_PREFIX))
}

fn handle(continuation: &Continuation) -> Option<String> {
    continuation.state.as_ref().and_then(|state| serde_json::from_str(state.get()).ok())
}

impl SuspendedCalls {
    /// The calls of this replica, which clients may resume at another.
    pub(crate) fn of_replica(link: Arc<dyn ReplicaLink>) -> Arc<Self> {
        Arc::new_cyclic(|calls| {
            let tasks = TaskTracker::new();
            let others = Some(OtherReplicas::connect(link, tasks.clone(), calls));
            Self { others, tasks, calls: Lock::default() }
        })
    }

    /// Runs a call; `perform` receives the client from which the call may request input.
    pub(crate) async fn begin(
        &self,
        caller: &Caller,
        client: &Arc<dyn ClientHandle>,
        perform: impl FnOnce(Arc<dyn ClientHandle>) -> BoxFuture<'static, Served>,
    ) -> Served {
        let inbox = Arc::new(Inbox::new(Arc::clone(client)));
        let mut work = perform(Arc::clone(&inbox) as Arc<dyn ClientHandle>);
        let event = tokio::select! {
            // The call first: nothing can be in the inbox before it has run.
            biased;
            served = &mut work => return served,
            event = inbox.next() => event,
        };
        let call = self.spawn(inbox, work);
        // Boxed: few calls request input, and the others need not reserve the memory for it.
        Box::pin(self.collect(caller, call, event)).await
    }

    /// Moves a call into a task, so that it continues while no request is open for it.
    fn spawn(&self, inbox: Arc<Inbox>, work: BoxFuture<'static, Served>) -> RunningCall {
        let (finished, result) = oneshot::channel();
        let task = self.tasks.spawn(boxed(async move {
            // The receiver is gone when the call was cancelled.
            drop(finished.send(work.await));
        }));
        let _task = AbortOnDrop(task.abort_handle());
        RunningCall { inbox, pending: Vec::new(), result, _task }
    }

    /// Continues a suspended call with the input that its client sent.
    pub(crate) async fn resume(
        &self,
        caller: &Caller,
        client: &Arc<dyn ClientHandle>,
        continuation: &Continuation,
    ) -> Served {
        let handle = handle(continuation).unwrap_or_default();
        if let Some(others) = &self.others
            && let Some(replica) = replica_of(&handle).filter(|replica| *replica != others.own_id())
        {
            return others.resume(replica, &handle, caller, client, continuation).await;
        }
        self.resume_here(&handle, caller, client, continuation).await
    }

    async fn resume_here(
        &self,
        handle: &str,
        caller: &Caller,
        client: &Arc<dyn ClientHandle>,
        continuation: &Continuation,
    ) -> Served {
        let Some(mut call) = self.take(handle, caller) else { return Err(unknown_handle()) };
        let responses =
            continuation.responses.as_deref().and_then(RawObject::parse).unwrap_or_default();
        let mut unanswered = Vec::new();
        for (key, pending) in call.pending {
            match responses.get(&key).filter(|response| RawObject::parse(response).is_some()) {
                Some(response) => pending.answer(response.to_owned()),
                None => unanswered.push((key, pending)),
            }
        }
        call.pending = unanswered;
        if !call.pending.is_empty() {
            return self.suspend(caller, call);
        }
        call.inbox.attach(Arc::clone(client));
        let event = tokio::select! {
            biased;
            event = call.inbox.next() => event,
            served = &mut call.result => return served.unwrap_or_else(|_| Err(crashed())),
        };
        self.collect(caller, call, event).await
    }

    /// Collects the requests that belong to `event` and suspends the call.
    async fn collect(&self, caller: &Caller, mut call: RunningCall, event: Event) -> Served {
        let first = match event {
            Event::Requested(first) => first,
            // A backend that lacks one capability may still request input by another.
            Event::MissingCapability(capability) => {
                match tokio::time::timeout(BATCH_WINDOW, call.inbox.next_request()).await {
                    Ok(first) => first,
                    Err(_) => return Err(RequestError::MissingCapability { capability }),
                }
            }
        };
        let mut batch = vec![first];
        while let Ok(next) = tokio::time::timeout(BATCH_WINDOW, call.inbox.next_request()).await {
            batch.push(next);
        }
        for pending in batch {
            let key = key(&pending.request.method, &call.pending);
            call.pending.push((key, pending));
        }
        call.inbox.detach();
        self.suspend(caller, call)
    }

    fn suspend(&self, caller: &Caller, call: RunningCall) -> Served {
        // Only the client that receives the name can resume the call.
        let Some(name) = unguessable() else {
            return Err(RequestError::Internal("there is no source of randomness".to_owned()));
        };
        let handle = match &self.others {
            None => format!("{HANDLE_PREFIX}{name}"),
            Some(others) => format!("{HANDLE_PREFIX}{}.{name}", others.own_id()),
        };
        let pending = call.pending.iter();
        let requests = pending.map(|(key, input)| (key.clone(), input.request.clone())).collect();
        let (subject, since) = (Arc::clone(&caller.subject), Instant::now());
        let mut calls = self.calls.lock();
        calls.retain(|_, call| call.since.elapsed() < EXPIRY);
        if calls.len() >= MAX_SUSPENDED {
            let oldest = calls.iter().min_by_key(|(_, call)| call.since);
            if let Some(oldest) = oldest.map(|(handle, _)| handle.clone()) {
                calls.remove(&oldest);
            }
        }
        calls.insert(handle.clone(), SuspendedCall { subject, since, call });
        drop(calls);
        let state = Some(raw(&handle));
        Ok(Response::InputRequired(InputRequired { requests, state, result: None }))
    }

    fn take(&self, handle: &str, caller: &Caller) -> Option<RunningCall> {
        let mut calls = self.calls.lock();
        calls.get(handle).filter(|call| call.subject == caller.subject)?;
        calls.remove(handle).map(|suspended| suspended.call)
    }
}

fn unknown_handle() -> RequestError {
    let message = "unknown or expired `requestState`; call again without it";
    RequestError::InvalidParams(message.to_owned())
}

/// The replica of a suspended call.
fn replica_of(handle: &str) -> Option<&str> {
    let (replica, _) = handle.strip_prefix(HANDLE_PREFIX)?.split_once('.')?;
    is_replica_id(replica).then_some(replica)
}

fn crashed() -> RequestError {
    RequestError::Internal("the call ended without a result".to_owned())
}

/// The key of a request for input: the subject of its method, numbered where that is not unique.
fn key(method: &str, taken: &[(String, PendingInput)]) -> String {
    let about = method.split('/').next().unwrap_or(method);
    let number = taken.iter().filter(|(key, _)| key.starts_with(about)).count();
    if number == 0 { about.to_owned() } else { format!("{about}_{}", number + 1) }
}

#[cfg(test)]
mod tests;
