//! A response stream that its client resumed by `Last-Event-ID`, read from the log of its events.
//!
//! If the replica that serves the request died, or the log is lost, the stream ends with an error for the request.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use muster_core::{
    backend::boxed,
    backoff::Backoff,
    json::Raw,
    shared::{ReplicaLink, StoreError},
};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep},
};

use super::{
    App,
    body::{EventSource, event, event_with_id},
    event_log::{
        END, MESSAGE, QUEUE, RESPONSE, Received, TOO_LARGE, event_id, key, parse, request_key,
        watch_key,
    },
    sessions::HttpSession,
};
use crate::{
    server::RpcResponse,
    version::Era,
    wire::{RpcError, code},
};

/// The delays between two reads of a log that had no further events.
const POLL: Backoff = Backoff { first: Duration::from_millis(200), max: Duration::from_secs(2) };
/// How often a stream checks that its request is still served.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);
/// How long all replicas may seem dead after an outage of the shared state, until they have renewed their leases.
const RECOVERY: Duration = Duration::from_secs(10);
/// The TTL of the key that records that a client reads a stream.
const WATCH_TTL: Duration = Duration::from_secs(10);
/// The number of events that are read at a time.
const MAX_ENTRIES: usize = 64;

const DIED: &str = "the replica that served this request died: the request may have been carried out in part; repeat it \
                    only if that does no harm";
const LOST: &str = "the events of this request are no longer stored: the request may have been carried out; repeat it only \
                    if that does no harm";

/// The events of a stream are not stored: they have expired, or the stream belongs to another session.
#[derive(Debug)]
pub(super) struct UnknownStream;

/// Returns the events after the one that a client received last; `None` if the id is not that of a response stream.
pub(super) async fn resume(
    app: &Arc<App>,
    session: &Arc<HttpSession>,
    last_event_id: &str,
) -> Result<Option<Box<dyn EventSource>>, UnknownStream> {
    let Some(shared) = &app.replica_sessions else { return Ok(None) };
    let Some((stream, position)) = parse(last_event_id) else { return Ok(None) };
    let (client, received) = mpsc::channel(QUEUE);
    let stream = ResumedStream {
        link: Arc::clone(&shared.link),
        key: key(&session.id, stream),
        replica: stream.split('-').next().unwrap_or_default().to_owned(),
        stream: stream.to_owned(),
        client,
    };
    match stream.event_at(position).await {
        Ok(LogEntry::Unknown) => return Err(UnknownStream),
        // Nothing follows.
        Ok(LogEntry::End) => return Ok(Some(Box::new(Received(received)))),
        Ok(LogEntry::Event) => (),
        Err(error) => tracing::debug!("a resumed stream waits: {error}"),
    }
    let (cut, ended) = (app.draining.clone(), session.ended.clone());
    session.streams.send_modify(|streams| *streams += 1);
    let session = Arc::clone(session);
    app.tasks.spawn(boxed(async move {
        tokio::select! {
            () = stream.run(position) => (),
            // The client resumes it at another replica.
            () = cut.cancelled() => (),
            () = ended.cancelled() => (),
        }
        session.streams.send_modify(|streams| *streams -= 1);
    }));
    Ok(Some(Box::new(Received(received))))
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

/// The entry of a log at a position.
enum LogEntry {
    /// An event that others may follow, or one that the log has dropped.
    Event,
    /// The last event.
    End,
    /// There is no entry at this position or later.
    Unknown,
}

/// The progress of a log.
enum Progress {
    /// Events, which others may follow.
    Events,
    /// Nothing yet.
    Nothing,
    /// The last event.
    Ended,
}

/// The request behind a stream.
enum Request {
    Served,
    /// Its events are no longer stored.
    Lost,
    /// Its replica is dead.
    Died,
}

impl ResumedStream {
    async fn run(self, position: u64) {
        tokio::select! {
            () = self.follow(position) => (),
            () = self.client.closed() => (),
        }
    }

    async fn follow(&self, mut position: u64) {
        let (mut id, mut silent, mut failed) = (None, 0, None);
        let (mut checked_until, mut watched_until) = (Instant::now(), Instant::now());
        loop {
            if Instant::now() >= watched_until {
                let (watch, until) = (watch_key(&self.key), Instant::now() + WATCH_TTL / 2);
                if self.link.state().put(&watch, b"1".to_vec(), WATCH_TTL).await.is_ok() {
                    watched_until = until;
                }
            }
            let mut request = Ok(Request::Served);
            if Instant::now() >= checked_until {
                checked_until = Instant::now() + CHECK_INTERVAL;
                // Check before the log is read, so that its last entries are not missed.
                request = self.check(&mut id).await;
            }
            let progress = self.pass_on(&mut position, id.as_ref()).await;
            match (progress, request) {
                (Ok(Progress::Ended), _) => return,
                (Ok(Progress::Events), _) => {
                    silent = 0;
                    continue;
                }
                (Ok(Progress::Nothing), Ok(Request::Died)) => {
                    if failed.is_none_or(|at: Instant| at.elapsed() >= RECOVERY) {
                        return self.fail(id.as_ref(), DIED).await;
                    }
                }
                (Ok(Progress::Nothing), Ok(Request::Lost)) => {
                    return self.fail(id.as_ref(), LOST).await;
                }
                (Ok(Progress::Nothing), Ok(Request::Served)) => (),
                (Err(error), _) | (_, Err(error)) => {
                    failed = Some(Instant::now());
                    tracing::debug!("a resumed stream waits: {error}");
                }
            }
            sleep(POLL.delay(silent)).await;
            silent += 1;
        }
    }

    async fn event_at(&self, position: u64) -> Result<LogEntry, StoreError> {
        let found = self.link.state().entries(&self.key, position.saturating_sub(1), 1).await?;
        Ok(match found.first() {
            None => LogEntry::Unknown,
            Some((at, entry)) if *at == position => match entry.first() {
                Some(&(RESPONSE | END | TOO_LARGE)) => LogEntry::End,
                _ => LogEntry::Event,
            },
            Some(_) => LogEntry::Event,
        })
    }

    /// Checks that the request is served, and reads its id.
    async fn check(&self, id: &mut Option<Raw>) -> Result<Request, StoreError> {
        let is_alive = self.link.is_alive(&self.replica).await?;
        let stored = self.link.state().get(&request_key(&self.key)).await?;
        let is_known = stored.is_some();
        *id = id.take().or_else(|| serde_json::from_slice(&stored?).ok());
        Ok(match (is_alive, is_known) {
            (false, _) => Request::Died,
            (true, false) => Request::Lost,
            (true, true) => Request::Served,
        })
    }

    /// Sends the events after a position.
    async fn pass_on(&self, position: &mut u64, id: Option<&Raw>) -> Result<Progress, StoreError> {
        let entries = self.link.state().entries(&self.key, *position, MAX_ENTRIES).await?;
        let mut progress = Progress::Nothing;
        for (at, entry) in entries {
            progress = Progress::Events;
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
                    self.fail(id, "the response is too large to be resumed").await;
                    return Ok(Progress::Ended);
                }
                _ => (),
            }
        }
        Ok(progress)
    }

    /// Sends an error as the response to the request.
    async fn fail(&self, id: Option<&Raw>, message: &str) {
        let Some(id) = id else { return };
        let error = RpcError::new(code::INTERNAL_ERROR, message);
        let response = RpcResponse::error(Era::Legacy, Some(id), error);
        drop(self.client.send(event(&response.to_line())).await);
    }
}
