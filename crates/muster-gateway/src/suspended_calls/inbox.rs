//! The client of a call that may be suspended.

use std::{collections::VecDeque, sync::Arc};

use muster_core::{
    backend::BoxFuture,
    client::{CallCounter, ClientHandle, InputError, InputMode, InputRequest, Notification},
    json::{Raw, RawObject},
    lock::Lock,
    protocol_request::ProtocolRequest,
};
use tokio::sync::{Notify, oneshot};

use super::EXPIRY;

/// A client that collects what a call requests from it. Notifications go to the client whose request
/// is open at the moment; while none is, they are dropped.
#[derive(Debug)]
pub(super) struct Inbox {
    state: Lock<State>,
    arrived: Notify,
    /// The call limits of the first request, which also apply while no request is open.
    counter: Option<Arc<dyn CallCounter>>,
}

#[derive(Debug)]
struct State {
    requests: VecDeque<PendingInput>,
    missing: Option<String>,
    client: OpenRequest,
}

#[derive(Debug)]
enum OpenRequest {
    /// The client whose request is open.
    Attached(Arc<dyn ClientHandle>),
    /// No request is open: the capabilities that the last client declared.
    Detached { capabilities: Raw },
}

/// A request for input, and where its answer goes.
#[derive(Debug)]
pub(super) struct PendingInput {
    pub(super) request: InputRequest,
    answer: oneshot::Sender<Raw>,
}

/// An event of a suspended call, for its client.
#[derive(Debug)]
pub(super) enum Event {
    Requested(PendingInput),
    MissingCapability(String),
}

impl PendingInput {
    pub(super) fn answer(self, response: Raw) {
        // A call that has ended meanwhile needs no answer.
        drop(self.answer.send(response));
    }
}

impl Inbox {
    pub(super) fn new(client: Arc<dyn ClientHandle>) -> Self {
        let counter = client.call_counter();
        let client = OpenRequest::Attached(client);
        let state = State { requests: VecDeque::new(), missing: None, client };
        Self { state: Lock::new(state), arrived: Notify::new(), counter }
    }

    /// Sends notifications to `client` from now on.
    pub(super) fn attach(&self, client: Arc<dyn ClientHandle>) {
        self.state.lock().client = OpenRequest::Attached(client);
    }

    /// Lets go of the client whose request is about to be answered.
    pub(super) fn detach(&self) {
        let capabilities = self.capabilities();
        self.state.lock().client = OpenRequest::Detached { capabilities };
    }

    /// Waits for the next event. Requests come before missing capabilities. Cancel safe.
    pub(super) async fn next(&self) -> Event {
        self.wait(|state| {
            let requested = state.requests.pop_front().map(Event::Requested);
            requested.or_else(|| state.missing.take().map(Event::MissingCapability))
        })
        .await
    }

    /// Waits for the next request for input. Cancel safe.
    pub(super) async fn next_request(&self) -> PendingInput {
        self.wait(|state| state.requests.pop_front()).await
    }

    async fn wait<T>(&self, mut take: impl FnMut(&mut State) -> Option<T>) -> T {
        loop {
            if let Some(found) = take(&mut self.state.lock()) {
                return found;
            }
            self.arrived.notified().await;
        }
    }

    fn attached(&self) -> Option<Arc<dyn ClientHandle>> {
        match &self.state.lock().client {
            OpenRequest::Attached(client) => Some(Arc::clone(client)),
            OpenRequest::Detached { .. } => None,
        }
    }
}

impl ClientHandle for Inbox {
    fn capabilities(&self) -> Raw {
        if let Some(client) = self.attached() {
            return client.capabilities();
        }
        match &self.state.lock().client {
            OpenRequest::Detached { capabilities } => capabilities.clone(),
            OpenRequest::Attached(_) => RawObject::new().to_raw(),
        }
    }

    fn input_mode(&self) -> InputMode {
        InputMode::Direct
    }

    fn protocol_request(&self) -> Option<ProtocolRequest> {
        self.attached()?.protocol_request()
    }

    fn notify(&self, notification: Notification) {
        if let Some(client) = self.attached() {
            client.notify(notification);
        }
    }

    fn call_counter(&self) -> Option<Arc<dyn CallCounter>> {
        self.counter.clone()
    }

    fn missing_capability(&self, capability: &str) {
        // One is enough to end the request.
        self.state.lock().missing.get_or_insert_with(|| capability.to_owned());
        self.arrived.notify_one();
    }

    fn request_input(&self, request: InputRequest) -> BoxFuture<'_, Result<Raw, InputError>> {
        Box::pin(async move {
            let (answer, answered) = oneshot::channel();
            self.state.lock().requests.push_back(PendingInput { request, answer });
            self.arrived.notify_one();
            match tokio::time::timeout(EXPIRY, answered).await {
                Ok(Ok(answer)) => Ok(answer),
                Ok(Err(_)) | Err(_) => Err(InputError::Disconnected),
            }
        })
    }
}
