//! The room for content blocks in one reply.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// The bytes of all blocks in one reply. Clients refuse results of more than 1 MiB; 64 KiB are for the text.
const MAX_BLOCKS: u64 = 960 * 1024;

/// The room for blocks in one reply. Clones share it.
#[derive(Debug, Clone)]
pub(in crate::surface::meta) struct BlockRoom(Arc<AtomicU64>);

impl Default for BlockRoom {
    fn default() -> Self {
        Self(Arc::new(AtomicU64::new(MAX_BLOCKS)))
    }
}

impl BlockRoom {
    /// Reserves room for a block; `false` if it is too large.
    pub(super) fn take(&self, bytes: u64) -> bool {
        let less = |room: u64| room.checked_sub(bytes);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }
}
