//! Upstreams behind streamable HTTP.
//!
//! When a legacy upstream has lost the session, which it reports before it processes a request, the session is replaced
//! and the request is sent once more.

pub(crate) mod connection;
pub(crate) mod open_connections;
pub(crate) mod pool;
pub(crate) mod response;
pub(crate) mod server_stream;
pub(crate) mod session;
pub(crate) mod sse;

use std::{collections::BTreeSet, sync::Arc};

use bytes::Bytes;
use muster_core::{
    backend::BoxFuture,
    connect::ConnectionEvent,
    json::{Raw, RawObject},
    lock::Lock,
};
use muster_mcp::{
    param_headers::RoutingHeaders,
    wire::{Message, RpcError},
};
use muster_net::Url;
use tokio::{sync::oneshot, time::timeout};
use tracing::debug;

use self::{
    response::RequestId,
    server_stream::{ReconnectPolicy, StreamHandler},
    session::{
        EraHeaders, HttpReply, HttpSession, ReplyBody, ResponseStream, STREAM_BACKOFF, SessionId,
    },
};
use crate::{
    error::TransportError,
    handshake,
    message::MessageWriter,
    peer::ClientIdentity,
    pending::{PendingRequest, RequestOutcome},
    router::{MessageRouter, MessageSink, RequestGuard},
    spool::Payload,
    spooled_result::ResultBody,
};

/// The reconnects of the standalone SSE stream. An upstream that cannot be reached this many times in a row is
/// reported as gone, and the supervisor reconnects.
const SERVER_STREAM_RECONNECT: ReconnectPolicy =
    ReconnectPolicy { backoff: STREAM_BACKOFF, max_failures: Some(2), retry_unauthorized: false };

/// The transport to an upstream behind streamable HTTP.
#[derive(Debug)]
pub(crate) struct HttpTransport {
    router: Arc<MessageRouter>,
    session: Arc<HttpSession>,
    identity: Arc<ClientIdentity>,
    /// The resources that the legacy session is subscribed to.
    subscriptions: Lock<BTreeSet<String>>,
}

impl HttpTransport {
    pub(crate) fn new(
        session: HttpSession,
        router: Arc<MessageRouter>,
        identity: Arc<ClientIdentity>,
    ) -> Self {
        Self { router, session: Arc::new(session), identity, subscriptions: Lock::default() }
    }

    /// Sends a request and waits for its response. `routing` is set for modern requests only.
    pub(crate) async fn request(
        self: &Arc<Self>,
        id: u64,
        body: Bytes,
        routing: Option<&RoutingHeaders>,
    ) -> Result<ResultBody, TransportError> {
        if let Some(routing) = routing {
            return Ok(self.attempt(id, &body, EraHeaders::Modern(routing)).await?.0);
        }
        let session = self.session.id();
        match self.attempt(id, &body, EraHeaders::Legacy(&session)).await {
            Err(TransportError::SessionGone { .. }) => {
                Box::pin(self.replace_session(&session)).await?;
                Ok(self.attempt(id, &body, EraHeaders::Legacy(&self.session.id())).await?.0)
            }
            done => Ok(done?.0),
        }
    }

    /// Performs the legacy handshake; returns the upstream's result of `initialize`.
    pub(crate) async fn initialize(self: &Arc<Self>) -> Result<Raw, TransportError> {
        let guard = RequestGuard::new(&self.router, PendingRequest::default(), None)?;
        let body = handshake::initialize(guard.id, &self.identity).into();
        let no_session = SessionId::default();
        let (result, id) = self.attempt(guard.id, &body, EraHeaders::Legacy(&no_session)).await?;
        let result = result.load().await?;
        let version =
            RawObject::parse(&result).and_then(|result| result.get_text("protocolVersion"));
        self.session.begin(id, version.as_deref());
        self.notify(handshake::initialized().into()).await?;
        Ok(result)
    }

    /// Requests the upstream's log messages, which it sends in a session only.
    pub(crate) async fn request_log_messages(self: &Arc<Self>) {
        if !self.has_session() {
            return;
        }
        let asked = async {
            let guard = RequestGuard::new(&self.router, PendingRequest::default(), None)?;
            let (body, session) = (handshake::set_level(guard.id).into(), self.session.id());
            self.attempt(guard.id, &body, EraHeaders::Legacy(&session)).await
        };
        // Log messages are optional.
        if !matches!(timeout(handshake::LOG_LEVEL_TIMEOUT, asked).await, Ok(Ok(_))) {
            debug!(server = &*self.router.name, "it does not set a log level");
        }
    }

