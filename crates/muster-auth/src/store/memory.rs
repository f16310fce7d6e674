//! Logins in this process; they end with it.

use std::{collections::BTreeMap, time::Duration};

use super::{Outcome, Store, StoreError};
use crate::{clock::Clock, lock::Lock};

/// Strangers can make us keep things (flows, registrations), so there is an end to it.
const MOST: usize = 200_000;
/// And to how large it is all together.
const MOST_BYTES: usize = 128 * 1024 * 1024;
/// What is kept for no longer than this is what strangers begin: logins under way. It may take half of the
/// room, so that those who are logged in do not notice when it is full.
const BRIEF: Duration = Duration::from_secs(15 * 60);
/// How often what has ended is looked for, in seconds.
const SWEEP: u64 = 60;
/// What an entry takes beside its name and its value.
const ENTRY: usize = 100;

/// Logins in this process.
#[derive(Debug)]
pub struct Memory {
    clock: Clock,
    held: Lock<Everything>,
    most_bytes: usize,
}

#[derive(Debug, Default)]
struct Everything {
    entries: BTreeMap<String, Held>,
    /// What all of it takes, and what the brief part of it takes.
    bytes: usize,
    brief: usize,
    /// When what had ended was last looked for.
    swept: u64,
}

#[derive(Debug)]
struct Held {
    value: Vec<u8>,
    until: u64,
    is_brief: bool,
}

impl Held {
    fn size(&self, name: &str) -> usize {
        name.len() + self.value.len() + ENTRY
    }
}

impl Everything {
    fn get(&self, name: &str, now: u64) -> Option<&Held> {
        self.entries.get(name).filter(|held| held.until > now)
    }

    fn insert(&mut self, name: &str, held: Held) {
        self.remove(name);
        let size = held.size(name);
        self.bytes += size;
        if held.is_brief {
            self.brief += size;
        }
        self.entries.insert(name.to_owned(), held);
    }

    fn remove(&mut self, name: &str) -> Option<Held> {
        let held = self.entries.remove(name)?;
        let size = held.size(name);
        self.bytes -= size;
        if held.is_brief {
            self.brief -= size;
        }
        Some(held)
    }

    /// Whether there is room for something beside what is there.
    fn has_room(&self, name: &str, held: &Held, most_bytes: usize) -> bool {
        let (count, size) = (self.entries.len() + 1, held.size(name));
        let all = count <= MOST && self.bytes + size <= most_bytes;
        let brief = count <= MOST / 2 && self.brief + size <= most_bytes / 2;
        all && (brief || !held.is_brief)
    }

    fn sweep(&mut self, now: u64) {
        self.swept = now;
        let ended: Vec<String> = self
            .entries
            .iter()
            .filter(|(_, held)| held.until <= now)
            .map(|(name, _)| name.clone())
            .collect();
        for name in ended {
            self.remove(&name);
        }
    }
}

impl Memory {
    /// An empty one.
    pub fn new(clock: Clock) -> Self {
        Self { clock, held: Lock::default(), most_bytes: MOST_BYTES }
    }

    /// Keeps something, if it may: that goes by whether something is there.
    fn keep(
        &self,
        name: &str,
        value: Vec<u8>,
        keep: Duration,
        may: fn(bool) -> bool,
    ) -> Result<bool, StoreError> {
        let now = self.clock.now();
        let until = now.saturating_add(keep.as_secs());
        let new = Held { value, until, is_brief: keep <= BRIEF };
        let mut held = self.held.lock();
        if !may(held.get(name, now).is_some()) {
            return Ok(false);
        }
        let full = !held.has_room(name, &new, self.most_bytes);
        // When it is full, not with every request: there is much to look at.
        if now >= held.swept.saturating_add(SWEEP) || full && now > held.swept {
            held.sweep(now);
        }
        let is_there = held.entries.contains_key(name);
        if !is_there && !held.has_room(name, &new, self.most_bytes) {
            return Err(StoreError::Away("it is full".to_owned()));
        }
        held.insert(name, new);
        Ok(true)
    }
}

