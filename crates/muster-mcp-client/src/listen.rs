//! Word of changes from a modern server: a request that stays open, and is made again when it ends.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use muster_core::{
    connect::ConnectionEvent,
    json::{Raw, RawObject},
};
use tokio::{
    sync::oneshot,
    task::AbortHandle,
    time::{sleep, timeout},
};
use tracing::debug;

use super::{
    failure::Failure,
    peer::{Peer, Want},
};

const RETRY: Duration = Duration::from_millis(250);
const LONGEST_RETRY: Duration = Duration::from_secs(30);
/// A stream that lasted this long was a good one.
const GOOD: Duration = Duration::from_secs(10);
/// A server that cannot be reached so often in a row is gone; whoever looks after it tries again.
const GONE: u32 = 2;
/// What is missed while a stream is down.
#[derive(Debug, Clone)]
pub(super) enum Missed {
    /// Any list may have changed.
    Lists,
    /// This resource may have changed.
    Resource(String),
}

/// A stream that has been begun.
#[derive(Debug)]
pub(super) struct Begun {
    /// It goes on until this is aborted.
    pub(super) task: AbortHandle,
    acceptance: oneshot::Receiver<Raw>,
    failure: oneshot::Receiver<Failure>,
}

/// Begins to listen for what `filter` names.
pub(super) fn listen(peer: &Arc<Peer>, filter: Raw, missed: Missed) -> Begun {
    let (accepted, acceptance) = oneshot::channel();
    let (failed, failure) = oneshot::channel();
    let listening = Listening { peer: Arc::clone(peer), filter, missed };
    let task = peer.inbox.tasks.spawn(listening.run(accepted, failed)).abort_handle();
    Begun { task, acceptance, failure }
}

impl Begun {
    /// What the server accepted.
    pub(super) async fn accepted(self, limit: Duration) -> Result<Raw, Failure> {
        match timeout(limit, self.acceptance).await {
            Ok(Ok(params)) => Ok(params),
            Ok(Err(_)) => {
                Err(self.failure.await.unwrap_or_else(|_| Failure::Lost("it is gone".to_owned())))
            }
            Err(_) => Err(Failure::Lost("it does not say what it will give word of".to_owned())),
        }
    }
}

/// Whether the server accepted to give word of a resource.
pub(super) fn covers(accepted: &Raw, uri: &str) -> bool {
    let accepted = RawObject::parse(accepted).unwrap_or_default();
    let filter = accepted.get("notifications").and_then(RawObject::parse).unwrap_or_default();
    let uris = filter.get("resourceSubscriptions");
    let uris: Vec<String> =
        uris.and_then(|uris| serde_json::from_str(uris.get()).ok()).unwrap_or_default();
    uris.iter().any(|other| other == uri)
}

struct Listening {
    peer: Arc<Peer>,
    filter: Raw,
    missed: Missed,
}

impl Listening {
    async fn run(self, accepted: oneshot::Sender<Raw>, failed: oneshot::Sender<Failure>) {
        let (mut accepted, mut failed) = (Some(accepted), Some(failed));
        let mut failures: u32 = 0;
        loop {
            let begin = Instant::now();
            let accepted = accepted.take();
            let want = Want { accepted, ..Want::own("subscriptions/listen") };
            let request =
                self.peer.request(want, |writing| writing.raw("notifications", &self.filter));
            let end = request.await;
            failures = if begin.elapsed() > GOOD { 0 } else { failures + 1 };
            if let Err(failure) = end {
                let lost = matches!(failure, Failure::Lost(_) | Failure::Status { status: 500.. });
                let reason = failure.to_string();
                let name = &*self.peer.inbox.name;
                debug!(server = name, "no more word of changes: {reason}");
                // Whoever began it waits for the first outcome only.
                let told = failed.take().is_some_and(|failed| failed.send(failure).is_ok());
                if told || !lost || self.peer.inbox.calls.closed().is_some() {
                    return;
                }
                if failures >= GONE {
                    return self.peer.inbox.events.on_event(ConnectionEvent::Closed { reason });
                }
            }
            let wait = RETRY.saturating_mul(2_u32.saturating_pow(failures.min(8)));
            sleep(wait.min(LONGEST_RETRY)).await;
            self.peer.inbox.events.on_event(match &self.missed {
                Missed::Lists => ConnectionEvent::ListChanged,
                Missed::Resource(uri) => ConnectionEvent::ResourceUpdated { uri: uri.clone() },
            });
        }
    }
}
