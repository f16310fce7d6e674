//! The session of a legacy client: the state that modern requests carry themselves.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicU8, Ordering},
};

use muster_core::{
    json::{Raw, RawObject},
    request::Change,
};

use crate::{input_requests::PendingInputs, lock::Lock, log_level::LogLevel};

/// The session state of one legacy client.
#[derive(Debug)]
pub(crate) struct LegacySession {
    capabilities: Lock<Raw>,
    log_level: AtomicU8,
    subscriptions: Lock<BTreeSet<String>>,
    pub(crate) input_requests: PendingInputs,
}

impl LegacySession {
    /// A session before its handshake: every log level, no capabilities.
    pub(crate) fn new() -> Self {
        Self {
            capabilities: Lock::new(RawObject::new().to_raw()),
            log_level: AtomicU8::new(LogLevel::DEBUG.to_u8()),
            subscriptions: Lock::default(),
            input_requests: PendingInputs::default(),
        }
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
