//! The one mutex of this crate.
//!
//! **Invariant:** it is held for the length of a few lines that cannot panic and never across an
//! `await`, so a poisoned lock carries no broken state and is simply taken.

use std::sync::{MutexGuard, PoisonError};

#[expect(
    clippy::disallowed_types,
    reason = "what requests share is changed for a moment, and nothing is awaited meanwhile"
)]
type Mutex<T> = std::sync::Mutex<T>;

/// A value that several tasks change, each for a moment.
#[derive(Debug, Default)]
pub(crate) struct Lock<T>(Mutex<T>);

impl<T> Lock<T> {
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
