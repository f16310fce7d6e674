//! The standalone stream of a legacy session: messages that belong to no request.

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::{Arc, atomic::Ordering},
    task::{Context, Poll},
};

use bytes::Bytes;
use muster_core::request::Change;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::{
    body::{EventSource, event},
    connections::StandingStream,
    sessions::HttpSession,
};
use crate::change_notifications;

type Cancelled = Pin<Box<WaitForCancellationFutureOwned>>;

/// A standalone stream. It ends with the session, when the client opens another, or at shutdown.
pub(super) struct SessionStream {
    session: Arc<HttpSession>,
    /// Changes that the client may have missed; sent first.
    missed: VecDeque<Vec<u8>>,
    replaced: Cancelled,
    shutdown: Cancelled,
}

impl SessionStream {
    pub(super) fn new(session: Arc<HttpSession>, shutdown: CancellationToken) -> Self {
        session.streams.send_modify(|streams| *streams += 1);
        let missed = match session.is_outdated.swap(false, Ordering::Relaxed) {
            true => missed_changes(&session),
            false => VecDeque::new(),
        };
        let replaced = Box::pin(session.open_stream().cancelled_owned());
        Self { session, missed, replaced, shutdown: Box::pin(shutdown.cancelled_owned()) }
    }
}

/// Notifications of every change that a client may have missed: it lists and reads again what it needs.
fn missed_changes(session: &HttpSession) -> VecDeque<Vec<u8>> {
    let lists = [Change::Tools, Change::Resources, Change::Prompts].into_iter();
    let resources = session.state.all_subscriptions().into_iter();
    let changes = lists.chain(resources.map(|uri| Change::Resource { uri }));
    changes.map(|change| change_notifications::line(&change)).collect()
}

impl EventSource for SessionStream {
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.replaced.as_mut().poll(cx).is_ready() || self.shutdown.as_mut().poll(cx).is_ready()
        {
            return Poll::Ready(None);
        }
        if let Some(line) = self.missed.pop_front() {
            return Poll::Ready(Some(event(&line)));
        }
        let line = std::task::ready!(self.session.waiting.lock().poll_recv(cx));
        Poll::Ready(line.map(|line| event(&line)))
    }

    fn standing(&self) -> Option<StandingStream> {
        Some(StandingStream::Changes)
    }
}

impl Drop for SessionStream {
    fn drop(&mut self) {
        self.session.streams.send_modify(|streams| *streams -= 1);
    }
}
