//! Routes the messages of an upstream to the requests and clients they belong to.
//!
//! A message on the stream of a request belongs to that request. On a pipe, nothing says which request a message
//! belongs to: it is attributed to the only pending request, or to the only caller with pending requests, and otherwise
//! to none. An input request must never reach the wrong user.

use std::{borrow::Cow, sync::Arc};

use muster_core::{
    backend::{BoxFuture, boxed},
    client::{ClientHandle, InputError, InputRequest, Notification},
    connect::{ConnectionEvent, ConnectionObserver},
    json::{Raw, RawObject},
};
use muster_mcp::{
    version::SUBSCRIPTION_KEY,
    wire::{Message, RpcError, code},
};
use serde_json::value::RawValue;
use tokio_util::task::TaskTracker;
use tracing::{debug, warn};

use crate::{
    error::{MAX_IN_MEMORY, TransportError, too_large},
    message::{self, RpcOutcome, request_number},
    peer::has_capability,
    pending::{Attribution, PendingRequest, PendingRequests, RequestOutcome, Requester},
    spool::{Payload, Spool, SpoolError, SpoolFile},
    spooled_result::{ResultBody, SpooledMessage},
};

/// How many characters of a text that is not a message are logged.
const LOGGED: usize = 200;

/// Sends messages that have no response: responses to the upstream, and cancellations.
pub(crate) trait MessageSink: Send + Sync {
    /// Sends one message.
    fn send(&self, message: Vec<u8>) -> BoxFuture<'_, Result<(), TransportError>>;
}

muster_core::opaque_debug!(MessageSink);

/// Routes the messages of one upstream.
#[derive(Debug)]
pub(crate) struct MessageRouter {
    /// The name of the upstream, for logs.
    pub(crate) name: Arc<str>,
    pub(crate) pending: PendingRequests,
    pub(crate) tasks: TaskTracker,
    pub(crate) events: Arc<dyn ConnectionObserver>,
    /// The disk space for long messages.
    pub(crate) spool: Arc<Spool>,
}

impl MessageRouter {
    pub(crate) fn new(
        name: &str,
        tasks: TaskTracker,
        spool: Arc<Spool>,
        events: Arc<dyn ConnectionObserver>,
    ) -> Arc<Self> {
        let pending = PendingRequests::default();
        Arc::new(Self { name: name.into(), pending, tasks, events, spool })
    }

    /// Routes a message or a batch. `stream_request` is the request on whose stream it arrived: the response to it
    /// is returned, any other is delivered to its waiting request.
    pub(crate) fn route(
        self: &Arc<Self>,
        text: &str,
        stream_request: Option<u64>,
        sink: &Arc<dyn MessageSink>,
    ) -> Option<RequestOutcome> {
        if !message::is_batch(text) {
            return self.route_one(text, stream_request, sink);
        }
        let mut found = None;
        for text in message::batch(text) {
            found = self.route_one(text, stream_request, sink).or(found);
        }
        found
    }

    /// Routes a message, as [`Self::route`] does.
    pub(crate) async fn route_payload(
        self: &Arc<Self>,
        payload: Payload,
        stream_request: Option<u64>,
        sink: &Arc<dyn MessageSink>,
    ) -> Option<RequestOutcome> {
        match payload {
            Payload::Memory(bytes) => match std::str::from_utf8(&bytes) {
                Ok(text) => self.route(text, stream_request, sink),
                Err(_) => self.route(&String::from_utf8_lossy(&bytes), stream_request, sink),
            },
            Payload::Spooled(file) => {
                Box::pin(self.route_spooled(file, stream_request, sink)).await
            }
        }
    }

    /// Routes a spooled message, as [`Self::route`] does. A result stays on disk.
    async fn route_spooled(
        self: &Arc<Self>,
        file: SpoolFile,
        stream_request: Option<u64>,
        sink: &Arc<dyn MessageSink>,
    ) -> Option<RequestOutcome> {
        let read = tokio::task::spawn_blocking(|| SpooledMessage::read(file)).await;
        match read.unwrap_or_else(|error| Err(error.into())) {
            Ok(SpooledMessage::Result { id, result }) => {
                self.complete(id, Ok(ResultBody::Spooled(result)), stream_request)
            }
            Ok(SpooledMessage::Other(text)) => self.route(&text, stream_request, sink),
            Ok(SpooledMessage::TooLarge(id)) => {
                let error = RpcError::new(code::INTERNAL_ERROR, too_large(MAX_IN_MEMORY as u64));
                self.complete(id, Err(error), stream_request)
            }
            Err(error) => {
                warn!(server = &*self.name, "cannot read a spooled message: {error}");
                None
            }
        }
    }

