//! The priority of a thread.

use crate::platform;

/// Lets all other threads go first, for as long as the calling thread lives. Where priorities are those of
/// processes, nothing changes.
pub fn lower() {
    platform::lower_thread_priority();
}
