//! The events of a response stream, stored so that its client can resume it at any replica.
//!
//! Each event is stored in a log of the shared state before it is sent. A separate task serves the request, so that it
//! continues while its client is away. A resumed stream is read from the log, at any replica.

use std::{
    collections::VecDeque,
    convert::Infallible,
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use muster_core::{
    backend::boxed,
    backoff::Backoff,
    json::Raw,
    shared::{LogLimits, ReplicaLink, StoreError, is_replica_id},
};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

use super::{
    App, ORPHAN_TIMEOUT,
    body::{EventSource, event, event_with_id, priming_event},
    exchange::{Outgoing, ResponseEvents},
    replica_sessions::digest,
    sessions::HttpSession,
};
use crate::{
    server::RpcResponse,
    version::Era,
    wire::{RpcError, code},
};

/// The bounds of a log.
const LIMITS: LogLimits = LogLimits { length: 256, ttl: Duration::from_secs(300) };
/// The interval at which the TTL of a log is renewed while its request is served.
const RENEWAL: Duration = Duration::from_secs(100);
/// The largest event in a log.
const MAX_EVENT: usize = 4 * 1024 * 1024;
/// The maximum size of all messages in a log together. There is always room for a response.
const MAX_MESSAGES: usize = 4 * 1024 * 1024;
/// The number of events that a client may fall behind before its request waits.
pub(super) const QUEUE: usize = 64;
/// How long a request continues for a client that is away, unless it resumes the stream.
const RESUME_WINDOW: Duration = Duration::from_secs(30);
/// How long a client may seem away after an outage of the shared state, until its stream is recorded again.
const WATCH_AGAIN: Duration = Duration::from_secs(7);
/// The delays between attempts to store a response whose client is away.
const RETRY: Backoff = Backoff { first: Duration::from_millis(200), max: Duration::from_secs(5) };

/// The kinds of log entries, in their first byte.
const OPENED: u8 = b'o';
pub(super) const MESSAGE: u8 = b'm';
pub(super) const RESPONSE: u8 = b'f';
pub(super) const END: u8 = b'e';
/// A response that is too large to be stored.
pub(super) const TOO_LARGE: u8 = b't';

const ABANDONED: &str = "this request was cancelled because its client was away: it may have been carried out in part; \
                         repeat it only if that does no harm";

/// The log of one response stream.
pub(super) struct EventLog {
    app: Arc<App>,
    session: Arc<HttpSession>,
    link: Arc<dyn ReplicaLink>,
    /// The id of the request.
    request: Raw,
    stream: String,
    /// Whether the client expects an event before the first message, to resume the stream from.
    is_primed: bool,
    /// The position of the last entry.
    position: u64,
    messages: StoredMessages,
}

impl EventLog {
    /// A log for a request of a session, if replicas share sessions.
    pub(super) fn of(
        app: &Arc<App>,
        session: &Arc<HttpSession>,
        request: &Raw,
        is_primed: bool,
    ) -> Option<Self> {
        let shared = app.replica_sessions.as_ref()?;
        let link = Arc::clone(&shared.link);
        let stream = format!("{}-{}", link.id(), shared.names.next_number());
        let (app, session, request) = (Arc::clone(app), Arc::clone(session), request.clone());
        let messages = StoredMessages::default();
        Some(Self { app, session, link, request, stream, is_primed, position: 0, messages })
    }

    /// Serves the request in a separate task, and returns its events.
    pub(super) fn serve(self, events: ResponseEvents) -> Box<dyn EventSource> {
        let (client, received) = mpsc::channel(QUEUE);
        let tasks = self.app.tasks.clone();
        tasks.spawn(boxed(self.run(events, client)));
        Box::new(Received(received))
    }

    async fn run(self, events: ResponseEvents, client: mpsc::Sender<Bytes>) {
        let (link, key) = (Arc::clone(&self.link), self.key());
        let (session, request) = (Arc::clone(&self.session), self.request.clone());
        let abandoned = client_abandoned(Arc::clone(&link), key.clone(), session, client.clone());
        let cut = self.app.cut.clone();
        // The request is served while an event is being stored.
        let (queue, outgoing) = mpsc::channel(QUEUE);
        let served = serve(events, request.clone(), queue, cut, abandoned);
        let written = self.write(outgoing, client);
        tokio::select! {
            ((), ()) = async { tokio::join!(served, written) } => (),
            never = renew(link, key, request) => match never {},
        }
    }

    /// Stores events and sends them to the client, which may be away.
    async fn write(mut self, mut outgoing: mpsc::Receiver<Outgoing>, client: mpsc::Sender<Bytes>) {
        let is_open = self.open().await.inspect_err(not_stored).is_ok();
        if is_open && self.is_primed {
            drop(client.send(priming_event(&event_id(&self.stream, self.position))).await);
        }
        while let Some(next) = outgoing.recv().await {
            let framed = match next {
                Outgoing::Comment(comment) => comment,
                Outgoing::Message(line) => match self.append_message(&line).await {
                    Some(position) => event_with_id(&event_id(&self.stream, position), &line),
                    None => event(&line),
                },
                Outgoing::Response(line) => return self.finish(Some(&line), &client).await,
            };
            drop(client.send(framed).await);
        }
        self.finish(None, &client).await;
    }

    /// Creates the log on first use. A client can resume only if the id of the request is stored.
    async fn open(&mut self) -> Result<(), StoreError> {
        if self.position > 0 {
            return Ok(());
        }
        put_request(&*self.link, &self.key(), &self.request).await?;
        self.append(vec![OPENED]).await
    }

    /// Appends a message; `None` if it cannot be stored, so that the stream cannot be resumed from it.
    async fn append_message(&mut self, line: &[u8]) -> Option<u64> {
        let is_small = line.len() <= MAX_EVENT && self.messages.add(line.len());
        if !is_small || self.open().await.inspect_err(not_stored).is_err() {
            return None;
        }
        let appended = self.append(entry(MESSAGE, line)).await.inspect_err(not_stored);
        if appended.is_err() {
            // It may have been appended nevertheless: no other entry may take this position.
            self.position += 1;
        }
        appended.is_ok().then_some(self.position)
    }

    /// Stores the end of the stream, and sends the response if there is one. A client that is away can only find it in
    /// the log, so storing it is retried.
    async fn finish(mut self, response: Option<&[u8]>, client: &mpsc::Sender<Bytes>) {
        let last = match response {
            None => vec![END],
            Some(line) if line.len() > MAX_EVENT => vec![TOO_LARGE],
            Some(line) => entry(RESPONSE, line),
        };
        let mut stored = self.append_last(&last).await;
        if let Some(line) = response {
            let framed = match &stored {
                Ok(()) if line.len() <= MAX_EVENT => {
                    event_with_id(&event_id(&self.stream, self.position), line)
                }
                _ => event(line),
            };
            drop(client.send(framed).await);
        }
        let cut = self.app.cut.clone();
        let (end, mut retries) = (Instant::now() + ORPHAN_TIMEOUT, 0);
        while let Err(error) = &stored
            && client.is_closed()
            && Instant::now() < end
        {
            not_stored(error);
            tokio::select! {
                () = sleep(RETRY.delay(retries)) => (),
                () = cut.cancelled() => return,
            }
            retries += 1;
            stored = self.append_last(&last).await;
        }
    }

    async fn append_last(&mut self, entry: &[u8]) -> Result<(), StoreError> {
        self.open().await?;
        self.append(entry.to_vec()).await
    }

    /// Appends an entry at the next position. This log has no other writer: if the position is taken, an earlier attempt
    /// to append the same entry succeeded.
    async fn append(&mut self, entry: Vec<u8>) -> Result<(), StoreError> {
        let next = self.position + 1;
        self.link.state().append(&self.key(), next, entry, LIMITS).await?;
        self.position = next;
        Ok(())
    }

    fn key(&self) -> String {
        key(&self.session.id, &self.stream)
    }
}

/// Serves the request until its response, or until its client has abandoned it.
async fn serve(
    mut events: ResponseEvents,
    request: Raw,
    queue: mpsc::Sender<Outgoing>,
    cut: CancellationToken,
    abandoned: impl Future<Output = ()>,
) {
    let mut abandoned = std::pin::pin!(abandoned);
    let mut is_cut = false;
    loop {
        let next = tokio::select! {
            biased;
            next = poll_fn(|cx| events.poll_next(cx)) => next,
            () = cut.cancelled(), if !is_cut => {
                // The next poll lets the request respond with an error.
                is_cut = true;
                continue;
            }
            () = abandoned.as_mut() => {
                tracing::debug!("a request was cancelled: its client is gone");
                events.cancel();
                let error = RpcError::new(code::INTERNAL_ERROR, ABANDONED);
                let response = RpcResponse::error(Era::Legacy, Some(&request), error);
                Some(Outgoing::Response(response.to_line()))
            }
        };
        let Some(next) = next else { return };
        let is_last = matches!(next, Outgoing::Response(_));
        if queue.send(next).await.is_err() || is_last {
            return;
        }
    }
}

/// Renews the TTL of a log for as long as its request is served.
async fn renew(link: Arc<dyn ReplicaLink>, key: String, request: Raw) -> Infallible {
    loop {
        sleep(RENEWAL).await;
        let renewed = async {
            put_request(&*link, &key, &request).await?;
            link.state().renew(&key, LIMITS.ttl).await
        };
        if let Err(error) = renewed.await {
            tracing::debug!("the log of a response stream is not renewed: {error}");
        }
    }
}

/// Stores the id of a log's request. It outlives the log.
async fn put_request(link: &dyn ReplicaLink, key: &str, request: &Raw) -> Result<(), StoreError> {
    let id = request.get().as_bytes().to_vec();
    link.state().put(&request_key(key), id, LIMITS.ttl + RENEWAL).await
}

/// Waits until the client has been away for too long.
async fn client_abandoned(
    link: Arc<dyn ReplicaLink>,
    key: String,
    session: Arc<HttpSession>,
    client: mpsc::Sender<Bytes>,
) {
    client.closed().await;
    let mut end = Instant::now() + ORPHAN_TIMEOUT;
    let watched = watch_key(&key);
    loop {
        sleep(RESUME_WINDOW).await;
        let mut found = link.state().get(&watched).await;
        if matches!(found, Ok(None)) {
            sleep(WATCH_AGAIN).await;
            found = link.state().get(&watched).await;
        }
        let is_away = match found {
            Ok(Some(_)) => {
                end = Instant::now() + ORPHAN_TIMEOUT;
                false
            }
            Ok(None) => *session.streams.borrow() == 0,
            // It is unknown whether the client is away.
            Err(_) => false,
        };
        if is_away || Instant::now() >= end {
            return;
        }
    }
}

fn not_stored(error: &StoreError) {
    tracing::debug!("an event is not stored: {error}");
}

fn entry(kind: u8, line: &[u8]) -> Vec<u8> {
    [&[kind], line].concat()
}

/// The sizes of the messages that are in a log.
#[derive(Debug, Default)]
struct StoredMessages {
    sizes: VecDeque<usize>,
    bytes: usize,
}

impl StoredMessages {
    /// Adds a message; `false` if there is no room for it.
    fn add(&mut self, size: usize) -> bool {
        if self.bytes + size > MAX_MESSAGES {
            return false;
        }
        self.sizes.push_back(size);
        self.bytes += size;
        // The log drops its oldest entries.
        if self.sizes.len() > LIMITS.length {
            self.bytes -= self.sizes.pop_front().unwrap_or_default();
        }
        true
    }
}

/// Events that another task sends.
pub(super) struct Received(pub(super) mpsc::Receiver<Bytes>);

impl EventSource for Received {
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        self.0.poll_recv(cx)
    }
}

