//! Upstreams behind HTTP+SSE, the transport of 2024-11-05: all their messages arrive on one event
//! stream, whose first event names the endpoint to post to.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use bytes::Bytes;
use http::{Method, Uri};
use muster_core::{
    backend::{BoxFuture, boxed},
    connect::ConnectionEvent,
};
use muster_net::Url;
use tokio::task::AbortHandle;

use crate::{
    error::TransportError,
    http::{
        connection::{Exchange, HttpConnection},
        pool::Pool,
        response::{MediaType, Rejection, rejection},
        sse::EventReader,
    },
    router::{MessageRouter, MessageSink},
    transport::DuplexTransport,
};

/// The transport to an upstream behind HTTP+SSE. Dropping it closes the stream.
#[derive(Debug)]
pub(crate) struct SseTransport {
    poster: Arc<Poster>,
    reader: AbortHandle,
    /// Whether the end of the stream is unexpected: not during the handshake, not after `close`.
    report_end: Arc<AtomicBool>,
}

/// Posts messages to the endpoint.
#[derive(Debug)]
struct Poster {
    pool: Pool,
    endpoint: Uri,
}

impl SseTransport {
    /// Opens the stream and waits for the endpoint.
    pub(crate) async fn connect(
        pool: Pool,
        router: &Arc<MessageRouter>,
    ) -> Result<Self, TransportError> {
        let accept = "text/event-stream";
        let request = pool.request(Method::GET, pool.url().request_target(), accept, Bytes::new());
        let exchange = succeeded(&pool, pool.send(request).await?).await?;
        let (response, connection) = exchange.detach(&router.tasks);
        if MediaType::of(response.headers()) != MediaType::EventStream {
            return Err(TransportError::Invalid(
                "it did not answer with a stream of events".to_owned(),
            ));
        }
        let mut events = EventReader::new(response.into_body(), &router.spool);
        let endpoint = read_endpoint(&mut events, pool.url()).await?;
        let poster = Arc::new(Poster { pool, endpoint });
        let report_end = Arc::new(AtomicBool::new(false));
        let reader = StreamReader {
            router: Arc::clone(router),
            sink: poster.clone(),
            report_end: Arc::clone(&report_end),
        };
        let reader = router.tasks.spawn(boxed(reader.run(events, connection))).abort_handle();
        Ok(Self { poster, reader, report_end })
    }
}

impl DuplexTransport for SseTransport {
    fn sink(&self) -> Arc<dyn MessageSink> {
        self.poster.clone()
    }

    fn url(&self) -> Option<&Url> {
        Some(self.poster.pool.url())
    }

    fn report_end(&self) {
        self.report_end.store(true, Ordering::Relaxed);
    }

    /// Closes the stream, which ends the session.
    fn close(&self) -> BoxFuture<'_, ()> {
        self.report_end.store(false, Ordering::Relaxed);
        self.reader.abort();
        Box::pin(std::future::ready(()))
    }
}

impl Drop for SseTransport {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

/// Reads the event that names the endpoint. It must belong to the same server: requests may carry
/// credentials.
async fn read_endpoint(events: &mut EventReader, base: &Url) -> Result<Uri, TransportError> {
    while let Some(event) = events.next().await? {
        if event.event_type == "endpoint" {
            let reference = String::from_utf8_lossy(&event.data);
            let endpoint = base.join(reference.trim())?;
            if !endpoint.is_same_origin(base) {
                let text = "it wants messages sent to another server";
                return Err(TransportError::Invalid(text.to_owned()));
            }
            return Ok(endpoint.request_target().clone());
        }
    }
    Err(TransportError::Lost("the stream ended before it told where messages go".to_owned()))
}

/// Returns a response with a success status; any other becomes an error.
async fn succeeded(pool: &Pool, exchange: Exchange) -> Result<Exchange, TransportError> {
    if exchange.head().status().is_success() {
        return Ok(exchange);
    }
    match rejection(pool, exchange, None, false).await {
        Rejection::Error(error) => Err(error),
        Rejection::Response { status, .. } => Err(TransportError::Status { status }),
    }
}

impl Poster {
    async fn post(&self, body: Bytes) -> Result<(), TransportError> {
        let request = self.pool.request(Method::POST, &self.endpoint, "*/*", body);
        let exchange = self.pool.send(request).await?;
        succeeded(&self.pool, exchange).await?.read_in_memory(&self.pool).await?;
        Ok(())
    }
}

impl MessageSink for Poster {
    fn send(&self, message: Vec<u8>) -> BoxFuture<'_, Result<(), TransportError>> {
        Box::pin(self.post(message.into()))
    }
}

struct StreamReader {
    router: Arc<MessageRouter>,
    sink: Arc<dyn MessageSink>,
    report_end: Arc<AtomicBool>,
}

impl StreamReader {
    /// Routes messages until the stream ends. The connection is held for as long.
    async fn run(self, mut events: EventReader, _connection: HttpConnection) {
        let reason = loop {
            match events.next().await {
                Ok(Some(event)) => {
                    if let Some(message) = event.into_payload() {
                        drop(self.router.route_payload(message, None, &self.sink).await);
                    }
                }
                Ok(None) => break "it ended its stream of events".to_owned(),
                Err(error) => break error.to_string(),
            }
        };
        self.router.pending.close(&reason);
        if self.report_end.load(Ordering::Relaxed) {
            self.router.events.on_event(ConnectionEvent::Closed { reason });
        }
    }
}
