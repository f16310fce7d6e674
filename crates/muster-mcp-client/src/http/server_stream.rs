//! The standalone SSE stream of a legacy session, for messages of the upstream that belong to no request: reconnects,
//! retries and their backoff.

use std::sync::Arc;

use muster_core::backoff::Backoff;
use tracing::debug;

use super::session::{HttpSession, SessionId, StreamCursor};
use crate::{error::TransportError, http::sse::EventReader, spool::Payload};

/// Handles the events of a standalone stream.
pub(crate) trait StreamHandler: Send + Sync {
    /// Waits until requests may be sent.
    fn ready(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// Called when the stream is open.
    fn opened(&self) {}

    /// Handles a message.
    fn message(&self, message: Payload) -> impl Future<Output = ()> + Send;

    /// Replaces a lost session.
    fn renew(&self, stale: &SessionId) -> impl Future<Output = Result<(), TransportError>> + Send;

    /// Called when the stream broke off and cannot be resumed: messages may have been missed.
    fn missed_messages(&self) {}
}

/// When and how often a standalone stream is reopened.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReconnectPolicy {
    pub(crate) backoff: Backoff,
    /// The number of failures in a row after which to give up; `None` to retry for ever.
    pub(crate) max_failures: Option<u32>,
    /// Whether to keep retrying while there is no login; another request obtains it.
    pub(crate) retry_unauthorized: bool,
}

/// Keeps the standalone stream open until the upstream turns out to have none, or until it has been unreachable as
/// often as the policy allows. Returns why it stopped.
pub(crate) async fn listen(
    session: &Arc<HttpSession>,
    policy: ReconnectPolicy,
    handler: &impl StreamHandler,
) -> TransportError {
    let mut cursor = StreamCursor::default();
    // Failures to open a stream, and streams that ended without a message.
    let (mut failures, mut silent) = (0, 0);
    loop {
        handler.ready().await;
        let id = session.id();
        match session.open_stream(&id, &cursor).await {
            Ok((events, _connection)) => {
                handler.opened();
                failures = 0;
                silent = if drain(events, &mut cursor, handler).await { 0 } else { silent + 1 };
                cursor.sleep_before_reconnect(policy.backoff, silent).await;
                continue;
            }
            Err(TransportError::SessionGone { .. }) => {
                cursor = StreamCursor::default();
                match handler.renew(&id).await {
                    Ok(()) => {
                        failures = 0;
                        continue;
                    }
                    Err(error) => debug!("the session was not replaced: {error}"),
                }
                failures += 1;
            }
            Err(error)
                if error.is_disconnect()
                    || policy.retry_unauthorized
                        && matches!(error, TransportError::Unauthorized { .. }) =>
            {
                debug!("no event stream: {error}");
                failures += 1;
                if policy.max_failures.is_some_and(|max| failures >= max) {
                    return error;
                }
            }
            Err(error) => return error,
        }
        cursor.sleep_before_reconnect(policy.backoff, failures).await;
    }
}

/// Handles messages until the stream ends; returns whether there were any.
async fn drain(
    mut events: EventReader,
    cursor: &mut StreamCursor,
    handler: &impl StreamHandler,
) -> bool {
    let mut any = false;
    loop {
        match events.next().await {
            Ok(Some(event)) => {
                cursor.advance(&event);
                if let Some(message) = event.into_payload() {
                    any = true;
                    handler.message(message).await;
                }
            }
            Ok(None) => return any,
            Err(_) => {
                if !cursor.is_resumable() {
                    handler.missed_messages();
                }
                return any;
            }
        }
    }
}
