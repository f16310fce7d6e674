//! A value that several tasks change, each for a moment.
//!
//! **Invariant:** it is held for the length of a few lines that cannot panic and never across an
//! `await`, so a poisoned lock carries no broken state and is simply taken.

use std::sync::{MutexGuard, PoisonError};

#[expect(
    clippy::disallowed_types,
    reason = "a call may be dropped, and so be cancelled, where nothing can be awaited"
)]
type Mutex<T> = std::sync::Mutex<T>;

#[derive(Debug, Default)]
pub(super) struct Lock<T>(Mutex<T>);

impl<T> Lock<T> {
    pub(super) const fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
