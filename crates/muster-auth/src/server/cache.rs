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

#[derive(Debug, Default)]
pub(super) struct Cache(RwLock<BTreeMap<Digest, (Instant, Judged)>>);

impl Cache {
    /// What was found out, if that is not too long ago.
    pub(super) fn get(&self, digest: &Digest) -> Option<Judged> {
        let now = Instant::now();
        self.known_at(digest, now).filter(|(until, _)| *until > now).map(|(_, judged)| judged)
    }

    /// What was found out about a token and still held at a moment, if only just.
    pub(super) fn found_since(&self, digest: &Digest, moment: Instant) -> Option<Judged> {
        self.known_at(digest, moment).map(|(_, judged)| judged)
    }

    fn known_at(&self, digest: &Digest, moment: Instant) -> Option<(Instant, Judged)> {
        let held = self.0.read().unwrap_or_else(PoisonError::into_inner);
        held.get(digest).filter(|(until, _)| *until >= moment).cloned()
    }

    /// Remembers what was found out, for a time.
    pub(super) fn put(&self, digest: Digest, judged: Judged, keep: Duration) {
        let now = Instant::now();
        let mut held = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if held.len() >= MOST {
            held.retain(|_, (until, _)| *until > now);
        }
        if held.len() >= MOST {
            held.clear();
        }
        held.insert(digest, (now + keep, judged));
    }

    /// Forgets all tokens of a login.
    pub(super) fn forget(&self, login: &str) {
        let mut held = self.0.write().unwrap_or_else(PoisonError::into_inner);
        held.retain(|_, (_, judged)| match judged {
            Judged::Good(principal) => &*principal.login != login,
            Judged::Bad => true,
        });
    }
}