impl Store for Memory {
    fn get<'a>(&'a self, name: &'a str) -> Outcome<'a, Option<Vec<u8>>> {
        let now = self.clock.now();
        let value = self.held.lock().get(name, now).map(|held| held.value.clone());
        Box::pin(std::future::ready(Ok(value)))
    }

    fn put<'a>(&'a self, name: &'a str, value: Vec<u8>, keep: Duration) -> Outcome<'a, ()> {
        Box::pin(std::future::ready(self.keep(name, value, keep, |_| true).map(drop)))
    }

    fn replace<'a>(&'a self, name: &'a str, value: Vec<u8>, keep: Duration) -> Outcome<'a, bool> {
        Box::pin(std::future::ready(self.keep(name, value, keep, |is_there| is_there)))
    }

    fn claim<'a>(&'a self, name: &'a str, value: Vec<u8>, keep: Duration) -> Outcome<'a, bool> {
        Box::pin(std::future::ready(self.keep(name, value, keep, |is_there| !is_there)))
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

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            Arc,
            atomic::{AtomicU64, Ordering},
        },
        time::Duration,
    };

    use super::{Memory, Store as _};
    use crate::clock::Clock;

    const MINUTES: Duration = Duration::from_secs(10 * 60);
    const DAYS: Duration = Duration::from_secs(30 * 24 * 3600);

    /// Room for twenty entries of a thousand bytes, and a time that can be moved.
    fn small() -> (Memory, Arc<AtomicU64>) {
        let time = Arc::new(AtomicU64::new(1000));
        let told = Arc::clone(&time);
        let clock = Clock::new(move || told.load(Ordering::Relaxed));
        (Memory { most_bytes: 20_000, ..Memory::new(clock) }, time)
    }

    async fn fits(memory: &Memory, name: &str, keep: Duration) -> bool {
        let value = vec![0; 900 - name.len()];
        memory.put(name, value, keep).await.is_ok()
    }

    #[tokio::test]
    async fn strangers_leave_room_for_those_who_are_in() {
        let (memory, time) = small();
        for number in 0..30 {
            let fit = fits(&memory, &format!("flow{number:02}"), MINUTES).await;
            assert_eq!(fit, number < 10, "{number}");
        }
        for number in 0..30 {
            let fit = fits(&memory, &format!("login{number:02}"), DAYS).await;
            assert_eq!(fit, number < 10, "{number}");
        }
        // What is there can be written anew, and what is taken out leaves its room.
        assert!(fits(&memory, "login00", DAYS).await && fits(&memory, "flow00", MINUTES).await);
        assert!(memory.take("flow00").await.unwrap().is_some());
        assert!(fits(&memory, "another", MINUTES).await);
        assert!(!fits(&memory, "one more", MINUTES).await);
        // What has ended makes room by itself.
        time.fetch_add(601, Ordering::Relaxed);
        assert!(fits(&memory, "one more", MINUTES).await);
        let held = memory.held.lock();
        assert_eq!((held.entries.len(), held.bytes, held.brief), (11, 11_000, 1000));
    }

    #[tokio::test]
    async fn what_has_ended_is_not_kept_until_there_is_no_room() {
        let (memory, time) = small();
        assert!(fits(&memory, "flow", MINUTES).await);
        time.fetch_add(601, Ordering::Relaxed);
        assert!(fits(&memory, "other", MINUTES).await);
        assert_eq!(memory.held.lock().entries.len(), 1);
        assert!(memory.claim("flow", vec![1], MINUTES).await.unwrap());
        assert!(!memory.claim("flow", vec![2], MINUTES).await.unwrap());
        assert!(memory.replace("flow", vec![3], MINUTES).await.unwrap());
        memory.remove("flow").await.unwrap();
        assert!(!memory.replace("flow", vec![4], MINUTES).await.unwrap());
        assert!(memory.get("flow").await.unwrap().is_none());
        memory.remove("other").await.unwrap();
        let held = memory.held.lock();
        assert_eq!((held.bytes, held.brief), (0, 0));
    }
}
