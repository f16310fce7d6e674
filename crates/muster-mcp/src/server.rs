//! The server behind the transports: one request in, one response out.

use std::{
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::Arc,
    task::Poll,
    time::Duration,
};

use muster_core::{
    backend::{BoxFuture, ResourceOperation, boxed},
    call::Caller,
    client::{ClientHandle, Continuation, NoClient},
    json::Raw,
    request::{
        ChangeStream, ClientRequest, Request, RequestError, RequestHandler, Response,
        ServerCapabilities,
    },
};
use serde_json::value::RawValue;
use tokio::{sync::mpsc, time::timeout};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    change_notifications::listen,
    client_channel::{ClientChannel, Outbox},
    incoming::{IncomingRequest, ValidRequest},
    log_level::LogLevel,
    model::{self, DecodedRequest, Method},
    session::LegacySession,
    subscriptions::SubscriptionCounts,
    version::{Era, negotiate},
    wire::{Message, RpcError, code, error_body, error_line, result_body, result_line},
};

/// How long a shutdown waits for resources to be unsubscribed.
const UNSUBSCRIBE_TIMEOUT: Duration = Duration::from_secs(2);

/// The largest capabilities of a legacy client, which its session keeps.
const MAX_CAPABILITIES: usize = 8 * 1024;

/// Serves requests of both eras. It holds no state but the resource subscriptions of all clients; the
/// transports hold the sessions of legacy clients.
#[derive(Debug, Clone)]
pub struct Server {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    handler: Arc<dyn RequestHandler>,
    subscriptions: SubscriptionCounts,
    /// The tasks that unsubscribe for clients that are gone.
    unsubscribing: TaskTracker,
}

/// The context of a request while it is served.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestContext<'a> {
    pub(crate) caller: &'a Caller,
    pub(crate) channel: &'a ClientChannel,
    /// The channel, as the handler sees it.
    pub(crate) client: &'a Arc<dyn ClientHandle>,
    /// Ends requests that would otherwise run forever.
    pub(crate) shutdown: &'a CancellationToken,
}

/// The session of a transport outside this crate, which has only one client.
#[derive(Debug)]
pub struct LocalSession {
    session: Arc<LegacySession>,
    shutdown: CancellationToken,
}

impl LocalSession {
    /// A session before its handshake.
    #[expect(clippy::new_without_default, reason = "a session is begun, not defaulted")]
    pub fn new() -> Self {
        Self { session: Arc::new(LegacySession::new()), shutdown: CancellationToken::new() }
    }
}

/// The response to a request, for a transport to write.
#[derive(Debug)]
pub struct RpcResponse {
    /// The era of the request.
    pub era: Era,
    id: Option<Raw>,
    outcome: Result<Raw, RpcError>,
}

impl RpcResponse {
    /// An error response; without an id it responds to an unreadable request.
    pub(crate) fn error(era: Era, id: Option<&RawValue>, error: RpcError) -> Self {
        Self { era, id: id.map(ToOwned::to_owned), outcome: Err(error) }
    }

    /// The id of the request.
    pub(crate) fn id(&self) -> Option<&RawValue> {
        self.id.as_deref()
    }

    /// The error code, if it is an error.
    pub fn code(&self) -> Option<i64> {
        self.outcome.as_ref().err().map(|error| error.code)
    }

    /// Serializes it as one line.
    pub fn to_line(&self) -> Vec<u8> {
        match (&self.outcome, &self.id) {
            (Ok(result), Some(id)) => result_line(id, result),
            (Ok(result), None) => result_line(RawValue::NULL, result),
            (Err(error), id) => error_line(id.as_deref(), error),
        }
    }

    /// Serializes it without a line end.
    pub fn to_body(&self) -> Vec<u8> {
        match (&self.outcome, &self.id) {
            (Ok(result), Some(id)) => result_body(id, result),
            (Ok(result), None) => result_body(RawValue::NULL, result),
            (Err(error), id) => error_body(id.as_deref(), error),
        }
    }
}

impl Server {
    /// A server in front of `handler`.
    pub fn new(handler: Arc<dyn RequestHandler>) -> Self {
        let (subscriptions, unsubscribing) = (SubscriptionCounts::default(), TaskTracker::new());
        Self { inner: Arc::new(Inner { handler, subscriptions, unsubscribing }) }
    }

    /// Serves a request of the local user; `None` if `text` is not a request. Messages that precede the
    /// response are sent to `out` as lines.
    pub async fn serve_line(
        &self,
        local: &LocalSession,
        text: &str,
        out: &mpsc::Sender<Vec<u8>>,
    ) -> Option<RpcResponse> {
        let Ok(Message::Request { id, method, params }) = Message::parse(text) else {
            return None;
        };
        let incoming = IncomingRequest { id, method: &method, params, headers: None };
        let mut request = match incoming.validate() {
            Ok(request) => request,
            Err(response) => return Some(response),
        };
        let outbox = Outbox::Shared(out.clone());
        let channel = Arc::new(request.channel(Some(&local.session), outbox));
        Some(self.serve(&Caller::local(), channel, &local.shutdown, request).await)
    }

