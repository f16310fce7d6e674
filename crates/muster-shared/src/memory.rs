//! Storage in the memory of this process, which is lost when the process ends.

use std::{collections::BTreeMap, time::Duration};

use muster_core::{
    lock::Lock,
    shared::{KeyValueStore, StoreError, StoreFuture},
};

use crate::clock::Clock;

/// How many values are stored: unauthenticated requests create some (login flows, registrations).
const MAX_ENTRIES: usize = 200_000;
/// How many bytes they may take.
const MAX_BYTES: usize = 128 * 1024 * 1024;
/// Values with a TTL up to this belong to logins in progress, which anybody can start. They may use half of
/// the space, so that a flood of them does not affect users who are logged in.
const SHORT_LIVED: Duration = Duration::from_secs(15 * 60);
/// How often expired values are evicted, in seconds.
const SWEEP_INTERVAL: u64 = 60;
/// The estimated overhead of an entry beyond its key and value.
const ENTRY_OVERHEAD: usize = 100;

/// The bounds of a store.
#[derive(Debug, Clone, Copy)]
struct Limits {
    entries: usize,
    bytes: usize,
}

/// A store in this process.
#[derive(Debug)]
pub struct MemoryStore {
    clock: Clock,
    state: Lock<State>,
    limits: Limits,
}

#[derive(Debug, Default)]
struct State {
    entries: BTreeMap<String, Entry>,
    /// The size of all entries, and of the short-lived ones.
    bytes: usize,
    short_lived_bytes: usize,
    /// The number of short-lived entries.
    short_lived: usize,
    /// When expired values were last evicted.
    swept: u64,
}

#[derive(Debug)]
struct Entry {
    value: Vec<u8>,
    expires: u64,
    is_short_lived: bool,
}

impl Entry {
    fn size(&self, key: &str) -> usize {
        key.len() + self.value.len() + ENTRY_OVERHEAD
    }
}

impl State {
    fn get(&self, key: &str, now: u64) -> Option<&Entry> {
        self.entries.get(key).filter(|entry| entry.expires > now)
    }

    fn insert(&mut self, key: &str, entry: Entry) {
        self.remove(key);
        let size = entry.size(key);
        self.bytes += size;
        if entry.is_short_lived {
            self.short_lived_bytes += size;
            self.short_lived += 1;
        }
        self.entries.insert(key.to_owned(), entry);
    }

    fn remove(&mut self, key: &str) -> Option<Entry> {
        let entry = self.entries.remove(key)?;
        let size = entry.size(key);
        self.bytes -= size;
        if entry.is_short_lived {
            self.short_lived_bytes -= size;
            self.short_lived -= 1;
        }
        Some(entry)
    }

    fn has_room(&self, key: &str, entry: &Entry, limits: Limits) -> bool {
        let size = entry.size(key);
        let all = self.entries.len() < limits.entries && self.bytes + size <= limits.bytes;
        let short_lived = self.short_lived < limits.entries / 2
            && self.short_lived_bytes + size <= limits.bytes / 2;
        all && (short_lived || !entry.is_short_lived)
    }

    /// Evicts expired values.
    fn sweep(&mut self, now: u64) {
        self.swept = now;
        let expired: Vec<String> = self
            .entries
            .iter()
            .filter(|(_, entry)| entry.expires <= now)
            .map(|(key, _)| key.clone())
            .collect();
        for key in expired {
            self.remove(&key);
        }
    }
}

impl MemoryStore {
    /// An empty store.
    pub fn new(clock: Clock) -> Self {
        let limits = Limits { entries: MAX_ENTRIES, bytes: MAX_BYTES };
        Self { clock, state: Lock::default(), limits }
    }

    /// Sets a value if `condition` holds for the current one.
    pub(crate) fn set_if(
        &self,
        key: &str,
        value: Vec<u8>,
        ttl: Duration,
        condition: impl FnOnce(Option<&[u8]>) -> bool,
    ) -> Result<bool, StoreError> {
        let now = self.clock.now();
        let expires = now.saturating_add(ttl.as_secs());
        let entry = Entry { value, expires, is_short_lived: ttl <= SHORT_LIVED };
        let mut state = self.state.lock();
        if !condition(state.get(key, now).map(|entry| entry.value.as_slice())) {
            return Ok(false);
        }
        let full = !state.has_room(key, &entry, self.limits);
        // A sweep visits every entry: when the store is full, at most once a second.
        if now >= state.swept.saturating_add(SWEEP_INTERVAL) || full && now > state.swept {
            state.sweep(now);
        }
        let exists = state.entries.contains_key(key);
        if !exists && !state.has_room(key, &entry, self.limits) {
            return Err(StoreError::Unavailable("it is full".to_owned()));
        }
        state.insert(key, entry);
        Ok(true)
    }

    /// Removes a value if it is `expected`.
    pub(crate) fn remove_if(&self, key: &str, expected: &[u8]) -> bool {
        let now = self.clock.now();
        let mut state = self.state.lock();
        let is_expected = state.get(key, now).is_some_and(|entry| entry.value == expected);
        is_expected && state.remove(key).is_some()
    }

    /// Returns the value of a key and restarts its TTL.
    pub(crate) fn extend(&self, key: &str, ttl: Duration) -> Option<Vec<u8>> {
        let now = self.clock.now();
        let mut state = self.state.lock();
        let entry = state.entries.get_mut(key).filter(|entry| entry.expires > now)?;
        entry.expires = now.saturating_add(ttl.as_secs());
        Some(entry.value.clone())
    }

