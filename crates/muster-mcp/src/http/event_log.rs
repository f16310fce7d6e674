//! Event streams that a client can resume at any replica, by `Last-Event-ID`.
//!
//! The events of a response stream are in a log of the shared state before they are sent. The request is served by a task
//! of its own, so that it continues while its client is away. Whoever resumes the stream reads the log; if the replica that
//! serves the request died, the stream ends with an error for the request.

use std::{
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use muster_core::{
    json::Raw,
    shared::{LogLimits, ReplicaLink, StoreError},
};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep},
};

use super::{
    App, ORPHAN_TIMEOUT,
    body::{EventSource, event, event_with_id},
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
/// The largest event in a log.
const MAX_EVENT: usize = 4 * 1024 * 1024;
/// The events that a client may fall behind before its request waits.
const QUEUE: usize = 64;
/// How long a request continues for a client that is away, unless it resumes the stream.
const RESUME_WINDOW: Duration = Duration::from_secs(30);
/// How often a resumed stream looks for further events.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// How long a resumed stream is known to be watched.
const WATCH_TTL: Duration = Duration::from_secs(10);

/// What an entry of a log is, in its first byte.
const REQUEST: u8 = b'r';
const MESSAGE: u8 = b'm';
const RESPONSE: u8 = b'f';
const END: u8 = b'e';
const TOO_LARGE: u8 = b't';

/// The log of one response stream.
pub(super) struct EventLog {
    app: Arc<App>,
    session: Arc<HttpSession>,
    link: Arc<dyn ReplicaLink>,
    /// The id of the request.
    request: Raw,
    stream: String,
    position: u64,
}

impl EventLog {
    /// A log for a request of a session, if replicas share sessions.
    pub(super) fn of(app: &Arc<App>, session: &Arc<HttpSession>, request: &Raw) -> Option<Self> {
        let link = Arc::clone(&app.replica_sessions.as_ref()?.link);
        let stream = format!("{}-{}", link.id(), session.next_stream());
        let (app, session, request) = (Arc::clone(app), Arc::clone(session), request.clone());
        Some(Self { app, session, link, request, stream, position: 0 })
    }

    /// Serves the request in a task of its own, and returns its events.
    pub(super) fn serve(self, events: ResponseEvents) -> Box<dyn EventSource> {
        let (client, received) = mpsc::channel(QUEUE);
        let tasks = self.app.tasks.clone();
        tasks.spawn(self.run(events, client));
        Box::new(Received(received))
    }

    async fn run(mut self, mut events: ResponseEvents, client: mpsc::Sender<Bytes>) {
        let request = self.request.get().as_bytes().to_vec();
        self.append(REQUEST, &request).await;
        let cut = self.app.cut.clone();
        let mut given_up = std::pin::pin!(given_up(
            Arc::clone(&self.link),
            self.key(),
            Arc::clone(&self.session),
            client.clone(),
        ));
        let mut is_cut = false;
        loop {
            let next = tokio::select! {
                biased;
                next = poll_fn(|cx| events.poll_next(cx)) => next,
                () = cut.cancelled(), if !is_cut => {
                    // The request is polled again, and answers.
                    is_cut = true;
                    continue;
                }
                () = given_up.as_mut() => {
                    events.cancel();
                    self.append(END, b"").await;
                    return;
                }
            };
            let (kind, line) = match next {
                None => {
                    self.append(END, b"").await;
                    return;
                }
                Some(Outgoing::Comment(comment)) => {
                    // The client may be away.
                    drop(client.send(comment).await);
                    continue;
                }
                Some(Outgoing::Message(line)) => (MESSAGE, line),
                Some(Outgoing::Response(line)) => (RESPONSE, line),
            };
            let framed = match self.append(kind, &line).await {
                Some(position) => event_with_id(&event_id(&self.stream, position), &line),
                None => event(&line),
            };
            drop(client.send(framed).await);
            if kind == RESPONSE {
                return;
            }
        }
    }

    /// Appends an entry; `None` if it cannot be stored, so that the stream cannot be resumed from it.
    async fn append(&mut self, kind: u8, line: &[u8]) -> Option<u64> {
        self.position += 1;
        let entry = match line.len() > MAX_EVENT {
            true => vec![TOO_LARGE],
            false => [&[kind], line].concat(),
        };
        let is_whole = line.len() <= MAX_EVENT;
        let appended = self.link.state().append(&self.key(), self.position, entry, LIMITS).await;
        match appended {
            Ok(true) if is_whole => Some(self.position),
            Ok(_) => None,
            Err(error) => {
                tracing::debug!("an event cannot be resumed from: {error}");
                None
            }
        }
    }

    fn key(&self) -> String {
        key(&self.session.id, &self.stream)
    }
}

/// Waits until the client is away and does not return.
async fn given_up(
    link: Arc<dyn ReplicaLink>,
    key: String,
    session: Arc<HttpSession>,
    client: mpsc::Sender<Bytes>,
) {
    client.closed().await;
    let end = Instant::now() + ORPHAN_TIMEOUT;
    let watched = watch_key(&key);
    loop {
        sleep(RESUME_WINDOW).await;
        let is_watched = link.state().get(&watched).await.is_ok_and(|watched| watched.is_some());
        let is_there = is_watched || *session.streams.borrow() > 0;
        if !is_there || Instant::now() >= end {
            tracing::debug!("a request was cancelled: its client is gone");
            return;
        }
    }
}

/// The events of a stream after the one that a client received last; `None` if the id is not one of a response stream.
pub(super) fn resume(
    app: &Arc<App>,
    session: &Arc<HttpSession>,
    last_event_id: &str,
) -> Option<Box<dyn EventSource>> {
    let link = Arc::clone(&app.replica_sessions.as_ref()?.link);
    let (stream, position) = parse(last_event_id)?;
    let (client, received) = mpsc::channel(QUEUE);
    let stream = ResumedStream {
        link,
        key: key(&session.id, stream),
        replica: stream.split('-').next().unwrap_or_default().to_owned(),
        stream: stream.to_owned(),
        client,
    };
    let (cut, ended) = (app.draining.clone(), session.ended.clone());
    session.streams.send_modify(|streams| *streams += 1);
    let session = Arc::clone(session);
    app.tasks.spawn(async move {
        tokio::select! {
            () = stream.run(position) => (),
            // The client resumes it at another replica.
            () = cut.cancelled() => (),
            () = ended.cancelled() => (),
        }
        session.streams.send_modify(|streams| *streams -= 1);
    });
    Some(Box::new(Received(received)))
}

/// A stream that a client resumed.
struct ResumedStream {
    link: Arc<dyn ReplicaLink>,
    key: String,
    stream: String,
    /// The replica that serves the request.
    replica: String,
    client: mpsc::Sender<Bytes>,
}

impl ResumedStream {
    async fn run(self, mut position: u64) {
        let client = self.client.clone();
        let follow = async {
            match self.is_over(position).await {
                Ok(false) => (),
                Ok(true) => return,
                Err(error) => tracing::debug!("a resumed stream waits: {error}"),
            }
            let mut watched_until = Instant::now();
            loop {
                if Instant::now() >= watched_until {
                    watched_until = Instant::now() + WATCH_TTL / 2;
                    let watch = watch_key(&self.key);
                    drop(self.link.state().put(&watch, b"1".to_vec(), WATCH_TTL).await);
                }
                // Looked up before the log is read: its last entries are not missed.
                let is_alive = self.link.is_alive(&self.replica).await.unwrap_or(true);
                match self.pass_on(&mut position).await {
                    Ok(Progress::Ended) => return,
                    Ok(Progress::Pending) if !is_alive => return self.died().await,
                    Ok(Progress::Pending) => (),
                    Err(error) => tracing::debug!("a resumed stream waits: {error}"),
                }
                sleep(POLL_INTERVAL).await;
            }
        };
        tokio::select! {
            () = follow => (),
            () = client.closed() => (),
        }
    }

    /// Whether the event at a position was the last, or is not known: its stream expired, or is another session's.
    async fn is_over(&self, position: u64) -> Result<bool, StoreError> {
        let entries =
            self.link.state().entries(&self.key, position.saturating_sub(1), LIMITS.length).await?;
        let received = entries.first().filter(|(at, _)| *at == position);
        let kind = received.and_then(|(_, entry)| entry.first());
        Ok(!matches!(kind, Some(&(REQUEST | MESSAGE))))
    }

    /// Sends the events after a position.
    async fn pass_on(&self, position: &mut u64) -> Result<Progress, StoreError> {
        for (at, entry) in self.link.state().entries(&self.key, *position, LIMITS.length).await? {
            *position = at;
            let Some((kind, line)) = entry.split_first() else { continue };
            match *kind {
                MESSAGE | RESPONSE => {
                    let framed = event_with_id(&event_id(&self.stream, at), line);
                    drop(self.client.send(framed).await);
                    if *kind == RESPONSE {
                        return Ok(Progress::Ended);
                    }
                }
                END => return Ok(Progress::Ended),
                TOO_LARGE => {
                    self.fail("the response is too large to be resumed").await;
                    return Ok(Progress::Ended);
                }
                _ => (),
            }
        }
        Ok(Progress::Pending)
    }

    async fn died(&self) {
        self.fail(
            "the replica that served this request died: the request may have been carried out in part; repeat it only \
             if that does no harm",
        )
        .await;
    }

    /// Answers the request with an error.
    async fn fail(&self, message: &str) {
        let first =
            self.link.state().entries(&self.key, 0, LIMITS.length).await.unwrap_or_default();
        let request = first.into_iter().find_map(|(_, entry)| {
            let (kind, id) = entry.split_first()?;
            (*kind == REQUEST).then(|| serde_json::from_slice::<Raw>(id).ok()).flatten()
        });
        let Some(id) = request else { return };
        let error = RpcError::new(code::INTERNAL_ERROR, message);
        let response = RpcResponse::error(Era::Legacy, Some(&id), error);
        drop(self.client.send(event(&response.to_line())).await);
    }
}

/// Whether a stream has further events.
enum Progress {
    Pending,
    Ended,
}

/// Events that a task sends.
struct Received(mpsc::Receiver<Bytes>);

impl EventSource for Received {
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        self.0.poll_recv(cx)
    }
}

fn key(session: &str, stream: &str) -> String {
    format!("events:{}:{stream}", digest(session))
}

fn watch_key(key: &str) -> String {
    format!("watch:{key}")
}

fn event_id(stream: &str, position: u64) -> String {
    format!("{stream}.{position}")
}

/// The stream and the position of an event id.
fn parse(event_id: &str) -> Option<(&str, u64)> {
    let (stream, position) = event_id.rsplit_once('.')?;
    let (replica, number) = stream.split_once('-')?;
    let is_id = replica.len() == 16 && replica.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_id && number.parse::<u64>().is_ok()).then_some((stream, position.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn event_ids() {
        let id = "0123456789abcdef-3.17";
        assert_eq!(parse(id), Some(("0123456789abcdef-3", 17)));
        for other in ["", "s.3", "0123456789abcdef.3", "0123456789abcdef-3", "zz-1.2", "*-1.2"] {
            assert_eq!(parse(other), None, "{other}");
        }
    }
}
