//! A streamable-HTTP session with an upstream: the one implementation that the gateway's connections and
//! the bridge share.
//!
//! Every message is a separate HTTP request, answered by one JSON document or by an event stream. A legacy upstream may
//! assign a session id. An event stream that breaks off is resumed after its last event id; see [`ResponseStream`].

use std::{future::poll_fn, pin::Pin, sync::Arc, task::Poll, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body as _, Incoming};
use muster_core::{backend::boxed, backoff::Backoff, lock::Lock};
use muster_mcp::param_headers::{RoutingHeaders, VERSION};
use muster_net::Url;
use tokio::{
    sync::Mutex,
    time::{Instant, sleep, timeout},
};
use tokio_util::task::TaskTracker;
use tracing::debug;

use super::{
    connection::{Exchange, HttpConnection},
    pool::Pool,
    response::{MediaType, Rejection, RequestId, rejection},
    sse::{EventReader, SseEvent},
};
use crate::{
    error::TransportError,
    spool::{Payload, Spool},
};

const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const JSON_OR_EVENTS: &str = "application/json, text/event-stream";
const EVENTS: &str = "text/event-stream";
/// Attempts to resume a stream that delivers nothing in between.
const MAX_RESUMES: u32 = 5;
/// How long the end of a stream is awaited after its response, to keep the connection.
const END_TIMEOUT: Duration = Duration::from_secs(2);
/// How long the `DELETE` of a session may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// The backoff between attempts to reach an upstream.
const CONNECT_BACKOFF: Backoff =
    Backoff { first: Duration::from_millis(50), max: Duration::from_secs(1) };

/// The backoff of event streams whose upstream does not set a delay.
pub(crate) const STREAM_BACKOFF: Backoff =
    Backoff { first: Duration::from_millis(250), max: Duration::from_secs(30) };

/// The bounds of a delay that an upstream sets: below the first, its clients would reconnect in a loop; above the
/// second, one event would keep them away.
const MIN_RETRY: Duration = Duration::from_millis(10);
const MAX_RETRY: Duration = Duration::from_secs(5 * 60);

/// Sleeps before a reconnect, with jitter: connections that were lost together are not reopened together.
pub(crate) async fn sleep_before_reconnect(backoff: Backoff, retries: u32) {
    let random = getrandom::u64().unwrap_or_default();
    sleep(backoff.jittered(retries.into(), random)).await;
}

/// The identity of a legacy session, as requests carry it.
#[derive(Debug, Clone, Default)]
pub(crate) struct SessionId {
    id: Option<HeaderValue>,
    version: Option<HeaderValue>,
    /// Counts the sessions of this connection; 0 before the first.
    pub(crate) generation: u64,
}

impl SessionId {
    /// Whether the upstream assigned an id.
    pub(crate) const fn is_assigned(&self) -> bool {
        self.id.is_some()
    }

    fn apply(&self, headers: &mut HeaderMap) {
        if let Some(id) = &self.id {
            headers.insert(SESSION_ID, id.clone());
        }
        if let Some(version) = &self.version {
            headers.insert(VERSION, version.clone());
        }
    }
}

