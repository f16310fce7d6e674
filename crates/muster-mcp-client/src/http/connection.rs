//! One HTTP connection to an upstream, driven by the task that uses it.
//!
//! A separate task for each connection would cost two wake-ups per request. A task drives a connection only for a
//! response that outlives its request, such as an event stream.

use std::{
    fmt,
    future::poll_fn,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, Waker},
    thread::{self, ThreadId},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use http_body_util::Full;
use hyper::{
    body::Incoming,
    client::conn::{TrySendError, http1},
    rt::{Read, Write},
};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use tracing::debug;

use super::{open_connections::CountedConnection, pool::Pool, response::read_payload};
use crate::{
    error::TransportError,
    spool::{Payload, Spool},
};

/// How long a connection may be idle if the upstream does not state it.
pub(super) const MAX_KEEP_ALIVE: Duration = Duration::from_secs(60);
/// How often another thread may use a connection before it opens its own instead: each response wakes the thread whose
/// runtime has the connection.
pub(super) const MAX_LENT: u8 = 8;
const MARGIN: Duration = Duration::from_secs(1);
const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");

/// The future that reads and writes a connection, until it is closed.
type Driver = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A connection that carries one request at a time.
pub(crate) struct HttpConnection {
    sender: http1::SendRequest<Full<Bytes>>,
    /// `None` once a task drives the connection, or when it is closed.
    driver: Option<Driver>,
    /// How long it may be idle.
    keep_alive: Duration,
    idle_since: Instant,
    /// The thread that opened it, whose runtime may be the one that responses wake.
    thread: ThreadId,
    /// How often another thread has used it.
    lent: u8,
    /// The header of every request that is sent over it.
    pub(super) header: Option<(HeaderName, HeaderValue)>,
    /// Counts it until it is dropped.
    pub(super) counted: Option<CountedConnection>,
}

impl fmt::Debug for HttpConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpConnection").finish_non_exhaustive()
    }
}

impl HttpConnection {
    pub(super) async fn handshake(
        stream: impl Read + Write + Unpin + Send + 'static,
    ) -> Result<Self, hyper::Error> {
        let (sender, connection) = http1::handshake(stream).await?;
        let driver: Driver = Box::pin(async move {
            if let Err(err) = connection.await {
                debug!("a connection ended: {err}");
            }
        });
        let (keep_alive, idle_since) = (MAX_KEEP_ALIVE, Instant::now());
        let thread = thread::current().id();
        let driver = Some(driver);
        Ok(Self {
            sender,
            driver,
            keep_alive,
            idle_since,
            thread,
            lent: 0,
            header: None,
            counted: None,
        })
    }

    /// Reads from a response how long the upstream keeps the connection open. A request that is sent while the upstream
    /// closes it would be lost, so the connection is not used in its last second.
    pub(super) fn learn(&mut self, headers: &HeaderMap) {
        if let Some(value) = headers.get(KEEP_ALIVE) {
            let value = value.to_str().unwrap_or_default();
            let timeout = value.split(',').find_map(|part| part.trim().strip_prefix("timeout="));
            let seconds = timeout.and_then(|seconds| seconds.parse().ok());
            let limit = seconds.map(|seconds| Duration::from_secs(seconds).saturating_sub(MARGIN));
            self.keep_alive = limit.unwrap_or(MAX_KEEP_ALIVE).min(MAX_KEEP_ALIVE);
        }
    }

    /// Marks the connection as idle.
    pub(super) fn rest(&mut self) {
        self.idle_since = Instant::now();
    }

    /// Whether `thread` opened it.
    pub(super) fn is_of(&self, thread: ThreadId) -> bool {
        self.thread == thread
    }

    /// Counts a use by another thread; returns whether it should be used once more.
    pub(super) const fn lend(&mut self) -> bool {
        self.lent += 1;
        self.lent <= MAX_LENT
    }

    /// Whether the connection has been idle for too long.
    pub(super) fn is_expired(&self) -> bool {
        self.idle_since.elapsed() >= self.keep_alive
    }

    /// Whether the connection is closed, as far as it has been read.
    pub(super) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Reads bytes that arrived while the connection was idle; returns whether it is still open.
    pub(super) fn is_open(&mut self) -> bool {
        poll_driver(&mut self.driver, &mut Context::from_waker(Waker::noop()));
        !self.is_closed()
    }

