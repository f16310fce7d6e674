//! Runs real processes and checks that none survives.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test may panic"
)]

#[path = "suite/crashes.rs"]
mod crashes;
#[path = "suite/exits.rs"]
mod exits;
#[path = "suite/logs.rs"]
mod logs;
#[path = "suite/output.rs"]
mod output;
#[path = "suite/starts.rs"]
mod starts;
#[path = "suite/support.rs"]
mod support;
#[path = "suite/trees.rs"]
mod trees;