/// The key of a log.
pub(super) fn key(session: &str, stream: &str) -> String {
    format!("events:{}:{stream}", digest(session))
}

/// The key of the id of a log's request. The id is not an entry, because a log drops its first entries.
pub(super) fn request_key(log: &str) -> String {
    format!("request:{log}")
}

/// The key that is set while a client reads a log.
pub(super) fn watch_key(log: &str) -> String {
    format!("watch:{log}")
}

pub(super) fn event_id(stream: &str, position: u64) -> String {
    format!("{stream}.{position}")
}

/// The stream and the position of an event id.
pub(super) fn parse(event_id: &str) -> Option<(&str, u64)> {
    let (stream, position) = event_id.rsplit_once('.')?;
    let (replica, number) = stream.split_once('-')?;
    let is_stream = is_replica_id(replica) && number.parse::<u64>().is_ok();
    is_stream.then_some((stream, position.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::{MAX_MESSAGES, StoredMessages, parse};

    #[test]
    fn event_ids() {
        let id = "0123456789abcdef-3.17";
        assert_eq!(parse(id), Some(("0123456789abcdef-3", 17)));
        for other in ["", "s.3", "0123456789abcdef.3", "0123456789abcdef-3", "zz-1.2", "*-1.2"] {
            assert_eq!(parse(other), None, "{other}");
        }
    }

    #[test]
    fn messages_have_a_budget() {
        let mut stored = StoredMessages::default();
        assert!(stored.add(MAX_MESSAGES - 10) && stored.add(10) && !stored.add(1));
        let mut stored = StoredMessages::default();
        // Messages that the log has dropped do not count.
        for _ in 0..10_000 {
            assert!(stored.add(MAX_MESSAGES / 300));
        }
    }
}
