//! Calls that wait for a client to come again with answers.
//!
//! A legacy backend asks in the middle of a call. A modern client is asked by reply: its request is
//! answered with the questions and a handle, and it repeats the request with the answers and the
//! handle. In between the call goes on waiting here. A handle is good for one repetition, by the same
//! caller, for a limited time; a call whose client never comes again ends.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use muster_core::{
    backend::BoxFuture,
    call::Caller,
    client::{
        ClientHandle, Continuation, InputError, InputMode, InputRequest, InputRequired,
        Notification,
    },
    json::{Raw, RawObject, raw},
    request::{RequestError, Response},
};
use tokio::{
    sync::{mpsc, oneshot},
    task::AbortHandle,
};
use tokio_util::task::TaskTracker;

/// How long a call waits for its client to come again.
const RESUME_TIMEOUT: Duration = Duration::from_secs(600);
/// Questions that are asked at once arrive one by one; this long the next is waited for.
const BATCH_WINDOW: Duration = Duration::from_millis(30);
/// Calls that wait at one time. Beyond it the one that waits longest is given up.
const MAX_SUSPENDED: usize = 1_000;
const HANDLE: &str = "muster-parked-";

/// The calls that wait.
#[derive(Debug, Default)]
pub(crate) struct SuspendedCalls {
    tasks: TaskTracker,
    #[expect(clippy::disallowed_types, reason = "held for a map operation, never across an await")]
    suspended: std::sync::Mutex<BTreeMap<String, SuspendedCall>>,
}

#[derive(Debug)]
struct SuspendedCall {
    subject: Arc<str>,
    since: Instant,
    call: CallInProgress,
}

/// A call under way, seen from the request that waits for it.
#[derive(Debug)]
struct CallInProgress {
    questions: mpsc::Receiver<Pending>,
    /// Asked and not yet answered.
    pending: Vec<(String, Pending)>,
    result: oneshot::Receiver<Result<Response, RequestError>>,
    /// What the client would have had to declare.
    missing: mpsc::Receiver<String>,
    /// The client to be told things: the one whose request is open, if one is.
    listener: Listener,
    _task: EndOnDrop,
}

#[derive(Debug)]
struct Pending {
    question: InputRequest,
    answer: oneshot::Sender<Result<Raw, InputError>>,
}

#[derive(Debug)]
struct EndOnDrop(AbortHandle);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[expect(clippy::disallowed_types, reason = "held to copy a pointer, never across an await")]
type Listener = Arc<std::sync::Mutex<Option<Arc<dyn ClientHandle>>>>;

/// Whether a continuation carries a handle of ours.
pub(crate) fn is_ours(continuation: &Continuation) -> bool {
    handle(continuation).is_some_and(|handle| handle.starts_with(HANDLE))
}

fn handle(continuation: &Continuation) -> Option<String> {
    continuation.state.as_ref().and_then(|state| serde_json::from_str(state.get()).ok())
}

impl SuspendedCalls {
    /// Begins a call; `perform` is given the client that may be asked.
    pub(crate) async fn begin(
        &self,
        caller: &Caller,
        client: &Arc<dyn ClientHandle>,
        perform: impl FnOnce(
            Arc<dyn ClientHandle>,
        ) -> BoxFuture<'static, Result<Response, RequestError>>,
    ) -> Result<Response, RequestError> {
        let (asked, questions) = mpsc::channel(8);
        let (finished, result) = oneshot::channel();
        let (lacking, missing) = mpsc::channel(1);
        let listener: Listener = Arc::default();
        let proxy = SuspendingClient {
            capabilities: client.capabilities(),
            asked,
            lacking,
            listener: Arc::clone(&listener),
        };
        let work = perform(Arc::new(proxy));
        let task = self.tasks.spawn(async move {
            // Nobody waits for the result of a call that was given up.
            drop(finished.send(work.await));
        });
        let task = EndOnDrop(task.abort_handle());
        let pending = Vec::new();
        let call = CallInProgress { questions, pending, result, missing, listener, _task: task };
        self.follow(caller, client, call).await
    }

    /// Goes on with a call whose client came again.
    pub(crate) async fn resume(
        &self,
        caller: &Caller,
        client: &Arc<dyn ClientHandle>,
        continuation: &Continuation,
    ) -> Result<Response, RequestError> {
        let handle = handle(continuation).unwrap_or_default();
        let Some(mut call) = self.take(&handle, caller) else {
            let message = "unknown or expired `requestState`; call again without it";
            return Err(RequestError::InvalidParams(message.to_owned()));
        };
        let answers =
            continuation.responses.as_deref().and_then(RawObject::parse).unwrap_or_default();
        let mut unanswered = Vec::new();
        for (key, pending) in call.pending {
            match answers.get(&key).filter(|answer| RawObject::parse(answer).is_some()) {
                // A call that has ended meanwhile needs no answer.
                Some(answer) => drop(pending.answer.send(Ok(answer.to_owned()))),
                None => unanswered.push((key, pending)),
            }
        }
        call.pending = unanswered;
        if call.pending.is_empty() {
            return self.follow(caller, client, call).await;
        }
        self.suspend(caller, call)
    }

