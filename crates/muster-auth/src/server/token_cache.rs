//! A cache of validated tokens: a request with a known token costs one digest and one lookup.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use muster_core::credentials::Principal;
use tokio::time::Instant;

/// The maximum number of cached tokens: anybody can send new ones.
const MAX_ENTRIES: usize = 50_000;

/// The SHA-256 digest of a token.
pub(super) type Digest = [u8; 32];

/// The result of validating a token.
#[derive(Debug, Clone)]
pub(super) enum Validation {
    Valid(Arc<Principal>),
    Invalid,
}

#[derive(Debug)]
struct CachedToken {
    /// When the validation began.
    begun: Instant,
    expires: Instant,
    validation: Validation,
}

/// A cache of validated tokens by their digests.
#[derive(Debug, Default)]
pub(super) struct TokenCache(RwLock<State>);

#[derive(Debug, Default)]
struct State {
    entries: BTreeMap<Digest, CachedToken>,
    /// When tokens of a login were last evicted.
    evicted: Option<Instant>,
}

impl TokenCache {
    /// Returns the cached validation of a token, unless its TTL has passed.
    pub(super) fn get(&self, digest: &Digest) -> Option<Validation> {
        let state = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let entry = state.entries.get(digest)?;
        (entry.expires > Instant::now()).then(|| entry.validation.clone())
    }

    /// Returns a validation that began after `moment`, whatever its TTL. For a caller that arrived at `moment` it is as
    /// good as a new one.
    pub(super) fn validated_since(&self, digest: &Digest, moment: Instant) -> Option<Validation> {
        let state = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let entry = state.entries.get(digest).filter(|entry| entry.begun >= moment)?;
        Some(entry.validation.clone())
    }

    /// Whether a token was valid when it was last validated, however long ago.
    pub(super) fn was_valid(&self, digest: &Digest) -> bool {
        let state = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let entry = state.entries.get(digest);
        entry.is_some_and(|entry| matches!(entry.validation, Validation::Valid(_)))
    }

    /// Caches a validation that began at `begun`.
    pub(super) fn put(
        &self,
        digest: Digest,
        validation: Validation,
        begun: Instant,
        ttl: Duration,
    ) {
        let now = Instant::now();
        let mut state = self.0.write().unwrap_or_else(PoisonError::into_inner);
        // A login has ended during the validation, and it may be the login of this token.
        if state.evicted.is_some_and(|evicted| evicted >= begun) {
            return;
        }
        let entries = &mut state.entries;
        if entries.len() >= MAX_ENTRIES {
            entries.retain(|_, entry| entry.expires > now);
        }
        if entries.len() >= MAX_ENTRIES {
            entries.clear();
        }
        entries.insert(digest, CachedToken { begun, expires: now + ttl, validation });
    }

    /// Evicts all tokens of a login, also those that are being validated.
    pub(super) fn evict_login(&self, login: &str) {
        let mut state = self.0.write().unwrap_or_else(PoisonError::into_inner);
        state.evicted = Some(Instant::now());
        state.entries.retain(|_, entry| match &entry.validation {
            Validation::Valid(principal) => &*principal.login != login,
            Validation::Invalid => true,
        });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::{TokenCache, Validation};

    #[test]
    fn a_validation_that_began_before_a_logout_is_not_cached() {
        let (cache, minute) = (TokenCache::default(), Duration::from_secs(60));
        let before = Instant::now();
        cache.evict_login("login");
        cache.put([1; 32], Validation::Invalid, before, minute);
        assert!(cache.get(&[1; 32]).is_none());
        let after = Instant::now() + Duration::from_nanos(1);
        cache.put([1; 32], Validation::Invalid, after, minute);
        assert!(cache.get(&[1; 32]).is_some());
    }
}
