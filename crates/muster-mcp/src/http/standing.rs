//! The standing stream of a session: what is told outside of any request.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::{
    body::{Source, event},
    sessions::HttpSession,
};

type Waiting = Pin<Box<WaitForCancellationFutureOwned>>;

/// It ends with the session, when the client opens another, or when we leave.
pub(super) struct Standing {
    session: Arc<HttpSession>,
    replaced: Waiting,
    leaving: Waiting,
}

impl Standing {
    pub(super) fn new(session: Arc<HttpSession>, leaving: CancellationToken) -> Self {
        session.streams.send_modify(|streams| *streams += 1);
        let replaced = Box::pin(session.stand().cancelled_owned());
        Self { session, replaced, leaving: Box::pin(leaving.cancelled_owned()) }
    }
}

impl Source for Standing {
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.replaced.as_mut().poll(cx).is_ready() || self.leaving.as_mut().poll(cx).is_ready() {
            return Poll::Ready(None);
        }
        let line = std::task::ready!(self.session.waiting.lock().poll_recv(cx));
        Poll::Ready(line.map(|line| event(&line)))
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        self.session.streams.send_modify(|streams| *streams -= 1);
    }
}
