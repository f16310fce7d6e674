//! The port to state that outlives a process: logins, and everything else that replicas of the gateway share.
//!
//! There are two adapters: the memory of this process, and Valkey, which replicas share. Each operation is atomic and
//! documents its guarantee. Every value has a TTL: nothing is stored for ever.

use std::{sync::Arc, time::Duration};

use thiserror::Error;

use crate::backend::BoxFuture;

/// Why a value cannot be loaded or stored.
#[derive(Debug, Clone, Error)]
pub enum StoreError {
    /// The store cannot be reached, or is full. A change may or may not have been made.
    #[error("the shared storage is not available: {0}")]
    Unavailable(String),
    /// The value was not written by a gateway, or with another encryption key.
    #[error("a value in the shared storage cannot be read")]
    Unreadable,
}

/// The result of an operation on a store.
pub type StoreFuture<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// A key-value store with a TTL for each value.
pub trait KeyValueStore: Send + Sync {
    /// The value of a key.
    fn get<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Option<Vec<u8>>>;

    /// Sets the value of a key.
    fn put<'a>(&'a self, key: &'a str, value: Vec<u8>, ttl: Duration) -> StoreFuture<'a, ()>;

    /// Sets the value of a key only if it has one: a removed value does not come back.
    fn replace<'a>(&'a self, key: &'a str, value: Vec<u8>, ttl: Duration) -> StoreFuture<'a, bool>;

    /// Sets the value of a key only if it has none. Of concurrent callers one succeeds.
    fn claim<'a>(&'a self, key: &'a str, value: Vec<u8>, ttl: Duration) -> StoreFuture<'a, bool>;

    /// Removes a value and returns it. Of concurrent callers one gets it.
    fn take<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Option<Vec<u8>>>;

    /// Removes a value.
    fn remove<'a>(&'a self, key: &'a str) -> StoreFuture<'a, ()>;

    /// Whether other gateways use the same store.
    fn is_shared(&self) -> bool;
}

crate::opaque_debug!(KeyValueStore);

/// State that the replicas of a gateway share.
///
/// A *lease* is a value that its holder sets by [`claim`](KeyValueStore::claim), renews by [`swap`](Self::swap) and
/// gives up by [`release`](Self::release). It expires unless it is renewed. A holder that was paused may believe that
/// it still has the lease, so an action that must not happen twice also needs a fencing token, such as a position in a
/// log.
pub trait SharedState: KeyValueStore {
    /// Returns the value of a key and restarts its TTL.
    fn touch<'a>(&'a self, key: &'a str, ttl: Duration) -> StoreFuture<'a, Option<Vec<u8>>>;

    /// Sets the value of a key only if its value is `expected`. Of concurrent callers one succeeds.
    fn swap<'a>(
        &'a self,
        key: &'a str,
        expected: &'a [u8],
        value: Vec<u8>,
        ttl: Duration,
    ) -> StoreFuture<'a, bool>;

    /// Removes a value only if it is `expected`.
    fn release<'a>(&'a self, key: &'a str, expected: &'a [u8]) -> StoreFuture<'a, bool>;

    /// Adds to a counter, and returns the sum. Of concurrent callers no two get the same sum.
    fn add<'a>(&'a self, key: &'a str, amount: u64, ttl: Duration) -> StoreFuture<'a, u64>;

    /// Appends an entry to a log at a position; `false` if the log has already reached that position. Only one of
    /// several concurrent writers of a position succeeds, so a log has one writer at a time. The log expires as a
    /// whole, and drops its oldest entries beyond its length.
    fn append<'a>(
        &'a self,
        log: &'a str,
        position: u64,
        entry: Vec<u8>,
        limits: LogLimits,
    ) -> StoreFuture<'a, bool>;

    /// The entries of a log after a position, oldest first, each with its position; at most `limit`.
    fn entries<'a>(
        &'a self,
        log: &'a str,
        after: u64,
        limit: usize,
    ) -> StoreFuture<'a, Vec<(u64, Vec<u8>)>>;

    /// Restarts the TTL of a log; `false` if the log does not exist.
    fn renew<'a>(&'a self, log: &'a str, ttl: Duration) -> StoreFuture<'a, bool>;

    /// Adds a member to a set and restarts the TTL of the set.
    fn join<'a>(&'a self, set: &'a str, member: &'a str, ttl: Duration) -> StoreFuture<'a, ()>;

    /// Removes a member from a set.
    fn leave<'a>(&'a self, set: &'a str, member: &'a str) -> StoreFuture<'a, ()>;

    /// The members of a set.
    fn members<'a>(&'a self, set: &'a str) -> StoreFuture<'a, Vec<String>>;

    /// Sends a message to the subscribers of a channel, each at most once: a subscriber that is not connected misses
    /// it.
    fn publish<'a>(&'a self, channel: &'a str, message: Vec<u8>) -> StoreFuture<'a, ()>;

    /// Subscribes to channels.
    fn subscribe<'a>(&'a self, channels: &'a [String]) -> StoreFuture<'a, Box<dyn Subscription>>;
}

crate::opaque_debug!(SharedState);

/// The bounds of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogLimits {
    /// The number of entries that are stored.
    pub length: usize,
    /// How long the log is stored after its last entry.
    pub ttl: Duration,
}

/// A subscription to channels.
pub trait Subscription: Send {
    /// The next message; `None` when the connection to the store is lost.
    fn next(&mut self) -> BoxFuture<'_, Option<Vec<u8>>>;
}

/// The connection of this replica to the other replicas.
pub trait ReplicaLink: Send + Sync {
    /// Its id, unique for each start of a gateway.
    fn id(&self) -> &str;

    /// The state that replicas share.
    fn state(&self) -> &Arc<dyn SharedState>;

    /// Whether a replica is alive, that is, has renewed its lease.
    fn is_alive<'a>(&'a self, id: &'a str) -> StoreFuture<'a, bool>;

    /// Sends a message, which is lost if the recipient is not connected.
    fn send<'a>(
        &'a self,
        to: Recipient<'a>,
        topic: &'a str,
        message: Vec<u8>,
    ) -> StoreFuture<'a, ()>;

    /// Handles the messages of a topic.
    fn listen(&self, topic: &'static str, listener: Arc<dyn MessageListener>);
}

crate::opaque_debug!(ReplicaLink);

/// The topic of an empty message that a replica gets from its own link each time it is connected: messages of others may
/// have been lost before.
pub const CONNECTED: &str = "connected";

/// Whether a text has the form of the id of a replica.
pub fn is_replica_id(text: &str) -> bool {
    text.len() == 16 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// The recipient of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recipient<'a> {
    /// One replica.
    Replica(&'a str),
    /// Every other replica.
    Others,
}

/// Handles messages of other replicas. It must not block.
pub trait MessageListener: Send + Sync {
    /// Handles a message.
    fn receive(&self, message: Vec<u8>);
}

impl<F: Fn(Vec<u8>) + Send + Sync> MessageListener for F {
    fn receive(&self, message: Vec<u8>) {
        self(message);
    }
}