    /// Fails the request that a dropped message responds to.
    pub(crate) fn reject_dropped(&self, id: Option<u64>, reason: &SpoolError) {
        let error = RpcError::new(code::INTERNAL_ERROR, reason.to_string());
        if !id.is_some_and(|id| self.pending.complete(id, Err(error))) {
            warn!(server = &*self.name, "a message was dropped: {reason}");
        }
    }

    /// Delivers a response to its waiting request, or returns it if that is `stream_request`.
    fn complete(
        &self,
        id: Option<u64>,
        outcome: RequestOutcome,
        stream_request: Option<u64>,
    ) -> Option<RequestOutcome> {
        match (id, &outcome) {
            (Some(_), _) if id == stream_request => return Some(outcome),
            (Some(id), _) => {
                if !self.pending.complete(id, outcome) {
                    debug!(server = &*self.name, "a response to no pending request");
                }
            }
            (None, Err(error)) => {
                debug!(server = &*self.name, "it could not read a message: {}", error.message);
            }
            (None, Ok(_)) => (),
        }
        None
    }

    fn route_one(
        self: &Arc<Self>,
        text: &str,
        stream_request: Option<u64>,
        sink: &Arc<dyn MessageSink>,
    ) -> Option<RequestOutcome> {
        match Message::parse_lenient(text) {
            Some(Message::Response { id, outcome }) => {
                let outcome = outcome.map(|result| ResultBody::Inline(result.to_owned()));
                return self.complete(
                    request_number(id),
                    outcome.map_err(RpcError::parse),
                    stream_request,
                );
            }
            Some(Message::Notification { method, params }) => {
                self.notified(&method, params, stream_request);
            }
            Some(Message::Request { id, method, params }) => {
                self.requested(id, &method, params, stream_request, sink);
            }
            None => {
                let excerpt: String = text.chars().take(LOGGED).collect();
                debug!(server = &*self.name, "not a message: {excerpt}");
            }
        }
        None
    }

    fn notified(&self, method: &str, params: Option<&RawValue>, stream_request: Option<u64>) {
        let empty = RawObject::new().to_raw();
        let raw_params = params.unwrap_or(&empty);
        let params = RawObject::parse(raw_params).unwrap_or_default();
        let meta = params.get("_meta").and_then(RawObject::parse).unwrap_or_default();
        let subscription = meta.get(SUBSCRIPTION_KEY).and_then(request_number);
        if subscription.is_some_and(|id| !self.pending.contains(id)) {
            return debug!(server = &*self.name, "`{method}` is for a subscription that has ended");
        }
        self.events.on_message(method, raw_params);
        match method {
            "notifications/progress" => self.report_progress(&params),
            "notifications/tools/list_changed"
            | "notifications/resources/list_changed"
            | "notifications/prompts/list_changed" => {
                self.events.on_event(ConnectionEvent::ListChanged);
            }
            "notifications/resources/updated" => {
                if let Some(uri) = params.get_text("uri") {
                    self.events.on_event(ConnectionEvent::ResourceUpdated { uri });
                }
            }
            "notifications/subscriptions/acknowledged" => {
                if let Some(id) = subscription.or(stream_request) {
                    self.pending.acknowledge(id, raw_params.to_owned());
                }
            }
            "notifications/cancelled" => {
                if let Some(id) = params.get("requestId") {
                    self.pending.cancel_input_request(id.get());
                }
            }
            _ => self.forward_notification(method, raw_params, stream_request),
        }
    }

    /// Forwards progress with the client's own token.
    fn report_progress(&self, params: &RawObject<'_>) {
        let id = params.get("progressToken").and_then(request_number);
        let Some(requester) = id.and_then(|id| self.pending.requester(id)) else { return };
        let Some(token) = requester.progress_token.as_deref() else { return };
        let mut params = params.clone();
        params.set("progressToken", Cow::Borrowed(token));
        let method = "notifications/progress".to_owned();
        requester.client.notify(Notification { method, params: params.to_raw() });
    }

    /// Forwards a notification to the client of the request it arrived with, else to the only client.
    fn forward_notification(&self, method: &str, params: &RawValue, stream_request: Option<u64>) {
        let requester = stream_request.and_then(|id| self.pending.requester(id));
        let requester = requester.or_else(|| self.pending.sole_requester());
        let (method, params) = (method.to_owned(), params.to_owned());
        match requester {
            Some(requester) => requester.client.notify(Notification { method, params }),
            None if method == "notifications/message" => {
                self.events.on_event(ConnectionEvent::Log { params });
            }
            None => debug!(server = &*self.name, "`{method}` has no recipient"),
        }
    }

