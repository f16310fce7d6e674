//! The session of a legacy client: the state that modern requests carry themselves.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicU8, AtomicU64, Ordering},
    },
};

use muster_core::{
    client::{ClientSession, Notification},
    json::{Raw, RawObject},
    request::Change,
};

use tokio::sync::mpsc;

use crate::{
    input_requests::PendingInputs, lock::Lock, log_level::LogLevel, replica_names::ReplicaNames,
    wire::notification_line,
};

/// The session state of one legacy client.
#[derive(Debug)]
pub(crate) struct LegacySession {
    /// The negotiated protocol version; `None` if another replica negotiated it.
    version: Lock<Option<&'static str>>,
    capabilities: Lock<Raw>,
    log_level: AtomicU8,
    subscriptions: Lock<BTreeSet<String>>,
    /// Subscriptions that the client made at other replicas, but that this one has not made.
    elsewhere: Lock<BTreeSet<String>>,
    /// Changes that other replicas do not know yet; `None` if there are no replicas.
    unshared: Option<Lock<Unshared>>,
    pub(crate) input_requests: PendingInputs,
    /// The queue of messages that belong to no request.
    queue: Option<mpsc::WeakSender<Vec<u8>>>,
    streams: AtomicU64,
}

/// The changes that other replicas do not know yet.
#[derive(Debug, Default)]
struct Unshared {
    changes: Vec<SessionChange>,
    /// The number of changes so far.
    recorded: u64,
    /// Whether some are being stored.
    is_saving: bool,
}

/// The version of a session whose changes are all stored: the number of its changes so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SharedVersion(u64);

/// Changes that are being stored. Changes that are not taken out are recorded again when it is dropped.
#[derive(Debug)]
pub(crate) struct SavingChanges<'a> {
    session: &'a LegacySession,
    pub(crate) changes: Vec<SessionChange>,
}

impl Drop for SavingChanges<'_> {
    fn drop(&mut self) {
        if let Some(unshared) = &self.session.unshared {
            let mut unshared = unshared.lock();
            unshared.is_saving = false;
            // They were made before all others.
            unshared.changes.splice(..0, self.changes.drain(..));
        }
    }
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

impl Unshared {
    fn shared_version(&self) -> Option<SharedVersion> {
        let is_stored = !self.is_saving && self.changes.is_empty();
        is_stored.then_some(SharedVersion(self.recorded))
    }
}

impl LegacySession {
    /// A session before its handshake: every log level, no capabilities.
    pub(crate) fn new() -> Self {
        Self {
            version: Lock::default(),
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

    /// Records the changes of the session for other replicas, and gives its input requests unique names.
    pub(crate) fn shared_by(self, names: &Arc<ReplicaNames>) -> Self {
        let input_requests = PendingInputs::of_replica(names);
        Self { unshared: Some(Lock::default()), input_requests, ..self }
    }

    fn record(&self, change: impl FnOnce() -> SessionChange) {
        if let Some(unshared) = &self.unshared {
            let mut unshared = unshared.lock();
            unshared.changes.push(change());
            unshared.recorded += 1;
        }
    }

    /// Whether some changes are not stored yet.
    pub(crate) fn has_unshared(&self) -> bool {
        let unshared = self.unshared.as_ref().map(Lock::lock);
        unshared.is_some_and(|unshared| unshared.is_saving || !unshared.changes.is_empty())
    }

    /// The changes that other replicas do not know yet, to store them. Only one caller may do so at a time.
    pub(crate) fn save_unshared(&self) -> SavingChanges<'_> {
        let mut changes = Vec::new();
        if let Some(unshared) = &self.unshared {
            let mut unshared = unshared.lock();
            unshared.is_saving = true;
            changes = std::mem::take(&mut unshared.changes);
        }
        SavingChanges { session: self, changes }
    }

    /// The current version; `None` if some changes are not stored yet, because the stored record is then out of date.
    pub(crate) fn shared_version(&self) -> Option<SharedVersion> {
        let Some(unshared) = &self.unshared else { return Some(SharedVersion(0)) };
        unshared.lock().shared_version()
    }

    /// Takes over the record that replicas share, unless the session has changed since `version`. Returns the
    /// subscriptions that the client ended elsewhere.
    pub(crate) fn load(
        &self,
        capabilities: &Raw,
        level: LogLevel,
        subscriptions: &BTreeSet<String>,
        version: Option<SharedVersion>,
    ) -> BTreeSet<String> {
        // Held until the end, so that no change happens in between.
        let unshared = self.unshared.as_ref().map(Lock::lock);
        let current = unshared.as_ref().and_then(|unshared| unshared.shared_version());
        if version.is_none() || current != version {
            return BTreeSet::new();
        }
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

    /// Records that the client opened a standalone stream.
    pub(crate) fn record_stream(&self) {
        self.record(|| SessionChange::Streamed);
    }

    /// Makes a subscription from elsewhere one of this replica; `false` if there is no such subscription.
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

    /// Records the client's `initialize`.
    pub(crate) fn begin(&self, version: &'static str, capabilities: Raw) {
        *self.version.lock() = Some(version);
        *self.capabilities.lock() = capabilities;
        self.record(|| SessionChange::Begun);
    }

    /// The negotiated protocol version, if it is known here.
    pub(crate) fn version(&self) -> Option<&'static str> {
        *self.version.lock()
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{LegacySession, SharedVersion};
    use crate::{log_level::LogLevel, replica_names::ReplicaNames};

    fn shared() -> LegacySession {
        LegacySession::new().shared_by(&ReplicaNames::new("0123456789abcdef"))
    }

    /// Loads a record without subscriptions that was read when the session was at `version`.
    fn load(session: &LegacySession, version: Option<SharedVersion>) -> BTreeSet<String> {
        session.load(&session.capabilities(), LogLevel::DEBUG, &BTreeSet::new(), version)
    }

    #[test]
    fn a_record_that_is_out_of_date_is_not_loaded() {
        let session = shared();
        let before = session.shared_version();
        assert!(session.subscribe("a:b"));
        assert!(load(&session, before).is_empty(), "changed since");
        assert!(load(&session, session.shared_version()).is_empty(), "not stored yet");
        let mut saving = session.save_unshared();
        assert!(load(&session, session.shared_version()).is_empty(), "being stored");
        saving.changes.clear();
        drop(saving);
        assert!(load(&session, before).is_empty(), "changed and stored since");
        assert_eq!(session.all_subscriptions(), ["a:b"]);
        assert_eq!(load(&session, session.shared_version()), BTreeSet::from(["a:b".to_owned()]));
    }

    #[test]
    fn what_was_not_stored_is_recorded_again() {
        let session = shared();
        session.subscribe("a:b");
        let saving = session.save_unshared();
        session.unsubscribe("a:b");
        drop(saving);
        assert!(session.has_unshared());
        let mut saving = session.save_unshared();
        let names: Vec<_> = saving.changes.drain(..).map(|change| format!("{change:?}")).collect();
        assert_eq!(names, [r#"Subscribed("a:b")"#, r#"Unsubscribed("a:b")"#]);
        drop(saving);
        assert!(!session.has_unshared());
    }
}