    pub(crate) fn now(&self) -> u64 {
        self.clock.now()
    }
}

impl KeyValueStore for MemoryStore {
    fn get<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Option<Vec<u8>>> {
        let now = self.clock.now();
        let value = self.state.lock().get(key, now).map(|entry| entry.value.clone());
        Box::pin(std::future::ready(Ok(value)))
    }

    fn put<'a>(&'a self, key: &'a str, value: Vec<u8>, ttl: Duration) -> StoreFuture<'a, ()> {
        Box::pin(std::future::ready(self.set_if(key, value, ttl, |_| true).map(drop)))
    }

    fn replace<'a>(&'a self, key: &'a str, value: Vec<u8>, ttl: Duration) -> StoreFuture<'a, bool> {
        Box::pin(std::future::ready(self.set_if(key, value, ttl, |current| current.is_some())))
    }

    fn claim<'a>(&'a self, key: &'a str, value: Vec<u8>, ttl: Duration) -> StoreFuture<'a, bool> {
        Box::pin(std::future::ready(self.set_if(key, value, ttl, |current| current.is_none())))
    }

    fn take<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Option<Vec<u8>>> {
        let now = self.clock.now();
        let entry = self.state.lock().remove(key).filter(|entry| entry.expires > now);
        Box::pin(std::future::ready(Ok(entry.map(|entry| entry.value))))
    }

    fn remove<'a>(&'a self, key: &'a str) -> StoreFuture<'a, ()> {
        drop(self.state.lock().remove(key));
        Box::pin(std::future::ready(Ok(())))
    }

    fn is_shared(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            Arc,
            atomic::{AtomicU64, Ordering},
        },
        time::Duration,
    };

    use muster_core::shared::KeyValueStore as _;

    use super::{Limits, MemoryStore};
    use crate::clock::Clock;

    const MINUTES: Duration = Duration::from_secs(10 * 60);
    const DAYS: Duration = Duration::from_secs(30 * 24 * 3600);

    /// A store with room for twenty entries of a thousand bytes, and its clock.
    fn small() -> (MemoryStore, Arc<AtomicU64>) {
        let time = Arc::new(AtomicU64::new(1000));
        let shared = Arc::clone(&time);
        let clock = Clock::new(move || shared.load(Ordering::Relaxed));
        let limits = Limits { entries: 1000, bytes: 20_000 };
        (MemoryStore { limits, ..MemoryStore::new(clock) }, time)
    }

    async fn fits(memory: &MemoryStore, key: &str, ttl: Duration) -> bool {
        let value = vec![0; 900 - key.len()];
        memory.put(key, value, ttl).await.is_ok()
    }

    #[tokio::test]
    async fn short_lived_values_cannot_fill_the_store() {
        let (memory, time) = small();
        for number in 0..30 {
            let fit = fits(&memory, &format!("flow{number:02}"), MINUTES).await;
            assert_eq!(fit, number < 10, "{number}");
        }
        for number in 0..30 {
            let fit = fits(&memory, &format!("login{number:02}"), DAYS).await;
            assert_eq!(fit, number < 10, "{number}");
        }
        // Existing values can be overwritten, and removing a value frees its space.
        assert!(fits(&memory, "login00", DAYS).await && fits(&memory, "flow00", MINUTES).await);
        assert!(memory.take("flow00").await.unwrap().is_some());
        assert!(fits(&memory, "another", MINUTES).await);
        assert!(!fits(&memory, "one more", MINUTES).await);
        // Expired values are evicted.
        time.fetch_add(601, Ordering::Relaxed);
        assert!(fits(&memory, "one more", MINUTES).await);
        let state = memory.state.lock();
        assert_eq!((state.entries.len(), state.bytes, state.short_lived_bytes), (11, 11_000, 1000));
    }

    #[tokio::test]
    async fn many_logins_leave_room_for_a_new_one() {
        let store = MemoryStore::new(Clock::system());
        let store = MemoryStore { limits: Limits { entries: 10, bytes: 20_000 }, ..store };
        for number in 0..7 {
            store.put(&format!("login{number}"), vec![0], DAYS).await.unwrap();
        }
        for number in 0..3 {
            store.put(&format!("flow{number}"), vec![0], MINUTES).await.unwrap();
        }
        assert!(store.put("one more", vec![0], DAYS).await.is_err());
    }

    #[tokio::test]
    async fn expired_values_are_evicted_before_the_store_is_full() {
        let (memory, time) = small();
        assert!(fits(&memory, "flow", MINUTES).await);
        time.fetch_add(601, Ordering::Relaxed);
        assert!(fits(&memory, "other", MINUTES).await);
        assert_eq!(memory.state.lock().entries.len(), 1);
        assert!(memory.claim("flow", vec![1], MINUTES).await.unwrap());
        assert!(!memory.claim("flow", vec![2], MINUTES).await.unwrap());
        assert!(memory.replace("flow", vec![3], MINUTES).await.unwrap());
        memory.remove("flow").await.unwrap();
        assert!(!memory.replace("flow", vec![4], MINUTES).await.unwrap());
        assert!(memory.get("flow").await.unwrap().is_none());
        memory.remove("other").await.unwrap();
        let state = memory.state.lock();
        assert_eq!((state.bytes, state.short_lived_bytes), (0, 0));
    }
}