    /// Waits until the connection can take a request.
    pub(super) async fn ready(&mut self) -> Result<(), hyper::Error> {
        let Self { sender, driver, .. } = self;
        if sender.is_ready() { Ok(()) } else { driven(driver, sender.ready()).await }
    }

    pub(super) async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, TrySendError<Request<Full<Bytes>>>> {
        let sent = self.sender.try_send_request(request);
        driven(&mut self.driver, sent).await
    }

    /// Lets a task drive the connection from now on.
    fn detach(&mut self, tasks: &TaskTracker) {
        if let Some(driver) = self.driver.take() {
            tasks.spawn(driver);
        }
    }
}

/// Drives a connection while waiting for `work`, which depends on it.
///
/// Only the driver can complete the work, and the work is polled again after the driver. So the work gets no waker: it
/// would schedule this very task once more for each response.
async fn driven<T>(driver: &mut Option<Driver>, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    poll_fn(|cx| {
        if driver.is_some() {
            let mut no_waker = Context::from_waker(Waker::noop());
            if let Poll::Ready(done) = work.as_mut().poll(&mut no_waker) {
                return Poll::Ready(done);
            }
            poll_driver(driver, cx);
            if driver.is_some() {
                return work.as_mut().poll(&mut no_waker);
            }
        }
        work.as_mut().poll(cx)
    })
    .await
}

fn poll_driver(driver: &mut Option<Driver>, cx: &mut Context<'_>) {
    if driver.as_mut().is_some_and(|driver| driver.as_mut().poll(cx).is_ready()) {
        *driver = None;
    }
}

/// A response whose body has not been read, and its connection.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(super) response: Response<Incoming>,
    pub(super) connection: HttpConnection,
}

impl Exchange {
    /// The head of the response.
    pub(crate) const fn head(&self) -> &Response<Incoming> {
        &self.response
    }

    /// Reads the whole body and returns the connection to the pool. A long body is spooled if there is a
    /// spool.
    pub(crate) async fn read(
        self,
        pool: &Pool,
        spool: Option<&Arc<Spool>>,
    ) -> Result<Payload, TransportError> {
        let Self { response, mut connection } = self;
        let mut body = response.into_body();
        let payload = driven(&mut connection.driver, read_payload(&mut body, spool)).await?;
        pool.release(connection);
        Ok(payload)
    }

    /// Reads the whole body into memory and returns the connection to the pool.
    pub(crate) async fn read_in_memory(self, pool: &Pool) -> Result<Bytes, TransportError> {
        match self.read(pool, None).await? {
            Payload::Memory(bytes) => Ok(bytes),
            payload @ Payload::Spooled(_) => payload.into_memory().await,
        }
    }

    /// Returns the response to be read later, and the connection to be released then. A task drives the connection from
    /// now on.
    pub(crate) fn detach(self, tasks: &TaskTracker) -> (Response<Incoming>, HttpConnection) {
        let Self { response, mut connection } = self;
        connection.detach(tasks);
        (response, connection)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::{HeaderMap, HeaderValue};
    use hyper_util::rt::TokioIo;
    use tokio::{io::duplex, time::advance};

    use super::{HttpConnection, KEEP_ALIVE};

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_not_used_after_its_upstream_may_have_closed_it() {
        for (header, seconds) in [
            (None, 60),
            (Some("timeout=5"), 4),
            (Some("max=100, timeout=5"), 4),
            (Some("timeout=1"), 0),
            (Some("timeout=600"), 60),
            (Some("max=100"), 60),
        ] {
            let (stream, _upstream) = duplex(64);
            let mut connection = HttpConnection::handshake(TokioIo::new(stream)).await.unwrap();
            let headers = header.map(|value| (KEEP_ALIVE, HeaderValue::from_static(value)));
            connection.learn(&headers.into_iter().collect::<HeaderMap>());
            connection.rest();
            advance(Duration::from_secs(seconds).saturating_sub(Duration::from_millis(1))).await;
            assert_eq!(connection.is_expired(), seconds == 0, "{header:?}");
            advance(Duration::from_millis(1)).await;
            assert!(connection.is_expired(), "{header:?}");
        }
    }
}
