//! Tokens that were judged a moment ago. With it, a call costs one digest and one look.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use muster_core::credentials::Principal;
use tokio::time::Instant;

/// Strangers can fill it, so there is an end to it.
const MOST: usize = 50_000;

/// Digest of a token.
pub(super) type Digest = [u8; 32];

/// What was found out about a token.
#[derive(Debug, Clone)]
pub(super) enum Judged {
    Good(Arc<Principal>),
    Bad,
}

/// When it was begun to find out, until when that holds, and what it is.
#[derive(Debug)]
struct Entry {
    begun: Instant,
    until: Instant,
    judged: Judged,
}

#[derive(Debug, Default)]
pub(super) struct Cache(RwLock<BTreeMap<Digest, Entry>>);

impl Cache {
    /// What was found out, if that is not too long ago.
    pub(super) fn get(&self, digest: &Digest) -> Option<Judged> {
        let held = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let entry = held.get(digest)?;
        (entry.until > Instant::now()).then(|| entry.judged.clone())
    }

    /// What was found out by somebody who began no earlier than this: as good as to ask oneself.
    pub(super) fn found_since(&self, digest: &Digest, moment: Instant) -> Option<Judged> {
        let held = self.0.read().unwrap_or_else(PoisonError::into_inner);
        held.get(digest).filter(|entry| entry.begun >= moment).map(|entry| entry.judged.clone())
    }

    /// Remembers what was found out, for a time.
    pub(super) fn put(&self, digest: Digest, judged: Judged, begun: Instant, keep: Duration) {
        let now = Instant::now();
        let mut held = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if held.len() >= MOST {
            held.retain(|_, entry| entry.until > now);
        }
        if held.len() >= MOST {
            held.clear();
        }
        held.insert(digest, Entry { begun, until: now + keep, judged });
    }

    /// Forgets all tokens of a login.
    pub(super) fn forget(&self, login: &str) {
        let mut held = self.0.write().unwrap_or_else(PoisonError::into_inner);
        held.retain(|_, entry| match &entry.judged {
            Judged::Good(principal) => &*principal.login != login,
            Judged::Bad => true,
        });
    }
}
