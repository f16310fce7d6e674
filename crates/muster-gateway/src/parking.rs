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
const PATIENCE: Duration = Duration::from_secs(600);
/// Questions that are asked at once arrive one by one; this long the next is waited for.
const TOGETHER: Duration = Duration::from_millis(30);
/// Calls that wait at one time. Beyond it the one that waits longest is given up.
const MOST_PARKED: usize = 1_000;
const HANDLE: &str = "muster-parked-";

/// The calls that wait.
#[derive(Debug, Default)]
pub(crate) struct Parking {
    tasks: TaskTracker,
    #[expect(clippy::disallowed_types, reason = "held for a map operation, never across an await")]
    parked: std::sync::Mutex<BTreeMap<String, Parked>>,
}

#[derive(Debug)]
struct Parked {
    subject: Arc<str>,
    since: Instant,
    conversation: Conversation,
}

/// A call under way, seen from the request that waits for it.
#[derive(Debug)]
struct Conversation {
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

impl Parking {
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
        let away = Away {
            capabilities: client.capabilities(),
            asked,
            lacking,
            listener: Arc::clone(&listener),
        };
        let work = perform(Arc::new(away));
        let task = self.tasks.spawn(async move {
            // Nobody waits for the result of a call that was given up.
            drop(finished.send(work.await));
        });
        let task = EndOnDrop(task.abort_handle());
        let pending = Vec::new();
        let conversation =
            Conversation { questions, pending, result, missing, listener, _task: task };
        self.follow(caller, client, conversation).await
    }

    /// Goes on with a call whose client came again.
    pub(crate) async fn resume(
        &self,
        caller: &Caller,
        client: &Arc<dyn ClientHandle>,
        continuation: &Continuation,
    ) -> Result<Response, RequestError> {
        let handle = handle(continuation).unwrap_or_default();
        let Some(mut conversation) = self.take(&handle, caller) else {
            let message = "unknown or expired `requestState`; call again without it";
            return Err(RequestError::InvalidParams(message.to_owned()));
        };
        let answers =
            continuation.responses.as_deref().and_then(RawObject::parse).unwrap_or_default();
        let mut unanswered = Vec::new();
        for (key, pending) in conversation.pending {
            match answers.get(&key).filter(|answer| RawObject::parse(answer).is_some()) {
                // A call that has ended meanwhile needs no answer.
                Some(answer) => drop(pending.answer.send(Ok(answer.to_owned()))),
                None => unanswered.push((key, pending)),
            }
        }
        conversation.pending = unanswered;
        if conversation.pending.is_empty() {
            return self.follow(caller, client, conversation).await;
        }
        self.park(caller, conversation)
    }

    /// Waits for the result or for questions.
    async fn follow(
        &self,
        caller: &Caller,
        client: &Arc<dyn ClientHandle>,
        mut conversation: Conversation,
    ) -> Result<Response, RequestError> {
        set(&conversation.listener, Some(Arc::clone(client)));
        let first = tokio::select! {
            biased;
            Some(first) = conversation.questions.recv() => first,
            Some(capability) = conversation.missing.recv() => {
                // A backend that can also ask something else may do with that.
                let other = tokio::time::timeout(TOGETHER, conversation.questions.recv()).await;
                let missing = RequestError::MissingCapability { capability };
                other.ok().flatten().ok_or(missing)?
            }
            result = &mut conversation.result => {
                return result.unwrap_or_else(|_| {
                    Err(RequestError::Internal("the call ended without a result".to_owned()))
                });
            }
        };
        let mut together = vec![first];
        while let Ok(Some(next)) =
            tokio::time::timeout(TOGETHER, conversation.questions.recv()).await
        {
            together.push(next);
        }
        for pending in together {
            let key = key(&pending.question.method, &conversation.pending);
            conversation.pending.push((key, pending));
        }
        set(&conversation.listener, None);
        self.park(caller, conversation)
    }

    fn park(&self, caller: &Caller, conversation: Conversation) -> Result<Response, RequestError> {
        let Some(name) = unguessable() else {
            return Err(RequestError::Internal("there is no source of randomness".to_owned()));
        };
        let handle = format!("{HANDLE}{name}");
        let questions = conversation
            .pending
            .iter()
            .map(|(key, pending)| (key.clone(), pending.question.clone()))
            .collect();
        let (subject, since) = (Arc::clone(&caller.subject), Instant::now());
        if let Ok(mut parked) = self.parked.lock() {
            parked.retain(|_, parked| parked.since.elapsed() < PATIENCE);
            if parked.len() >= MOST_PARKED {
                let oldest = parked.iter().min_by_key(|(_, parked)| parked.since);
                if let Some(oldest) = oldest.map(|(handle, _)| handle.clone()) {
                    parked.remove(&oldest);
                }
            }
            parked.insert(handle.clone(), Parked { subject, since, conversation });
        }
        Ok(Response::InputRequired(InputRequired {
            requests: questions,
            state: Some(raw(&handle)),
            result: None,
        }))
    }

    fn take(&self, handle: &str, caller: &Caller) -> Option<Conversation> {
        let mut parked = self.parked.lock().ok()?;
        parked.get(handle).filter(|parked| parked.subject == caller.subject)?;
        parked.remove(handle).map(|parked| parked.conversation)
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
/// none, and the call is not parked.
fn unguessable() -> Option<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).ok()?;
    Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// A client that will come again: it is asked by parking the call.
#[derive(Debug)]
struct Away {
    capabilities: Raw,
    asked: mpsc::Sender<Pending>,
    lacking: mpsc::Sender<String>,
    listener: Listener,
}

impl ClientHandle for Away {
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
            match tokio::time::timeout(PATIENCE, answered).await {
                Ok(Ok(answer)) => answer,
                Ok(Err(_)) | Err(_) => Err(InputError::Disconnected),
            }
        })
    }
}