    /// Serves one request. Dropping the future cancels it; a panic becomes an error response.
    pub(crate) async fn serve(
        &self,
        caller: &Caller,
        channel: Arc<ClientChannel>,
        shutdown: &CancellationToken,
        request: ValidRequest,
    ) -> RpcResponse {
        let client: Arc<dyn ClientHandle> = Arc::<ClientChannel>::clone(&channel);
        let cx = RequestContext { caller, channel: &channel, client: &client, shutdown };
        let ValidRequest { id, era, method, request, .. } = request;
        let outcome = {
            let mut work = pin!(self.outcome(cx, &id, era, method, request));
            poll_fn(|cx| {
                catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx))).unwrap_or_else(|_| {
                    let message = "Internal error: the request crashed";
                    Poll::Ready(Err(RpcError::new(code::INTERNAL_ERROR, message)))
                })
            })
            .await
        };
        RpcResponse { era, id: Some(id), outcome }
    }

    async fn outcome(
        &self,
        cx: RequestContext<'_>,
        id: &RawValue,
        era: Era,
        method: Method,
        request: DecodedRequest,
    ) -> Result<Raw, RpcError> {
        let info = self.inner.handler.server_info();
        let response = match request {
            DecodedRequest::Initialize { version, capabilities } => {
                if capabilities.get().len() > MAX_CAPABILITIES {
                    let message =
                        format!("`capabilities` may have at most {MAX_CAPABILITIES} bytes");
                    return Err(RpcError::new(code::INVALID_PARAMS, message));
                }
                let version = negotiate(&version);
                if let Some(session) = cx.channel.session() {
                    session.begin(version, capabilities);
                }
                return Ok(model::initialized(info, self.capabilities(), version));
            }
            DecodedRequest::Ping => return Ok(model::empty()),
            DecodedRequest::Discover => model::discovered(info, self.capabilities()),
            DecodedRequest::Listen(filter) => {
                // Boxed: other requests need not reserve the memory for it.
                let result = Box::pin(listen(self, &cx, id, filter)).await?;
                Response::Done { result, cache: None }
            }
            DecodedRequest::Handled(request) => {
                let handled = self.handle_in_session(&cx, request).await;
                handled.map_err(|error| model::rpc_error(era, error))?
            }
        };
        model::result(era, method, info, response)
    }

    /// Passes a request to the handler, and applies it to the session of a legacy client.
    async fn handle_in_session(
        &self,
        cx: &RequestContext<'_>,
        request: Box<ClientRequest>,
    ) -> Result<Response, RequestError> {
        let Some(session) = cx.channel.session() else { return self.handle(cx, *request).await };
        match &request.request {
            Request::SetLogLevel { level } => {
                let level = LogLevel::from_name(level);
                let response = self.handle(cx, *request).await?;
                level.into_iter().for_each(|level| session.set_log_level(level));
                Ok(response)
            }
            Request::Resource(ResourceOperation::Subscribe { uri }) => {
                let uri = uri.clone();
                let response = self.handle(cx, *request).await?;
                if session.subscribe(&uri) {
                    self.inner.subscriptions.add(&uri);
                }
                Ok(response)
            }
            Request::Resource(ResourceOperation::Unsubscribe { uri }) => {
                // Other clients may still be subscribed, even if this one never was.
                if !session.unsubscribe(uri) || !self.inner.subscriptions.remove(uri) {
                    return Ok(Response::Done { result: model::empty(), cache: None });
                }
                self.handle(cx, *request).await
            }
            _ => self.handle(cx, *request).await,
        }
    }

    /// Passes a request to the handler.
    pub(crate) fn handle<'a>(
        &'a self,
        cx: &RequestContext<'a>,
        request: ClientRequest,
    ) -> BoxFuture<'a, Result<Response, RequestError>> {
        self.inner.handler.handle(cx.caller, cx.client, request)
    }

    pub(crate) fn changes(&self) -> Box<dyn ChangeStream> {
        self.inner.handler.changes()
    }

    /// The input schema of a tool, if the tool is listed as its upstream describes it.
    pub(crate) fn schema(&self, caller: &Caller, tool: &str) -> Option<Arc<RawValue>> {
        self.inner.handler.schema(caller, tool)
    }

    pub(crate) fn capabilities(&self) -> ServerCapabilities {
        self.inner.handler.capabilities()
    }

    pub(crate) fn subscriptions(&self) -> &SubscriptionCounts {
        &self.inner.subscriptions
    }

    /// Subscribes to a resource that a client subscribed to at another replica.
    pub(crate) async fn subscribe_again(
        &self,
        caller: &Caller,
        session: &LegacySession,
        uri: &str,
    ) {
        let request = Request::Resource(ResourceOperation::Subscribe { uri: uri.to_owned() });
        let request = ClientRequest { request, meta: None, continuation: Continuation::default() };
        match self.inner.handler.handle(caller, &NoClient::shared(), request).await {
            Ok(_) => {
                if session.take_subscription(uri) {
                    self.inner.subscriptions.add(uri);
                }
            }
            Err(error) => tracing::debug!("no subscription to {uri}: {error}"),
        }
    }

    /// Ends the subscriptions of a client that is gone, in the background.
    pub(crate) fn unsubscribe(&self, caller: &Caller, uris: impl IntoIterator<Item = String>) {
        let subscriptions = &self.inner.subscriptions;
        let uris: Vec<_> = uris.into_iter().filter(|uri| subscriptions.remove(uri)).collect();
        if uris.is_empty() || tokio::runtime::Handle::try_current().is_err() {
            return;
        }
        let (handler, caller) = (Arc::clone(&self.inner.handler), caller.clone());
        self.inner.unsubscribing.spawn(boxed(async move {
            let no_client = NoClient::shared();
            for uri in uris {
                let request = Request::Resource(ResourceOperation::Unsubscribe { uri });
                let request =
                    ClientRequest { request, meta: None, continuation: Continuation::default() };
                if let Err(error) = handler.handle(&caller, &no_client, request).await {
                    tracing::debug!("a resource was not unsubscribed: {error}");
                }
            }
        }));
    }

    /// Waits until resources are unsubscribed, with a timeout.
    pub(crate) async fn unsubscribed(&self) {
        self.inner.unsubscribing.close();
        drop(timeout(UNSUBSCRIBE_TIMEOUT, self.inner.unsubscribing.wait()).await);
        self.inner.unsubscribing.reopen();
    }
}