    fn requested(
        self: &Arc<Self>,
        id: &RawValue,
        method: &str,
        params: Option<&RawValue>,
        stream_request: Option<u64>,
        sink: &Arc<dyn MessageSink>,
    ) {
        let (request, requester) = match self.respondent(method, params, stream_request) {
            Ok(found) => found,
            Err(outcome) => return self.respond(message::response(id, &outcome), sink),
        };
        let params = params.map_or_else(|| RawObject::new().to_raw(), ToOwned::to_owned);
        let question = InputRequest { method: method.to_owned(), params };
        let (id, sink, name) = (id.to_owned(), Arc::clone(sink), Arc::clone(&self.name));
        let key = id.get().to_owned();
        let task = self.tasks.spawn(boxed(async move {
            let outcome = requester.client.request_input(question).await.map_err(input_error);
            if let Err(error) = sink.send(message::response(&id, &outcome)).await {
                debug!(server = &*name, "a response did not reach it: {error}");
            }
        }));
        self.pending.add_input_request(request, key, task.abort_handle());
    }

    /// The client that responds to a request of the upstream, or the immediate response.
    fn respondent(
        &self,
        method: &str,
        params: Option<&RawValue>,
        stream_request: Option<u64>,
    ) -> Result<(u64, Arc<Requester>), RpcOutcome> {
        let capability = match method {
            "ping" => return Err(Ok(RawObject::new().to_raw())),
            "sampling/createMessage" => "sampling",
            "elicitation/create" if is_url_mode(params) => "elicitation.url",
            "elicitation/create" => "elicitation",
            "roots/list" => "roots",
            _ => {
                let message = format!("Method not found: {method}");
                return Err(Err(RpcError::new(code::METHOD_NOT_FOUND, message)));
            }
        };
        let declares = |requester: &Requester| declares(&*requester.client, capability);
        let stream_request = stream_request
            .and_then(|id| Some(Attribution::Request(id, self.pending.requester(id)?)));
        match stream_request.unwrap_or_else(|| self.pending.attribute(declares)) {
            Attribution::Request(id, requester) if declares(&requester) => Ok((id, requester)),
            // Servers may list roots at any time. A client without roots, or a request of the gateway itself, must not
            // fail the call.
            Attribution::Request(..) | Attribution::None if capability == "roots" => {
                Err(Ok(no_roots()))
            }
            Attribution::Request(_, requester) => {
                requester.client.missing_capability(capability);
                let capability = capability.to_owned();
                Err(Err(input_error(InputError::NotDeclared { capability })))
            }
            Attribution::None => {
                let message = "there is no request that this belongs to";
                Err(Err(RpcError::new(code::INTERNAL_ERROR, message)))
            }
            Attribution::Ambiguous => {
                let message = "cannot tell whose request this belongs to";
                Err(Err(RpcError::new(code::INTERNAL_ERROR, message)))
            }
        }
    }

    fn respond(&self, message: Vec<u8>, sink: &Arc<dyn MessageSink>) {
        let sink = Arc::clone(sink);
        self.tasks.spawn(boxed(async move { drop(sink.send(message).await) }));
    }
}

/// Whether an elicitation sends the user to a web page.
fn is_url_mode(params: Option<&RawValue>) -> bool {
    let params = params.and_then(RawObject::parse).unwrap_or_default();
    params.get_text("mode").as_deref() == Some("url")
}

fn declares(client: &dyn ClientHandle, capability: &str) -> bool {
    has_capability(&client.capabilities(), capability)
}

fn no_roots() -> Raw {
    let mut roots = RawObject::new();
    roots.set_value("roots", &[(); 0]);
    roots.to_raw()
}

fn input_error(error: InputError) -> RpcError {
    match error {
        InputError::Refused { code, message, data } => RpcError { code, message, data },
        InputError::NotDeclared { .. } => RpcError::new(code::METHOD_NOT_FOUND, error.to_string()),
        InputError::Disconnected => RpcError::new(code::INTERNAL_ERROR, error.to_string()),
    }
}

/// A pending request. Dropped before its response, it is cancelled.
#[derive(Debug)]
pub(crate) struct RequestGuard {
    pub(crate) id: u64,
    router: Arc<MessageRouter>,
    /// Sends the cancellation; `None` where closing the stream cancels the request.
    cancel: Option<Arc<dyn MessageSink>>,
}

impl RequestGuard {
    pub(crate) fn new(
        router: &Arc<MessageRouter>,
        request: PendingRequest,
        cancel: Option<Arc<dyn MessageSink>>,
    ) -> Result<Self, TransportError> {
        Ok(Self { id: router.pending.begin(request)?, router: Arc::clone(router), cancel })
    }

    /// Marks the request as complete, so that it is not cancelled.
    pub(crate) fn complete(&mut self) {
        self.cancel = None;
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.router.pending.end(self.id);
        let Some(sink) = self.cancel.take() else { return };
        if self.router.pending.closed().is_some() {
            return;
        }
        // Without a runtime the connection is ending anyway.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let message = message::cancelled(self.id);
        self.router.tasks.spawn_on(async move { drop(sink.send(message).await) }, &runtime);
    }
}
