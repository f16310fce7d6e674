//! What a legacy client has settled for all its requests: the state that modern ones carry along.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicU8, Ordering},
};

use muster_core::{
    json::{Raw, RawObject},
    request::Change,
};

use crate::{level::Level, lock::Lock, questions::Questions};

/// The state of one legacy client.
#[derive(Debug)]
pub(crate) struct Session {
    capabilities: Lock<Raw>,
    level: AtomicU8,
    watched: Lock<BTreeSet<String>>,
    pub(crate) questions: Questions,
}

impl Session {
    /// A client that has said nothing yet: it wants every log line and can be asked nothing.
    pub(crate) fn new() -> Self {
        Self {
            capabilities: Lock::new(RawObject::new().to_raw()),
            level: AtomicU8::new(Level::LEAST.place()),
            watched: Lock::default(),
            questions: Questions::default(),
        }
    }

    /// The client introduced itself.
    pub(crate) fn begin(&self, capabilities: Raw) {
        *self.capabilities.lock() = capabilities;
    }

    pub(crate) fn capabilities(&self) -> Raw {
        self.capabilities.lock().clone()
    }

    pub(crate) fn level(&self) -> Level {
        Level::at(self.level.load(Ordering::Relaxed))
    }

    pub(crate) fn set_level(&self, level: Level) {
        self.level.store(level.place(), Ordering::Relaxed);
    }

    /// The client wants word of a resource; whether it did not before.
    pub(crate) fn watch(&self, uri: &str) -> bool {
        self.watched.lock().insert(uri.to_owned())
    }

    /// It no longer does; whether it did before.
    pub(crate) fn unwatch(&self, uri: &str) -> bool {
        self.watched.lock().remove(uri)
    }

    /// Everything it wanted word of, which it no longer does.
    pub(crate) fn unwatch_all(&self) -> BTreeSet<String> {
        std::mem::take(&mut *self.watched.lock())
    }

    /// Whether the client is to hear of a change.
    pub(crate) fn hears(&self, change: &Change) -> bool {
        match change {
            Change::Tools | Change::Resources | Change::Prompts => true,
            Change::Resource { uri } => self.watched.lock().contains(uri),
            Change::ForOwner { change, .. } => self.hears(change),
        }
    }
}
