//! Running real processes, and counting the survivors.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that cannot go on should fail where it stands"
)]

#[path = "suite/deaths.rs"]
mod deaths;
#[path = "suite/endings.rs"]
mod endings;
#[path = "suite/logs.rs"]
mod logs;
#[path = "suite/starts.rs"]
mod starts;
#[path = "suite/streams.rs"]
mod streams;
#[path = "suite/support.rs"]
mod support;
#[path = "suite/trees.rs"]
mod trees;
