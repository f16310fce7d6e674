//! The open subscriptions of modern clients, which have no session that could be ended.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use muster_core::call::Caller;
use tokio_util::sync::CancellationToken;

use crate::lock::Lock;

/// The subscriptions by number.
#[derive(Debug, Default)]
pub(super) struct Listeners {
    started: AtomicU64,
    open: Lock<BTreeMap<u64, (Caller, CancellationToken)>>,
}

impl Listeners {
    /// Registers a subscription. It ends with `shutdown`, or when its own token is cancelled.
    pub(super) fn open(
        self: &Arc<Self>,
        caller: &Caller,
        shutdown: &CancellationToken,
    ) -> OpenListener {
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        let ended = shutdown.child_token();
        self.open.lock().insert(number, (caller.clone(), ended.clone()));
        OpenListener { listeners: Arc::clone(self), number, ended }
    }

    /// The callers with open subscriptions, each with the token that ends the subscription.
    pub(super) fn all(&self) -> Vec<(Caller, CancellationToken)> {
        self.open.lock().values().cloned().collect()
    }
}

/// An open subscription. Dropping it unregisters it.
pub(super) struct OpenListener {
    listeners: Arc<Listeners>,
    number: u64,
    pub(super) ended: CancellationToken,
}

impl Drop for OpenListener {
    fn drop(&mut self) {
        self.listeners.open.lock().remove(&self.number);
    }
}
