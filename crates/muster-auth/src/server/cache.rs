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
pub(super) struct Cache(RwLock<Found>);

#[derive(Debug, Default)]
struct Found {
    entries: BTreeMap<Digest, Entry>,
    /// When a login was last forgotten.
    forgot: Option<Instant>,
}

impl Cache {
    /// What was found out, if that is not too long ago.
    pub(super) fn get(&self, digest: &Digest) -> Option<Judged> {
        let held = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let entry = held.entries.get(digest)?;
        (entry.until > Instant::now()).then(|| entry.judged.clone())
    }

    /// What was found out by somebody who began no earlier than this: as good as to ask oneself.
    pub(super) fn found_since(&self, digest: &Digest, moment: Instant) -> Option<Judged> {
        let held = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let entry = held.entries.get(digest).filter(|entry| entry.begun >= moment)?;
        Some(entry.judged.clone())
    }

    /// Remembers what was found out, for a time.
    pub(super) fn put(&self, digest: Digest, judged: Judged, begun: Instant, keep: Duration) {
        let now = Instant::now();
        let mut held = self.0.write().unwrap_or_else(PoisonError::into_inner);
        // It may be the login that was forgotten meanwhile.
        if held.forgot.is_some_and(|forgot| forgot >= begun) {
            return;
        }
        let entries = &mut held.entries;
        if entries.len() >= MOST {
            entries.retain(|_, entry| entry.until > now);
        }
        if entries.len() >= MOST {
            entries.clear();
        }
        entries.insert(digest, Entry { begun, until: now + keep, judged });
    }

    /// Forgets all tokens of a login, also those that are being judged.
    pub(super) fn forget(&self, login: &str) {
        let mut held = self.0.write().unwrap_or_else(PoisonError::into_inner);
        held.forgot = Some(Instant::now());
        held.entries.retain(|_, entry| match &entry.judged {
            Judged::Good(principal) => &*principal.login != login,
            Judged::Bad => true,
        });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::{Cache, Judged};

    #[test]
    fn what_was_judged_before_a_login_ended_is_not_remembered() {
        let (cache, minute) = (Cache::default(), Duration::from_secs(60));
        let before = Instant::now();
        cache.forget("login");
        cache.put([1; 32], Judged::Bad, before, minute);
        assert!(cache.get(&[1; 32]).is_none());
        let after = Instant::now() + Duration::from_nanos(1);
        cache.put([1; 32], Judged::Bad, after, minute);
        assert!(cache.get(&[1; 32]).is_some());
    }
}
