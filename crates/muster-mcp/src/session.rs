//! The session of a legacy client: the state that modern requests carry themselves.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicU8, AtomicU64, Ordering},
};

use muster_core::{
    client::{ClientSession, Notification},
    json::{Raw, RawObject},
    request::Change,
};

use tokio::sync::mpsc;

use crate::{
    input_requests::PendingInputs, lock::Lock, log_level::LogLevel, wire::notification_line,
};

/// The session state of one legacy client.
#[derive(Debug)]
pub(crate) struct LegacySession {
    capabilities: Lock<Raw>,
    log_level: AtomicU8,
    subscriptions: Lock<BTreeSet<String>>,
    /// Subscriptions that the client made at other replicas, and that this one has not.
    elsewhere: Lock<BTreeSet<String>>,
    /// What other replicas do not know yet; not recorded without replicas.
    unshared: Option<Lock<Vec<SessionChange>>>,
    pub(crate) input_requests: PendingInputs,
    /// The queue of messages that belong to no request.
    queue: Option<mpsc::WeakSender<Vec<u8>>>,
    streams: AtomicU64,
}

/// A change of a session that other replicas must know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SessionChange {
    /// The client sent `initialize`.
    Begun,
    Level(LogLevel),
    Subscribed(String),
    Unsubscribed(String),
    /// The client opened a standalone stream.
    Streamed,
}

impl LegacySession {
    /// A session before its handshake: every log level, no capabilities.
    pub(crate) fn new() -> Self {
        Self {
            capabilities: Lock::new(RawObject::new().to_raw()),
            log_level: AtomicU8::new(LogLevel::DEBUG.to_u8()),
            subscriptions: Lock::default(),
            elsewhere: Lock::default(),
            unshared: None,
            input_requests: PendingInputs::default(),
            queue: None,
            streams: AtomicU64::new(0),
        }
    }

    /// A session whose client also receives messages that belong to no request, from this queue.
    pub(crate) fn with_queue(queue: &mpsc::Sender<Vec<u8>>) -> Self {
        Self { queue: Some(queue.downgrade()), ..Self::new() }
    }

    /// The same session, whose changes are recorded for other replicas. Input requests are numbered by `replica`.
    pub(crate) fn shared_by(self, replica: &str) -> Self {
        let input_requests = PendingInputs::of_replica(replica);
        Self { unshared: Some(Lock::default()), input_requests, ..self }
    }

    fn record(&self, change: impl FnOnce() -> SessionChange) {
        if let Some(unshared) = &self.unshared {
            unshared.lock().push(change());
        }
    }

    /// The changes that other replicas do not know yet.
    pub(crate) fn take_unshared(&self) -> Vec<SessionChange> {
        self.unshared
            .as_ref()
            .map(|unshared| std::mem::take(&mut *unshared.lock()))
            .unwrap_or_default()
    }

    /// Takes over what other replicas know. Returns the subscriptions that the client ended there.
    pub(crate) fn load(
        &self,
        capabilities: &Raw,
        level: LogLevel,
        subscriptions: &BTreeSet<String>,
    ) -> BTreeSet<String> {
        {
            let mut known = self.capabilities.lock();
            if known.get() != capabilities.get() {
                known.clone_from(capabilities);
            }
        }
        self.log_level.store(level.to_u8(), Ordering::Relaxed);
        let mut here = self.subscriptions.lock();
        let ended: BTreeSet<String> = here.difference(subscriptions).cloned().collect();
        here.retain(|uri| subscriptions.contains(uri));
        *self.elsewhere.lock() = subscriptions.difference(&here).cloned().collect();
        ended
    }

    /// The client opened a standalone stream.
    pub(crate) fn record_stream(&self) {
        self.record(|| SessionChange::Streamed);
    }

    /// Makes a subscription from elsewhere one of this replica; `false` if it is none.
    pub(crate) fn take_subscription(&self, uri: &str) -> bool {
        self.elsewhere.lock().remove(uri) && self.subscriptions.lock().insert(uri.to_owned())
    }

    /// All subscriptions of the client.
    pub(crate) fn all_subscriptions(&self) -> Vec<String> {
        let here = self.subscriptions.lock().clone();
        here.union(&self.elsewhere.lock()).cloned().collect()
    }

    /// The subscriptions of the client that this replica has not made.
    pub(crate) fn subscriptions_elsewhere(&self) -> Vec<String> {
        self.elsewhere.lock().iter().cloned().collect()
    }

    pub(crate) const fn has_queue(&self) -> bool {
        self.queue.is_some()
    }

    /// The client sent `initialize`.
    pub(crate) fn begin(&self, capabilities: Raw) {
        *self.capabilities.lock() = capabilities;
        self.record(|| SessionChange::Begun);
    }

    pub(crate) fn capabilities(&self) -> Raw {
        self.capabilities.lock().clone()
    }

    pub(crate) fn log_level(&self) -> LogLevel {
        LogLevel::from_u8(self.log_level.load(Ordering::Relaxed))
    }

    pub(crate) fn set_log_level(&self, level: LogLevel) {
        self.log_level.store(level.to_u8(), Ordering::Relaxed);
        self.record(|| SessionChange::Level(level));
    }

    /// Adds a subscription; `false` if it exists.
    pub(crate) fn subscribe(&self, uri: &str) -> bool {
        self.record(|| SessionChange::Subscribed(uri.to_owned()));
        self.elsewhere.lock().remove(uri);
        self.subscriptions.lock().insert(uri.to_owned())
    }

    /// Removes a subscription; `false` if there is none.
    pub(crate) fn unsubscribe(&self, uri: &str) -> bool {
        self.record(|| SessionChange::Unsubscribed(uri.to_owned()));
        self.elsewhere.lock().remove(uri);
        self.subscriptions.lock().remove(uri)
    }

    /// Removes all subscriptions.
    pub(crate) fn unsubscribe_all(&self) -> BTreeSet<String> {
        std::mem::take(&mut *self.subscriptions.lock())
    }

    /// Whether the client is notified of a change.
    pub(crate) fn is_notified_of(&self, change: &Change) -> bool {
        match change {
            Change::Tools | Change::Resources | Change::Prompts => true,
            Change::Resource { uri } => self.subscriptions.lock().contains(uri),
            Change::ForOwner { change, .. } => self.is_notified_of(change),
        }
    }
}

impl ClientSession for LegacySession {
    fn notify(&self, notification: &Notification) -> bool {
        let queue = self.queue.as_ref().and_then(mpsc::WeakSender::upgrade);
        let line = || notification_line(&notification.method, Some(&notification.params));
        queue.is_some_and(|queue| queue.try_send(line()).is_ok())
    }

    fn begin_stream(&self) -> u64 {
        self.streams.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn newest_stream(&self) -> u64 {
        self.streams.load(Ordering::Relaxed)
    }
}