    /// Replaces a session that the upstream has lost, requests its log messages, and subscribes to the same resources again.
    async fn replace_session(self: &Arc<Self>, stale: &SessionId) -> Result<(), TransportError> {
        let replaced = self.session.renew(stale, async || {
            debug!(server = &*self.router.name, "the session is lost; initializing again");
            let result = self.initialize().await?;
            let result = RawObject::parse(&result).unwrap_or_default();
            if handshake::offers_log_messages(&result) {
                self.request_log_messages().await;
            }
            let subscriptions = self.subscriptions.lock().clone();
            for uri in subscriptions {
                let guard = RequestGuard::new(&self.router, PendingRequest::default(), None)?;
                let writer = MessageWriter::request(guard.id, "resources/subscribe");
                let body = writer.text("uri", &uri).finish().into();
                let session = self.session.id();
                if let Err(error) =
                    self.attempt(guard.id, &body, EraHeaders::Legacy(&session)).await
                {
                    debug!(server = &*self.router.name, "subscription to `{uri}` is lost: {error}");
                }
            }
            Ok(())
        });
        if replaced.await? {
            // The upstream may have been restarted with other tools.
            self.router.events.on_event(ConnectionEvent::ListChanged);
        }
        Ok(())
    }

    /// Sends a request once; returns the result and the session id that came with it.
    async fn attempt(
        self: &Arc<Self>,
        id: u64,
        body: &Bytes,
        era_headers: EraHeaders<'_>,
    ) -> Result<(ResultBody, Option<http::HeaderValue>), TransportError> {
        let reply = self.session.request(RequestId::Number(id), body, era_headers).await?;
        let HttpReply { session, body } = reply;
        let outcome = match body {
            ReplyBody::Message(payload) => {
                self.route(payload, Some(id)).await.ok_or_else(|| {
                    TransportError::Invalid("its answer is not one to the request".to_owned())
                })?
            }
            ReplyBody::Stream(stream) => Box::pin(self.read_stream(*stream, id)).await?,
            ReplyBody::Failure { status, message } => {
                let text = String::from_utf8_lossy(&message);
                return Err(match Message::parse_lenient(&text) {
                    Some(Message::Response { outcome: Err(error), .. }) => {
                        let error = RpcError::parse(error);
                        TransportError::Refused { status: Some(status), error }
                    }
                    Some(_) | None => TransportError::Status { status },
                });
            }
        };
        Ok((outcome.map_err(TransportError::refused)?, session))
    }

    /// Routes the messages of a stream up to the response to a request.
    async fn read_stream(
        self: &Arc<Self>,
        mut stream: ResponseStream,
        id: u64,
    ) -> Result<RequestOutcome, TransportError> {
        loop {
            let payload = stream.next().await?;
            if let Some(outcome) = self.route(payload, Some(id)).await {
                stream.finish().await;
                return Ok(outcome);
            }
        }
    }

    /// Routes a message; returns it if it is the response to `own`.
    async fn route(self: &Arc<Self>, message: Payload, own: Option<u64>) -> Option<RequestOutcome> {
        let sink: Arc<dyn MessageSink> = Arc::<Self>::clone(self);
        self.router.route_payload(message, own, &sink).await
    }

    /// Sends a message that has no response.
    async fn notify(&self, body: Bytes) -> Result<(), TransportError> {
        self.session.notify(&body, EraHeaders::Legacy(&self.session.id())).await
    }

    /// Listens to the standalone stream for as long as the upstream offers one. `opened` is notified
    /// once the stream is open.
    pub(crate) async fn listen(self: Arc<Self>, opened: oneshot::Sender<()>) {
        let handler = Listener { transport: &self, opened: Lock::new(Some(opened)) };
        let error = server_stream::listen(&self.session, SERVER_STREAM_RECONNECT, &handler).await;
        if error.is_disconnect() {
            return self
                .router
                .events
                .on_event(ConnectionEvent::Closed { reason: error.to_string() });
        }
        // The stream is optional, and most servers have none.
        debug!(server = &*self.router.name, "no standalone stream: {error}");
    }

    /// Records a subscription of the legacy session.
    pub(crate) fn add_subscription(&self, uri: &str) {
        self.subscriptions.lock().insert(uri.to_owned());
    }

    pub(crate) fn remove_subscription(&self, uri: &str) {
        self.subscriptions.lock().remove(uri);
    }

    /// Whether the upstream assigned a session.
    pub(crate) fn has_session(&self) -> bool {
        self.session.id().is_assigned()
    }

    /// The URL of the upstream.
    pub(crate) fn url(&self) -> &Url {
        self.session.url()
    }

    /// Ends the session, if there is one.
    pub(crate) async fn close(&self) {
        self.session.close().await;
    }
}

impl MessageSink for HttpTransport {
    fn send(&self, message: Vec<u8>) -> BoxFuture<'_, Result<(), TransportError>> {
        Box::pin(self.notify(message.into()))
    }
}

/// Routes the messages of the standalone stream.
struct Listener<'a> {
    transport: &'a Arc<HttpTransport>,
    opened: Lock<Option<oneshot::Sender<()>>>,
}

impl StreamHandler for Listener<'_> {
    fn opened(&self) {
        if let Some(opened) = self.opened.lock().take() {
            // The receiver may have timed out.
            opened.send(()).ok();
        }
    }

    async fn message(&self, message: Payload) {
        // No request is answered on this stream.
        drop(self.transport.route(message, None).await);
    }

    async fn renew(&self, stale: &SessionId) -> Result<(), TransportError> {
        self.transport.replace_session(stale).await
    }

    fn missed_messages(&self) {
        self.transport.router.events.on_event(ConnectionEvent::ListChanged);
    }
}
