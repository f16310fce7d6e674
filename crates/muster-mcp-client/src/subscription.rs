//! Change notifications of a modern server: a request that stays open and is repeated when it ends.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use muster_core::{
    backend::boxed,
    connect::ConnectionEvent,
    json::{Raw, RawObject},
};
use muster_mcp::wire::{RpcError, code};
use tokio::{sync::oneshot, task::AbortHandle, time::timeout};
use tracing::debug;

use crate::{
    error::TransportError,
    http::session::{STREAM_BACKOFF, sleep_before_reconnect},
    message::MessageWriter,
    peer::{OutgoingRequest, Peer},
};

/// A stream that lasted this long resets the backoff.
const STABLE: Duration = Duration::from_secs(10);
/// The number of failures in a row after which an upstream is reported as gone, and the supervisor reconnects.
const MAX_FAILURES: u32 = 2;

/// Changes that may have been missed while a stream was down.
#[derive(Debug, Clone)]
pub(crate) enum MayHaveChanged {
    /// Any list.
    Lists,
    /// This resource.
    Resource(String),
}

/// A subscription that has been requested.
#[derive(Debug)]
pub(crate) struct Subscription {
    /// Aborting it ends the subscription.
    pub(crate) task: AbortHandle,
    acknowledgement: oneshot::Receiver<Raw>,
    error: oneshot::Receiver<TransportError>,
}

/// Subscribes to the changes that `filter` names.
pub(crate) fn subscribe(peer: &Arc<Peer>, filter: Raw, changed: MayHaveChanged) -> Subscription {
    let (acknowledged, acknowledgement) = oneshot::channel();
    let (failed, error) = oneshot::channel();
    let subscriber = Subscriber { peer: Arc::clone(peer), filter, changed };
    let task = peer.router.tasks.spawn(boxed(subscriber.run(acknowledged, failed))).abort_handle();
    Subscription { task, acknowledgement, error }
}

impl Subscription {
    /// Waits for the upstream to acknowledge the subscription; returns what it acknowledged.
    pub(crate) async fn acknowledged(self, limit: Duration) -> Result<Raw, TransportError> {
        match timeout(limit, self.acknowledgement).await {
            Ok(Ok(params)) => Ok(params),
            Ok(Err(_)) => {
                let gone = |_| TransportError::Lost("it is gone".to_owned());
                Err(self.error.await.unwrap_or_else(gone))
            }
            Err(_) => {
                let text = format!("no acknowledgement within {} s", limit.as_secs_f64());
                Err(TransportError::refused(RpcError::new(code::INTERNAL_ERROR, text)))
            }
        }
    }
}

/// Whether an acknowledgement includes a resource.
pub(crate) fn covers(acknowledged: &Raw, uri: &str) -> bool {
    let acknowledged = RawObject::parse(acknowledged).unwrap_or_default();
    let filter = acknowledged.get("notifications").and_then(RawObject::parse).unwrap_or_default();
    let uris = filter.get("resourceSubscriptions");
    let uris: Vec<String> =
        uris.and_then(|uris| serde_json::from_str(uris.get()).ok()).unwrap_or_default();
    uris.iter().any(|other| other == uri)
}

struct Subscriber {
    peer: Arc<Peer>,
    filter: Raw,
    changed: MayHaveChanged,
}

impl Subscriber {
    async fn run(
        self,
        acknowledged: oneshot::Sender<Raw>,
        failed: oneshot::Sender<TransportError>,
    ) {
        let (mut acknowledged, mut failed) = (Some(acknowledged), Some(failed));
        let mut failures: u32 = 0;
        loop {
            let started = Instant::now();
            let request = OutgoingRequest {
                acknowledged: acknowledged.take(),
                ..OutgoingRequest::own("subscriptions/listen")
            };
            let write = |writer: MessageWriter| writer.raw("notifications", &self.filter);
            let end = self.peer.request(request, write).await;
            failures = if started.elapsed() > STABLE { 0 } else { failures + 1 };
            if let Err(error) = end {
                let is_down = error.is_disconnect()
                    || matches!(error, TransportError::Status { status: 500.. });
                let reason = error.to_string();
                debug!(server = &*self.peer.router.name, "no change notifications: {reason}");
                // The subscriber waits for the first outcome only.
                let reported = failed.take().is_some_and(|failed| failed.send(error).is_ok());
                if reported || !is_down || self.peer.router.pending.closed().is_some() {
                    return;
                }
                if failures >= MAX_FAILURES {
                    return self.peer.router.events.on_event(ConnectionEvent::Closed { reason });
                }
            }
            sleep_before_reconnect(STREAM_BACKOFF, failures).await;
            self.peer.router.events.on_event(match &self.changed {
                MayHaveChanged::Lists => ConnectionEvent::ListChanged,
                MayHaveChanged::Resource(uri) => {
                    ConnectionEvent::ResourceUpdated { uri: uri.clone() }
                }
            });
        }
    }
}
