//! The stream on which a legacy server says what belongs to no request.

use std::{sync::Arc, time::Duration};

use http::HeaderValue;
use muster_core::connect::ConnectionEvent;
use tokio::{sync::oneshot, time::sleep};
use tracing::debug;

use super::Http;
use crate::{failure::Failure, sse};

/// How long to wait before coming again, where the server does not say.
const RETRY: Duration = Duration::from_millis(250);
const LONGEST_RETRY: Duration = Duration::from_secs(30);
/// A server that cannot be reached so often in a row is gone; whoever looks after it tries again.
const GONE: u32 = 2;

/// How far a stream has been read.
#[derive(Debug, Default)]
pub(super) struct Place {
    pub(super) last: Option<HeaderValue>,
    retry: Option<Duration>,
}

impl Place {
    pub(super) fn note(&mut self, event: &sse::Event) {
        if let Some(id) = &event.id {
            self.last = HeaderValue::from_str(id).ok();
        }
        self.retry = event.retry.or(self.retry);
    }

    /// How long to wait after `failures` in a row.
    pub(super) fn wait(&self, failures: u32) -> Duration {
        let retry = self.retry.unwrap_or(RETRY);
        retry.saturating_mul(2_u32.saturating_pow(failures.min(8))).min(LONGEST_RETRY)
    }
}

impl Http {
    /// Listens to what the server says unasked, for as long as it does. `opened` hears when it is
    /// being listened to.
    pub(crate) async fn stand(self: Arc<Self>, opened: oneshot::Sender<()>) {
        let mut opened = Some(opened);
        let mut place = Place::default();
        let (mut failures, mut silent) = (0, 0);
        loop {
            let session = self.session.lock().clone();
            match self.open(&session, &place).await {
                Ok((stream, _sender)) => {
                    // Nobody may be waiting for it any more.
                    opened.take().map(|opened| opened.send(()).ok());
                    failures = 0;
                    silent = if self.hear(stream, &mut place).await { 0 } else { silent + 1 };
                    sleep(place.wait(silent)).await;
                }
                Err(Failure::SessionGone { .. }) => {
                    place = Place::default();
                    match self.renew(&session).await {
                        Ok(_) => failures = 0,
                        Err(failure) => {
                            debug!(server = &*self.inbox.name, "no new session: {failure}");
                            failures += 1;
                            sleep(place.wait(failures)).await;
                        }
                    }
                }
                Err(Failure::Lost(reason)) => {
                    failures += 1;
                    if failures >= GONE {
                        return self.inbox.events.on_event(ConnectionEvent::Closed { reason });
                    }
                    sleep(place.wait(failures)).await;
                }
                // Most servers have no such stream, and need not.
                Err(failure) => {
                    return debug!(server = &*self.inbox.name, "no stream of events: {failure}");
                }
            }
        }
    }

    /// Takes events in until the stream ends; whether there were any.
    async fn hear(self: &Arc<Self>, mut stream: sse::Stream, place: &mut Place) -> bool {
        let mut any = false;
        loop {
            match stream.next().await {
                Ok(Some(event)) => {
                    place.note(&event);
                    if !event.is_silent() {
                        any = true;
                        // No request of ours is answered here.
                        drop(self.inbox.hear(event, None, &self.outlet()).await);
                    }
                }
                Ok(None) => return any,
                Err(_) => {
                    if place.last.is_none() {
                        // What was said meanwhile is lost.
                        self.inbox.events.on_event(ConnectionEvent::ListChanged);
                    }
                    return any;
                }
            }
        }
    }
}
