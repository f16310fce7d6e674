//! The standalone stream of a legacy session: messages that belong to no request.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::{
    body::{EventSource, event},
    sessions::HttpSession,
};

type Cancelled = Pin<Box<WaitForCancellationFutureOwned>>;

/// A standalone stream. It ends with the session, when the client opens another, or at shutdown.
pub(super) struct SessionStream {
    session: Arc<HttpSession>,
    replaced: Cancelled,
    shutdown: Cancelled,
}

impl SessionStream {
    pub(super) fn new(session: Arc<HttpSession>, shutdown: CancellationToken) -> Self {
        session.streams.send_modify(|streams| *streams += 1);
        let replaced = Box::pin(session.open_stream().cancelled_owned());
        Self { session, replaced, shutdown: Box::pin(shutdown.cancelled_owned()) }
    }
}

impl EventSource for SessionStream {
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.replaced.as_mut().poll(cx).is_ready() || self.shutdown.as_mut().poll(cx).is_ready()
        {
            return Poll::Ready(None);
        }
        let line = std::task::ready!(self.session.waiting.lock().poll_recv(cx));
        Poll::Ready(line.map(|line| event(&line)))
    }
}

impl Drop for SessionStream {
    fn drop(&mut self) {
        self.session.streams.send_modify(|streams| *streams -= 1);
    }
}