/// The headers of a request that depend on the era.
#[derive(Debug, Clone, Copy)]
pub(crate) enum EraHeaders<'a> {
    /// A legacy request: its session, if there is one yet.
    Legacy(&'a SessionId),
    /// A modern request: the headers that repeat its body.
    Modern(&'a RoutingHeaders),
}

/// The response to a request.
#[derive(Debug)]
pub(crate) struct HttpReply {
    /// The session id that the upstream assigned with it.
    pub(crate) session: Option<HeaderValue>,
    pub(crate) body: ReplyBody,
}

#[derive(Debug)]
pub(crate) enum ReplyBody {
    /// One message.
    Message(Payload),
    /// A stream that ends with the response.
    Stream(Box<ResponseStream>),
    /// A response that names the request, with a failure status.
    Failure { status: u16, message: Bytes },
}

/// A streamable-HTTP session with one upstream.
#[derive(Debug)]
pub(crate) struct HttpSession {
    pool: Pool,
    spool: Arc<Spool>,
    tasks: TaskTracker,
    /// How long a request is retried while the upstream cannot be reached and nothing was sent.
    retry_window: Duration,
    id: Lock<SessionId>,
    /// Held while a lost session is replaced, so that concurrent requests replace it once.
    renewing: Mutex<()>,
}

impl HttpSession {
    pub(crate) fn new(pool: Pool, spool: Arc<Spool>, tasks: TaskTracker) -> Self {
        let (id, renewing) = (Lock::default(), Mutex::new(()));
        Self { pool, spool, tasks, retry_window: Duration::ZERO, id, renewing }
    }

    /// Retries requests that were not sent for as long as `window`.
    #[must_use]
    pub(crate) fn with_retry_window(self, window: Duration) -> Self {
        Self { retry_window: window, ..self }
    }

    /// The URL of the upstream.
    pub(crate) const fn url(&self) -> &Url {
        self.pool.url()
    }

    /// The current session.
    pub(crate) fn id(&self) -> SessionId {
        self.id.lock().clone()
    }

    /// Begins a new session with the id and the version that the upstream returned to `initialize`.
    pub(crate) fn begin(&self, id: Option<HeaderValue>, version: Option<&str>) {
        let version = version.and_then(|version| HeaderValue::from_str(version).ok());
        let mut current = self.id.lock();
        *current = SessionId { id, version, generation: current.generation + 1 };
    }

    /// Replaces a lost session by `initialize`, unless a concurrent request has done so; returns whether
    /// it did.
    pub(crate) async fn renew(
        &self,
        stale: &SessionId,
        initialize: impl AsyncFnOnce() -> Result<(), TransportError>,
    ) -> Result<bool, TransportError> {
        let _renewing = self.renewing.lock().await;
        if self.id.lock().generation != stale.generation {
            return Ok(false);
        }
        initialize().await?;
        Ok(true)
    }

    /// Sends a request.
    pub(crate) async fn request(
        self: &Arc<Self>,
        id: RequestId<'_>,
        body: &Bytes,
        era_headers: EraHeaders<'_>,
    ) -> Result<HttpReply, TransportError> {
        let exchange = self.post(body, era_headers).await?;
        if !exchange.head().status().is_success() {
            let rejected = rejection(&self.pool, exchange, Some(id), is_in_session(era_headers));
            // Boxed: a request that is not rejected need not reserve the memory for it.
            return match Box::pin(rejected).await {
                Rejection::Response { status, body: message } => {
                    let body = ReplyBody::Failure { status, message };
                    Ok(HttpReply { session: None, body })
                }
                Rejection::Error(error) => Err(error),
            };
        }
        let status = exchange.head().status();
        let session = exchange.head().headers().get(SESSION_ID).cloned();
        let body = match MediaType::of(exchange.head().headers()) {
            MediaType::Json => {
                ReplyBody::Message(exchange.read(&self.pool, Some(&self.spool)).await?)
            }
            MediaType::EventStream => {
                let (response, connection) = exchange.detach(&self.tasks);
                ReplyBody::Stream(Box::new(ResponseStream {
                    session: Arc::clone(self),
                    events: EventReader::new(response.into_body(), &self.spool),
                    connection,
                    cursor: StreamCursor::default(),
                    resume_in: match era_headers {
                        EraHeaders::Legacy(id) => Some(id.clone()),
                        EraHeaders::Modern(_) => None,
                    },
                    resumes: 0,
                }))
            }
            MediaType::Other(kind) if status == StatusCode::OK => {
                let text = format!("it answered with `{kind}` instead of a message");
                return Err(TransportError::Invalid(text));
            }
            MediaType::Other(_) => {
                let text = format!("it answered a request with status {} only", status.as_u16());
                return Err(TransportError::Invalid(text));
            }
        };
        Ok(HttpReply { session, body })
    }

    /// Sends a message that has no response.
    pub(crate) async fn notify(
        &self,
        body: &Bytes,
        era_headers: EraHeaders<'_>,
    ) -> Result<(), TransportError> {
        let exchange = self.post(body, era_headers).await?;
        if !exchange.head().status().is_success() {
            return Err(self.rejected(exchange, is_in_session(era_headers)).await);
        }
        exchange.read_in_memory(&self.pool).await?;
        Ok(())
    }

    async fn post(
        &self,
        body: &Bytes,
        era_headers: EraHeaders<'_>,
    ) -> Result<Exchange, TransportError> {
        self.send(|| {
            let mut request = self.new_request(Method::POST, JSON_OR_EVENTS, body.clone());
            match era_headers {
                EraHeaders::Legacy(session) => session.apply(request.headers_mut()),
                EraHeaders::Modern(headers) => headers.apply(request.headers_mut()),
            }
            request
        })
        .await
    }

    /// Sends a request, retrying as long as nothing was sent and the retry window is open.
    async fn send(
        &self,
        request: impl Fn() -> Request<Full<Bytes>>,
    ) -> Result<Exchange, TransportError> {
        if self.retry_window.is_zero() {
            return self.pool.send(request()).await;
        }
        Box::pin(self.send_with_retries(request)).await
    }

    async fn send_with_retries(
        &self,
        request: impl Fn() -> Request<Full<Bytes>>,
    ) -> Result<Exchange, TransportError> {
        let deadline = Instant::now() + self.retry_window;
        for attempt in 0.. {
            let delay = CONNECT_BACKOFF.delay(attempt);
            match self.pool.send(request()).await {
                Err(TransportError::Unreachable(_)) if Instant::now() + delay <= deadline => {
                    sleep(delay).await;
                }
                done => return done,
            }
        }
        Err(TransportError::Unreachable("the upstream cannot be reached".to_owned()))
    }

    /// Opens the stream of messages that belong to no request, or resumes a stream.
    pub(crate) async fn open_stream(
        &self,
        id: &SessionId,
        cursor: &StreamCursor,
    ) -> Result<(EventReader, HttpConnection), TransportError> {
        let mut request = self.new_request(Method::GET, EVENTS, Bytes::new());
        id.apply(request.headers_mut());
        if let Some(last) = &cursor.last_event_id {
            request.headers_mut().insert(LAST_EVENT_ID, last.clone());
        }
        let exchange = self.pool.send(request).await?;
        if !exchange.head().status().is_success() {
            return Err(self.rejected(exchange, id.is_assigned()).await);
        }
        let (response, connection) = exchange.detach(&self.tasks);
        match MediaType::of(response.headers()) {
            MediaType::EventStream => {
                Ok((EventReader::new(response.into_body(), &self.spool), connection))
            }
            MediaType::Json | MediaType::Other(_) => {
                Err(TransportError::Status { status: StatusCode::NOT_ACCEPTABLE.as_u16() })
            }
        }
    }

    /// Ends the session, if there is one. Failures are ignored.
    pub(crate) async fn close(&self) {
        let id = std::mem::take(&mut *self.id.lock());
        if !id.is_assigned() {
            return;
        }
        let mut request = self.new_request(Method::DELETE, JSON_OR_EVENTS, Bytes::new());
        id.apply(request.headers_mut());
        if let Ok(Err(error)) = timeout(CLOSE_TIMEOUT, self.pool.send(request)).await {
            debug!("the session was not ended: {error}");
        }
    }

    /// The error of a failure status that cannot be the response to a request.
    async fn rejected(&self, exchange: Exchange, in_session: bool) -> TransportError {
        match rejection(&self.pool, exchange, None, in_session).await {
            Rejection::Error(error) => error,
            Rejection::Response { status, .. } => TransportError::Status { status },
        }
    }

    /// Returns the connection of a finished stream to the pool. The end of the stream may arrive a
    /// moment after the response.
    async fn retire(self: Arc<Self>, mut body: Incoming, connection: HttpConnection) {
        let ended = poll_fn(|cx| match Pin::new(&mut body).poll_frame(cx) {
            Poll::Ready(None) => Poll::Ready(true),
            Poll::Ready(Some(_)) | Poll::Pending => Poll::Ready(false),
        });
        if ended.await {
            return self.pool.release(connection);
        }
        let session = Arc::clone(&self);
        self.tasks.spawn(boxed(async move {
            let end = async { while let Some(Ok(_)) = body.frame().await {} };
            if timeout(END_TIMEOUT, end).await.is_ok() {
                session.pool.release(connection);
            }
        }));
    }

    fn new_request(
        &self,
        method: Method,
        accept: &'static str,
        body: Bytes,
    ) -> Request<Full<Bytes>> {
        self.pool.request(method, self.pool.url().request_target(), accept, body)
    }
}

const fn is_in_session(era_headers: EraHeaders<'_>) -> bool {
    match era_headers {
        EraHeaders::Legacy(id) => id.is_assigned(),
        EraHeaders::Modern(_) => false,
    }
}

/// How far a stream has been read.
#[derive(Debug, Default)]
pub(crate) struct StreamCursor {
    last_event_id: Option<HeaderValue>,
    retry: Option<Duration>,
}

impl StreamCursor {
    pub(crate) fn advance(&mut self, event: &SseEvent) {
        if let Some(id) = &event.id {
            self.last_event_id = HeaderValue::from_str(id).ok();
        }
        self.retry = event.retry.or(self.retry);
    }

    /// Whether the stream can be resumed without losing messages.
    pub(crate) const fn is_resumable(&self) -> bool {
        self.last_event_id.is_some()
    }

    /// Sleeps before the next attempt, by the backoff that the upstream sets, or by `backoff`.
    pub(crate) async fn sleep_before_reconnect(&self, backoff: Backoff, failures: u32) {
        sleep_before_reconnect(self.backoff(backoff), failures).await;
    }

    /// The backoff that starts at the `retry` of the upstream, which no delay is shorter than. Without `retry`, this is
    /// `default`.
    fn backoff(&self, default: Backoff) -> Backoff {
        self.retry.map_or(default, |retry| {
            let first = retry.clamp(MIN_RETRY, MAX_RETRY);
            Backoff { first, max: default.max.max(first) }
        })
    }
}

/// The event stream that carries the response to one request.
///
/// A legacy upstream may close the stream early. It is then resumed after the last event id; without an
/// id the response is lost.
#[derive(Debug)]
pub(crate) struct ResponseStream {
    session: Arc<HttpSession>,
    events: EventReader,
    connection: HttpConnection,
    cursor: StreamCursor,
    /// The session to resume in; `None` in the modern era, where streams are not resumed.
    resume_in: Option<SessionId>,
    /// Attempts to resume since the last message.
    resumes: u32,
}

impl ResponseStream {
    /// The next message. The stream ends with an error unless the caller stops at the response.
    pub(crate) async fn next(&mut self) -> Result<Payload, TransportError> {
        loop {
            let error = match self.events.next().await {
                Ok(Some(event)) => {
                    self.cursor.advance(&event);
                    match event.into_payload() {
                        Some(payload) => {
                            self.resumes = 0;
                            return Ok(payload);
                        }
                        None => continue,
                    }
                }
                Ok(None) => TransportError::Lost("the stream ended before the answer".to_owned()),
                Err(error) => error,
            };
            self.resume(error).await?;
        }
    }

    async fn resume(&mut self, error: TransportError) -> Result<(), TransportError> {
        let Some(session) = self.resume_in.as_ref().filter(|_| self.cursor.is_resumable()) else {
            return Err(error);
        };
        self.resumes += 1;
        if self.resumes > MAX_RESUMES {
            return Err(error);
        }
        self.cursor.sleep_before_reconnect(STREAM_BACKOFF, self.resumes - 1).await;
        let resumed = self.session.open_stream(session, &self.cursor).await?;
        (self.events, self.connection) = resumed;
        Ok(())
    }

    /// Ends the stream after the response, and keeps the connection if possible.
    pub(crate) async fn finish(self) {
        self.session.retire(self.events.into_body(), self.connection).await;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{STREAM_BACKOFF, StreamCursor};
    use crate::http::sse::SseEvent;

    #[test]
    fn no_delay_is_shorter_than_the_upstream_demands() {
        for (retry, delays) in [
            (None, [250, 500, 30_000]),
            (Some(1_000), [1_000, 2_000, 30_000]),
            (Some(20_000), [20_000, 30_000, 30_000]),
            (Some(60_000), [60_000, 60_000, 60_000]),
            (Some(u64::MAX), [300_000, 300_000, 300_000]),
            (Some(0), [10, 20, 20_480]),
        ] {
            let mut cursor = StreamCursor::default();
            let retry_event = retry.map(Duration::from_millis);
            cursor.advance(&SseEvent { retry: retry_event, ..SseEvent::default() });
            let backoff = cursor.backoff(STREAM_BACKOFF);
            let taken = [0, 1, 11].map(|failures| backoff.delay(failures));
            assert_eq!(taken, delays.map(Duration::from_millis), "{retry:?}");
        }
    }
}
