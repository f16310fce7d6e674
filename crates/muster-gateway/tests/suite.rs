//! The call path and the surfaces over scripted backends.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::needless_pass_by_value,
    reason = "a test may panic"
)]

#[path = "suite/dispatch.rs"]
mod dispatch;
#[path = "suite/surfaces.rs"]
mod surfaces;
#[path = "suite/world.rs"]
mod world;
