//! A mutex that is held for a moment.
//!
//! **Invariant:** it is held for the length of a few lines that cannot panic and never across an
//! `await`, so a poisoned lock carries no broken state and is simply taken.

use std::sync::{MutexGuard, PoisonError};

#[expect(
    clippy::disallowed_types,
    reason = "what is given up by drop is given up where nothing can be awaited"
)]
type Mutex<T> = std::sync::Mutex<T>;

/// A value that several tasks change, each for a moment.
#[derive(Debug, Default)]
pub struct Lock<T>(Mutex<T>);

impl<T> Lock<T> {
    /// A lock around `value`.
    pub const fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    /// Waits for whoever has the value, and has it until the guard is dropped.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
