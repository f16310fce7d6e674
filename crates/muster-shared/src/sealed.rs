//! A store whose values are encrypted.

use std::{fmt, sync::Arc, time::Duration};

use muster_core::{
    backend::BoxFuture,
    shared::{KeyValueStore, LogLimits, SharedState, StoreError, StoreFuture, Subscription},
};

use crate::Seal;

/// A store whose values, log entries and messages are encrypted; keys, counters and members of sets are not.
#[derive(Debug)]
pub struct SealedStore<S: ?Sized> {
    store: Arc<S>,
    seal: Arc<Seal>,
}

impl<S: ?Sized> SealedStore<S> {
    /// Encrypts the values that are stored in `store`.
    pub fn new(store: Arc<S>, seal: Seal) -> Self {
        Self { store, seal: Arc::new(seal) }
    }

    fn encrypt(&self, key: &str, value: Vec<u8>) -> Result<Vec<u8>, StoreError> {
        self.seal.seal(key, value).ok_or(StoreError::Unreadable)
    }

    fn decrypt(&self, key: &str, stored: Option<Vec<u8>>) -> Result<Option<Vec<u8>>, StoreError> {
        let open = |stored: Vec<u8>| self.seal.open(key, &stored).ok_or(StoreError::Unreadable);
        stored.map(open).transpose()
    }
}

impl<S: KeyValueStore + ?Sized> KeyValueStore for SealedStore<S> {
    fn get<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Option<Vec<u8>>> {
        Box::pin(async move { self.decrypt(key, self.store.get(key).await?) })
    }

    fn put<'a>(&'a self, key: &'a str, value: Vec<u8>, ttl: Duration) -> StoreFuture<'a, ()> {
        Box::pin(async move { self.store.put(key, self.encrypt(key, value)?, ttl).await })
    }

    fn replace<'a>(&'a self, key: &'a str, value: Vec<u8>, ttl: Duration) -> StoreFuture<'a, bool> {
        Box::pin(async move { self.store.replace(key, self.encrypt(key, value)?, ttl).await })
    }

    fn claim<'a>(&'a self, key: &'a str, value: Vec<u8>, ttl: Duration) -> StoreFuture<'a, bool> {
        Box::pin(async move { self.store.claim(key, self.encrypt(key, value)?, ttl).await })
    }

    fn take<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Option<Vec<u8>>> {
        Box::pin(async move { self.decrypt(key, self.store.take(key).await?) })
    }

    fn remove<'a>(&'a self, key: &'a str) -> StoreFuture<'a, ()> {
        self.store.remove(key)
    }

    fn is_shared(&self) -> bool {
        self.store.is_shared()
    }
}

impl<S: SharedState + ?Sized> SharedState for SealedStore<S> {
    fn touch<'a>(&'a self, key: &'a str, ttl: Duration) -> StoreFuture<'a, Option<Vec<u8>>> {
        Box::pin(async move { self.decrypt(key, self.store.touch(key, ttl).await?) })
    }

    /// Encryption is not deterministic, so the stored value is read first. Still only one of several concurrent callers
    /// succeeds.
    fn swap<'a>(
        &'a self,
        key: &'a str,
        expected: &'a [u8],
        value: Vec<u8>,
        ttl: Duration,
    ) -> StoreFuture<'a, bool> {
        Box::pin(async move {
            let Some(stored) = self.store.get(key).await? else { return Ok(false) };
            if self.decrypt(key, Some(stored.clone()))?.as_deref() != Some(expected) {
                return Ok(false);
            }
            self.store.swap(key, &stored, self.encrypt(key, value)?, ttl).await
        })
    }

    fn release<'a>(&'a self, key: &'a str, expected: &'a [u8]) -> StoreFuture<'a, bool> {
        Box::pin(async move {
            let Some(stored) = self.store.get(key).await? else { return Ok(false) };
            if self.decrypt(key, Some(stored.clone()))?.as_deref() != Some(expected) {
                return Ok(false);
            }
            self.store.release(key, &stored).await
        })
    }

    fn add<'a>(&'a self, key: &'a str, amount: u64, ttl: Duration) -> StoreFuture<'a, u64> {
        self.store.add(key, amount, ttl)
    }

    fn append<'a>(
        &'a self,
        log: &'a str,
        position: u64,
        entry: Vec<u8>,
        limits: LogLimits,
    ) -> StoreFuture<'a, bool> {
        Box::pin(async move {
            let entry = self.encrypt(log, entry)?;
            self.store.append(log, position, entry, limits).await
        })
    }

    fn entries<'a>(
        &'a self,
        log: &'a str,
        after: u64,
        limit: usize,
    ) -> StoreFuture<'a, Vec<(u64, Vec<u8>)>> {
        Box::pin(async move {
            let stored = self.store.entries(log, after, limit).await?.into_iter();
            let open = |(position, entry): (u64, Vec<u8>)| {
                let entry = self.seal.open(log, &entry).ok_or(StoreError::Unreadable)?;
                Ok((position, entry))
            };
            stored.map(open).collect()
        })
    }

    fn renew<'a>(&'a self, log: &'a str, ttl: Duration) -> StoreFuture<'a, bool> {
        self.store.renew(log, ttl)
    }

    fn join<'a>(&'a self, set: &'a str, member: &'a str, ttl: Duration) -> StoreFuture<'a, ()> {
        self.store.join(set, member, ttl)
    }

    fn leave<'a>(&'a self, set: &'a str, member: &'a str) -> StoreFuture<'a, ()> {
        self.store.leave(set, member)
    }

    fn members<'a>(&'a self, set: &'a str) -> StoreFuture<'a, Vec<String>> {
        self.store.members(set)
    }

    fn publish<'a>(&'a self, channel: &'a str, message: Vec<u8>) -> StoreFuture<'a, ()> {
        Box::pin(async move { self.store.publish(channel, self.encrypt(MESSAGE, message)?).await })
    }

    fn subscribe<'a>(&'a self, channels: &'a [String]) -> StoreFuture<'a, Box<dyn Subscription>> {
        Box::pin(async move {
            let messages = self.store.subscribe(channels).await?;
            let seal = Arc::clone(&self.seal);
            Ok(Box::new(SealedMessages { messages, seal }) as Box<dyn Subscription>)
        })
    }
}

/// The key that messages are encrypted for. It is not the channel, because a subscriber of several channels does not
/// learn on which one a message arrived.
const MESSAGE: &str = "message";

struct SealedMessages {
    messages: Box<dyn Subscription>,
    seal: Arc<Seal>,
}

impl fmt::Debug for SealedMessages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealedMessages")
    }
}

impl Subscription for SealedMessages {
    fn next(&mut self) -> BoxFuture<'_, Option<Vec<u8>>> {
        Box::pin(async move {
            loop {
                let message = self.messages.next().await?;
                match self.seal.open(MESSAGE, &message) {
                    Some(message) => return Some(message),
                    None => tracing::warn!("a message of another replica cannot be decrypted"),
                }
            }
        })
    }
}
