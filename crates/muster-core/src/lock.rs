//! The one mutex of the workspace.
//!
//! **Invariant:** the lock is held for a few lines that cannot panic and never across an `await`, so it cannot
//! deadlock. The value behind a poisoned lock is intact, so a poisoned lock is simply taken.

use std::sync::{MutexGuard, PoisonError};

#[expect(
    clippy::disallowed_types,
    reason = "what is given up by drop is given up where nothing can be awaited"
)]
type Mutex<T> = std::sync::Mutex<T>;

/// A mutex for short critical sections.
#[derive(Debug, Default)]
pub struct Lock<T>(Mutex<T>);

impl<T> Lock<T> {
    /// Creates a lock around `value`.
    pub const fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    /// Blocks until the lock is acquired.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
