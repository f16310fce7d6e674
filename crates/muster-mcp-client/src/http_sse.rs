//! A server behind HTTP+SSE, the transport of 2024-11-05: all it says comes on one stream of events,
//! whose first one tells where messages are to be sent.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use bytes::Bytes;
use http::{Method, Uri};
use muster_core::{backend::BoxFuture, connect::ConnectionEvent};
use tokio::task::AbortHandle;

use super::{
    address::Address,
    dial::Sender,
    failure::Failure,
    inbox::{Inbox, Outlet},
    pool::Pool,
    response::{Kind, refusal, whole},
    sse::Stream,
};

/// A server behind HTTP+SSE. Dropping it ends the stream.
#[derive(Debug)]
pub(super) struct HttpSse {
    poster: Arc<Poster>,
    reader: AbortHandle,
    /// Whether the end of the stream is news: not before the introduction.
    announced: Arc<AtomicBool>,
}

/// Sends messages.
#[derive(Debug)]
struct Poster {
    pool: Pool,
    path: Uri,
}

impl HttpSse {
    /// Opens the stream and waits until it is told where messages go.
    pub(super) async fn connect(pool: Pool, inbox: &Arc<Inbox>) -> Result<Self, Failure> {
        let accept = "text/event-stream";
        let request = pool.request(Method::GET, &pool.address().path, accept, Bytes::new());
        let (response, sender) = pool.send(request).await?;
        if !response.status().is_success() {
            return Err(refusal(&pool, (response, sender), None, false).await);
        }
        if Kind::of(response.headers()) != Kind::Events {
            return Err(Failure::Broken("it did not answer with a stream of events".to_owned()));
        }
        let mut stream = Stream::with_disk(response.into_body(), &inbox.disk);
        let path = endpoint(&mut stream, pool.address()).await?;
        let poster = Arc::new(Poster { pool, path });
        let announced = Arc::new(AtomicBool::new(false));
        let reading = Reading {
            inbox: Arc::clone(inbox),
            outlet: poster.clone(),
            announced: Arc::clone(&announced),
        };
        let reader = inbox.tasks.spawn(reading.run(stream, sender)).abort_handle();
        Ok(Self { poster, reader, announced })
    }

    /// Sends a message.
    pub(super) async fn send(&self, message: Vec<u8>) -> Result<(), Failure> {
        self.poster.post(message.into()).await
    }

    /// The way for messages that nobody waits for.
    pub(super) fn outlet(&self) -> Arc<dyn Outlet> {
        self.poster.clone()
    }

    /// From now on its end is news.
    pub(super) fn introduced(&self) {
        self.announced.store(true, Ordering::Relaxed);
    }

    /// Ends the stream, which ends the session.
    pub(super) fn close(&self) {
        self.announced.store(false, Ordering::Relaxed);
        self.reader.abort();
    }
}

impl Drop for HttpSse {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

/// The first event that tells where messages go.
async fn endpoint(stream: &mut Stream, address: &Address) -> Result<Uri, Failure> {
    while let Some(event) = stream.next().await? {
        if event.kind == "endpoint" {
            let reference = String::from_utf8_lossy(&event.data);
            return Ok(address.join(reference.trim())?.path);
        }
    }
    Err(Failure::Lost("the stream ended before it told where messages go".to_owned()))
}

impl Poster {
    async fn post(&self, body: Bytes) -> Result<(), Failure> {
        let request = self.pool.request(Method::POST, &self.path, "*/*", body);
        let (response, sender) = self.pool.send(request).await?;
        if !response.status().is_success() {
            return Err(refusal(&self.pool, (response, sender), None, false).await);
        }
        whole(&mut response.into_body()).await?;
        self.pool.give_back(sender);
        Ok(())
    }
}

impl Outlet for Poster {
    fn send(&self, message: Vec<u8>) -> BoxFuture<'_, Result<(), Failure>> {
        Box::pin(self.post(message.into()))
    }
}

struct Reading {
    inbox: Arc<Inbox>,
    outlet: Arc<dyn Outlet>,
    announced: Arc<AtomicBool>,
}

impl Reading {
    /// Takes events in until the stream ends. The connection is held for as long.
    async fn run(self, mut stream: Stream, _connection: Sender) {
        let reason = loop {
            match stream.next().await {
                Ok(Some(event)) if event.is_silent() => (),
                // Every answer goes to whom waits for it.
                Ok(Some(event)) => drop(self.inbox.hear(event, None, &self.outlet).await),
                Ok(None) => break "it ended its stream of events".to_owned(),
                Err(failure) => break failure.to_string(),
            }
        };
        self.inbox.calls.close(&reason);
        if self.announced.load(Ordering::Relaxed) {
            self.inbox.events.on_event(ConnectionEvent::Closed { reason });
        }
    }
}
