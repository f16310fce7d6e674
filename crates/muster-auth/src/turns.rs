//! One at a time, for each name: whoever comes second finds what the first has done.

use std::{collections::BTreeMap, sync::Arc};

use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::lock::Lock;

/// Turns by name.
#[derive(Debug, Default)]
pub(crate) struct Turns(Lock<BTreeMap<String, Arc<Mutex<()>>>>);

impl Turns {
    /// Waits for the turn. It ends when the guard is dropped.
    pub(crate) async fn wait(&self, name: &str) -> OwnedMutexGuard<()> {
        let turn = {
            let mut turns = self.0.lock();
            // Those that nobody holds or waits for any more.
            turns.retain(|_, turn| Arc::strong_count(turn) > 1);
            Arc::clone(turns.entry(name.to_owned()).or_default())
        };
        turn.lock_owned().await
    }
}
