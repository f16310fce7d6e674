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
    pub(crate) input_requests: PendingInputs,
    /// The queue of messages that belong to no request.
    queue: Option<mpsc::WeakSender<Vec<u8>>>,
    streams: AtomicU64,
}

impl LegacySession {
    /// A session before its handshake: every log level, no capabilities.
    pub(crate) fn new() -> Self {
        Self {
            capabilities: Lock::new(RawObject::new().to_raw()),
            log_level: AtomicU8::new(LogLevel::DEBUG.to_u8()),
            subscriptions: Lock::default(),
            input_requests: PendingInputs::default(),
            queue: None,
            streams: AtomicU64::new(0),
        }
    }

    /// A session whose client also receives messages that belong to no request, from this queue.
    pub(crate) fn with_queue(queue: &mpsc::Sender<Vec<u8>>) -> Self {
        Self { queue: Some(queue.downgrade()), ..Self::new() }
    }

    pub(crate) const fn has_queue(&self) -> bool {
        self.queue.is_some()
    }

    /// The client sent `initialize`.
    pub(crate) fn begin(&self, capabilities: Raw) {
        *self.capabilities.lock() = capabilities;
    }

    pub(crate) fn capabilities(&self) -> Raw {
        self.capabilities.lock().clone()
    }

    pub(crate) fn log_level(&self) -> LogLevel {
        LogLevel::from_u8(self.log_level.load(Ordering::Relaxed))
    }

    pub(crate) fn set_log_level(&self, level: LogLevel) {
        self.log_level.store(level.to_u8(), Ordering::Relaxed);
    }

    /// Adds a subscription; `false` if it exists.
    pub(crate) fn subscribe(&self, uri: &str) -> bool {
        self.subscriptions.lock().insert(uri.to_owned())
    }

    /// Removes a subscription; `false` if there is none.
    pub(crate) fn unsubscribe(&self, uri: &str) -> bool {
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
