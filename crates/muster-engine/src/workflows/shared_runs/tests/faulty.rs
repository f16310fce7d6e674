//! Shared state whose operations fail on demand.

use std::{sync::Arc, time::Duration};

use muster_core::{
    lock::Lock,
    shared::{KeyValueStore, LogLimits, SharedState, StoreError, StoreFuture, Subscription},
};
use muster_shared::{MemoryShared, clock::Clock};

/// A fault of one operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// It fails without being carried out.
    Refused(&'static str),
    /// It is carried out, but its answer is lost.
    Unanswered(&'static str),
}

/// Shared state in memory, with faults.
#[derive(Debug)]
pub(super) struct Faulty {
    inner: MemoryShared,
    faults: Lock<Vec<Fault>>,
}

impl Faulty {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { inner: MemoryShared::new(Clock::system()), faults: Lock::default() })
    }

    /// Makes operations fail with `faults` until [`Self::heals`] is called.
    pub(super) fn breaks(&self, faults: &[Fault]) {
        *self.faults.lock() = faults.to_vec();
    }

    pub(super) fn heals(&self) {
        self.breaks(&[]);
    }

    fn run<'a, T: Send + 'a>(
        &'a self,
        name: &'static str,
        operation: StoreFuture<'a, T>,
    ) -> StoreFuture<'a, T> {
        // Operations of the in-memory state are carried out when they are called, not when they are awaited.
        let is_lost = self.faults.lock().contains(&Fault::Unanswered(name));
        match is_lost {
            true => unavailable(),
            false => operation,
        }
    }

    fn is_refused(&self, name: &'static str) -> bool {
        self.faults.lock().contains(&Fault::Refused(name))
    }
}

fn unavailable<'a, T: Send + 'a>() -> StoreFuture<'a, T> {
    Box::pin(std::future::ready(Err(StoreError::Unavailable("a fault".to_owned()))))
}

/// Delegates an operation unless it has a fault.
macro_rules! faulty {
    ($($name:ident($($arg:ident: $kind:ty),*) -> $value:ty;)*) => {
        $(fn $name<'a>(&'a self, $($arg: $kind),*) -> StoreFuture<'a, $value> {
            match self.is_refused(stringify!($name)) {
                true => unavailable(),
                false => self.run(stringify!($name), self.inner.$name($($arg),*)),
            }
        })*
    };
}

impl KeyValueStore for Faulty {
    faulty! {
        get(key: &'a str) -> Option<Vec<u8>>;
        put(key: &'a str, value: Vec<u8>, ttl: Duration) -> ();
        replace(key: &'a str, value: Vec<u8>, ttl: Duration) -> bool;
        claim(key: &'a str, value: Vec<u8>, ttl: Duration) -> bool;
        take(key: &'a str) -> Option<Vec<u8>>;
        remove(key: &'a str) -> ();
    }

    fn is_shared(&self) -> bool {
        true
    }
}

impl SharedState for Faulty {
    faulty! {
        touch(key: &'a str, ttl: Duration) -> Option<Vec<u8>>;
        swap(key: &'a str, expected: &'a [u8], value: Vec<u8>, ttl: Duration) -> bool;
        release(key: &'a str, expected: &'a [u8]) -> bool;
        add(key: &'a str, amount: u64, ttl: Duration) -> u64;
        append(log: &'a str, position: u64, entry: Vec<u8>, limits: LogLimits) -> bool;
        entries(log: &'a str, after: u64, limit: usize) -> Vec<(u64, Vec<u8>)>;
        renew(log: &'a str, ttl: Duration) -> bool;
        join(set: &'a str, member: &'a str, ttl: Duration) -> ();
        leave(set: &'a str, member: &'a str) -> ();
        members(set: &'a str) -> Vec<String>;
        publish(channel: &'a str, message: Vec<u8>) -> ();
        subscribe(channels: &'a [String]) -> Box<dyn Subscription>;
    }
}
