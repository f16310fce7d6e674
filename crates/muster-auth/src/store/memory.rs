//! Logins in this process; they end with it.

use std::{collections::BTreeMap, time::Duration};

use super::{Outcome, Store, StoreError};
use crate::{clock::Clock, lock::Lock};

/// Strangers can make us keep things (flows, registrations), so there is an end to it.
const MOST: usize = 200_000;

/// Logins in this process.
#[derive(Debug)]
pub struct Memory {
    clock: Clock,
    held: Lock<BTreeMap<String, Held>>,
}

#[derive(Debug)]
struct Held {
    value: Vec<u8>,
    until: u64,
}

impl Memory {
    /// An empty one.
    pub fn new(clock: Clock) -> Self {
        Self { clock, held: Lock::default() }
    }

    fn keep(
        &self,
        name: &str,
        value: Vec<u8>,
        keep: Duration,
        over: bool,
    ) -> Result<bool, StoreError> {
        let now = self.clock.now();
        let mut held = self.held.lock();
        if !over && held.get(name).is_some_and(|held| held.until > now) {
            return Ok(false);
        }
        if held.len() >= MOST && !held.contains_key(name) {
            held.retain(|_, held| held.until > now);
            if held.len() >= MOST {
                return Err(StoreError::Away("it is full".to_owned()));
            }
        }
        held.insert(name.to_owned(), Held { value, until: now.saturating_add(keep.as_secs()) });
        Ok(true)
    }
}

impl Store for Memory {
    fn get<'a>(&'a self, name: &'a str) -> Outcome<'a, Option<Vec<u8>>> {
        let now = self.clock.now();
        let held = self.held.lock();
        let value = held.get(name).filter(|held| held.until > now).map(|held| held.value.clone());
        Box::pin(std::future::ready(Ok(value)))
    }

    fn put<'a>(&'a self, name: &'a str, value: Vec<u8>, keep: Duration) -> Outcome<'a, ()> {
        Box::pin(std::future::ready(self.keep(name, value, keep, true).map(drop)))
    }

    fn claim<'a>(&'a self, name: &'a str, value: Vec<u8>, keep: Duration) -> Outcome<'a, bool> {
        Box::pin(std::future::ready(self.keep(name, value, keep, false)))
    }

    fn take<'a>(&'a self, name: &'a str) -> Outcome<'a, Option<Vec<u8>>> {
        let now = self.clock.now();
        let value = self.held.lock().remove(name).filter(|held| held.until > now);
        Box::pin(std::future::ready(Ok(value.map(|held| held.value))))
    }

    fn remove<'a>(&'a self, name: &'a str) -> Outcome<'a, ()> {
        drop(self.held.lock().remove(name));
        Box::pin(std::future::ready(Ok(())))
    }

    fn is_shared(&self) -> bool {
        false
    }
}
