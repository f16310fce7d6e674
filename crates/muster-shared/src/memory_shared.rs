//! Shared state in this process: for tests with several gateways in one process.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use muster_core::{
    backend::BoxFuture,
    lock::Lock,
    shared::{KeyValueStore, LogLimits, SharedState, StoreFuture, Subscription},
};
use tokio::sync::mpsc;

use crate::{clock::Clock, memory::MemoryStore};

/// The number of messages that a subscriber may fall behind; beyond it the subscription ends, as with Valkey.
const MAX_BEHIND: usize = 1024;

/// Shared state in this process.
#[derive(Debug)]
pub struct MemoryShared {
    values: MemoryStore,
    state: Lock<State>,
}

#[derive(Debug, Default)]
struct State {
    counters: BTreeMap<String, (u64, u64)>,
    logs: BTreeMap<String, Log>,
    sets: BTreeMap<String, (u64, BTreeSet<String>)>,
    subscribers: Vec<Subscriber>,
}

#[derive(Debug)]
struct Subscriber {
    channels: Vec<String>,
    queue: mpsc::Sender<Vec<u8>>,
}

#[derive(Debug, Default)]
struct Log {
    expires: u64,
    last: u64,
    entries: VecDeque<(u64, Vec<u8>)>,
}

impl MemoryShared {
    /// Empty state.
    pub fn new(clock: Clock) -> Self {
        Self { values: MemoryStore::new(clock), state: Lock::default() }
    }

    /// Evicts expired entries, then runs `work` with the state and the time when an entry with this TTL expires.
    fn at<T>(&self, ttl: Duration, work: impl FnOnce(&mut State, u64) -> T) -> T {
        let now = self.values.now();
        let mut state = self.state.lock();
        state.counters.retain(|_, (expires, _)| *expires > now);
        state.logs.retain(|_, log| log.expires > now);
        state.sets.retain(|_, (expires, _)| *expires > now);
        work(&mut state, now.saturating_add(ttl.as_secs().max(1)))
    }
}

fn ready<'a, T: Send + 'a>(value: T) -> StoreFuture<'a, T> {
    Box::pin(std::future::ready(Ok(value)))
}

impl KeyValueStore for MemoryShared {
    fn get<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Option<Vec<u8>>> {
        self.values.get(key)
    }

    fn put<'a>(&'a self, key: &'a str, value: Vec<u8>, ttl: Duration) -> StoreFuture<'a, ()> {
        self.values.put(key, value, ttl)
    }

    fn replace<'a>(&'a self, key: &'a str, value: Vec<u8>, ttl: Duration) -> StoreFuture<'a, bool> {
        self.values.replace(key, value, ttl)
    }

    fn claim<'a>(&'a self, key: &'a str, value: Vec<u8>, ttl: Duration) -> StoreFuture<'a, bool> {
        self.values.claim(key, value, ttl)
    }

    fn take<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Option<Vec<u8>>> {
        self.values.take(key)
    }

    fn remove<'a>(&'a self, key: &'a str) -> StoreFuture<'a, ()> {
        self.values.remove(key)
    }

    fn is_shared(&self) -> bool {
        true
    }
}

impl SharedState for MemoryShared {
    fn touch<'a>(&'a self, key: &'a str, ttl: Duration) -> StoreFuture<'a, Option<Vec<u8>>> {
        ready(self.values.extend(key, ttl))
    }

    fn swap<'a>(
        &'a self,
        key: &'a str,
        expected: &'a [u8],
        value: Vec<u8>,
        ttl: Duration,
    ) -> StoreFuture<'a, bool> {
        let swapped = self.values.set_if(key, value, ttl, |current| current == Some(expected));
        Box::pin(std::future::ready(swapped))
    }

    fn release<'a>(&'a self, key: &'a str, expected: &'a [u8]) -> StoreFuture<'a, bool> {
        ready(self.values.remove_if(key, expected))
    }

    fn add<'a>(&'a self, key: &'a str, amount: u64, ttl: Duration) -> StoreFuture<'a, u64> {
        ready(self.at(ttl, |state, expires| {
            let counter = state.counters.entry(key.to_owned()).or_default();
            *counter = (expires, counter.1.saturating_add(amount));
            counter.1
        }))
    }

    fn append<'a>(
        &'a self,
        log: &'a str,
        position: u64,
        entry: Vec<u8>,
        limits: LogLimits,
    ) -> StoreFuture<'a, bool> {
        ready(self.at(limits.ttl, |state, expires| {
            let log = state.logs.entry(log.to_owned()).or_default();
            if position <= log.last {
                return false;
            }
            (log.expires, log.last) = (expires, position);
            log.entries.push_back((position, entry));
            while log.entries.len() > limits.length {
                log.entries.pop_front();
            }
            true
        }))
    }

    fn entries<'a>(
        &'a self,
        log: &'a str,
        after: u64,
        limit: usize,
    ) -> StoreFuture<'a, Vec<(u64, Vec<u8>)>> {
        ready(self.at(Duration::ZERO, |state, _| {
            let entries = state.logs.get(log).map(|log| log.entries.iter());
            let later = entries.into_iter().flatten().filter(|(position, _)| *position > after);
            later.take(limit).cloned().collect()
        }))
    }

    fn renew<'a>(&'a self, log: &'a str, ttl: Duration) -> StoreFuture<'a, bool> {
        ready(self.at(ttl, |state, expires| {
            let log = state.logs.get_mut(log);
            log.map(|log| log.expires = expires).is_some()
        }))
    }

    fn join<'a>(&'a self, set: &'a str, member: &'a str, ttl: Duration) -> StoreFuture<'a, ()> {
        self.at(ttl, |state, expires| {
            let set = state.sets.entry(set.to_owned()).or_default();
            set.0 = expires;
            set.1.insert(member.to_owned());
        });
        ready(())
    }

    fn leave<'a>(&'a self, set: &'a str, member: &'a str) -> StoreFuture<'a, ()> {
        self.at(Duration::ZERO, |state, _| {
            if let Some((_, members)) = state.sets.get_mut(set) {
                members.remove(member);
            }
        });
        ready(())
    }

    fn members<'a>(&'a self, set: &'a str) -> StoreFuture<'a, Vec<String>> {
        ready(self.at(Duration::ZERO, |state, _| {
            let members = state.sets.get(set).map(|(_, members)| members.iter().cloned());
            members.into_iter().flatten().collect()
        }))
    }

    fn publish<'a>(&'a self, channel: &'a str, message: Vec<u8>) -> StoreFuture<'a, ()> {
        self.state.lock().subscribers.retain(|Subscriber { channels, queue }| {
            !channels.iter().any(|name| name == channel) || queue.try_send(message.clone()).is_ok()
        });
        ready(())
    }

    fn subscribe<'a>(&'a self, channels: &'a [String]) -> StoreFuture<'a, Box<dyn Subscription>> {
        let (queue, messages) = mpsc::channel(MAX_BEHIND);
        self.state.lock().subscribers.push(Subscriber { channels: channels.to_vec(), queue });
        ready(Box::new(Messages(messages)) as Box<dyn Subscription>)
    }
}

/// The messages of one subscription.
#[derive(Debug)]
pub(crate) struct Messages(pub(crate) mpsc::Receiver<Vec<u8>>);

impl Subscription for Messages {
    fn next(&mut self) -> BoxFuture<'_, Option<Vec<u8>>> {
        Box::pin(self.0.recv())
    }
}