    /// Waits for the result or for questions.
    async fn follow(
        &self,
        caller: &Caller,
        client: &Arc<dyn ClientHandle>,
        mut call: CallInProgress,
    ) -> Result<Response, RequestError> {
        set(&call.listener, Some(Arc::clone(client)));
        let first = tokio::select! {
            biased;
            Some(first) = call.questions.recv() => first,
            Some(capability) = call.missing.recv() => {
                // A backend that can also ask something else may do with that.
                let other = tokio::time::timeout(BATCH_WINDOW, call.questions.recv()).await;
                let missing = RequestError::MissingCapability { capability };
                other.ok().flatten().ok_or(missing)?
            }
            result = &mut call.result => {
                return result.unwrap_or_else(|_| {
                    Err(RequestError::Internal("the call ended without a result".to_owned()))
                });
            }
        };
        let mut together = vec![first];
        while let Ok(Some(next)) = tokio::time::timeout(BATCH_WINDOW, call.questions.recv()).await {
            together.push(next);
        }
        for pending in together {
            let key = key(&pending.question.method, &call.pending);
            call.pending.push((key, pending));
        }
        set(&call.listener, None);
        self.suspend(caller, call)
    }

    fn suspend(&self, caller: &Caller, call: CallInProgress) -> Result<Response, RequestError> {
        let Some(name) = random_handle() else {
            return Err(RequestError::Internal("there is no source of randomness".to_owned()));
        };
        let handle = format!("{HANDLE}{name}");
        let questions = call
            .pending
            .iter()
            .map(|(key, pending)| (key.clone(), pending.question.clone()))
            .collect();
        let (subject, since) = (Arc::clone(&caller.subject), Instant::now());
        if let Ok(mut suspended) = self.suspended.lock() {
            suspended.retain(|_, suspended| suspended.since.elapsed() < RESUME_TIMEOUT);
            if suspended.len() >= MAX_SUSPENDED {
                let oldest = suspended.iter().min_by_key(|(_, suspended)| suspended.since);
                if let Some(oldest) = oldest.map(|(handle, _)| handle.clone()) {
                    suspended.remove(&oldest);
                }
            }
            suspended.insert(handle.clone(), SuspendedCall { subject, since, call });
        }
        Ok(Response::InputRequired(InputRequired {
            requests: questions,
            state: Some(raw(&handle)),
            result: None,
        }))
    }

    fn take(&self, handle: &str, caller: &Caller) -> Option<CallInProgress> {
        let mut suspended = self.suspended.lock().ok()?;
        suspended.get(handle).filter(|suspended| suspended.subject == caller.subject)?;
        suspended.remove(handle).map(|suspended| suspended.call)
    }
}

fn set(listener: &Listener, client: Option<Arc<dyn ClientHandle>>) {
    if let Ok(mut listener) = listener.lock() {
        *listener = client;
    }
}

/// A key for a question: what it is about, numbered where that is not enough.
fn key(method: &str, taken: &[(String, Pending)]) -> String {
    let about = method.split('/').next().unwrap_or(method);
    let number = taken.iter().filter(|(key, _)| key.starts_with(about)).count();
    if number == 0 { about.to_owned() } else { format!("{about}_{}", number + 1) }
}

/// A name that cannot be guessed: who has it was given it. Without a source of randomness there is
/// none, and the call is not suspended.
fn random_handle() -> Option<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).ok()?;
    Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// A client that will come again: it is asked by parking the call.
#[derive(Debug)]
struct SuspendingClient {
    capabilities: Raw,
    asked: mpsc::Sender<Pending>,
    lacking: mpsc::Sender<String>,
    listener: Listener,
}

impl ClientHandle for SuspendingClient {
    fn capabilities(&self) -> Raw {
        self.capabilities.clone()
    }

    fn input_mode(&self) -> InputMode {
        InputMode::Direct
    }

    fn notify(&self, notice: Notification) {
        let listener = self.listener.lock().ok().and_then(|listener| listener.clone());
        if let Some(client) = listener {
            client.notify(notice);
        }
    }

    fn missing_capability(&self, capability: &str) {
        // One is enough to end the request.
        drop(self.lacking.try_send(capability.to_owned()));
    }

    fn request_input(&self, question: InputRequest) -> BoxFuture<'_, Result<Raw, InputError>> {
        Box::pin(async move {
            let (answer, answered) = oneshot::channel();
            let asked = self.asked.send(Pending { question, answer }).await;
            asked.map_err(|_| InputError::Disconnected)?;
            match tokio::time::timeout(RESUME_TIMEOUT, answered).await {
                Ok(Ok(answer)) => answer,
                Ok(Err(_)) | Err(_) => Err(InputError::Disconnected),
            }
        })
    }
}
