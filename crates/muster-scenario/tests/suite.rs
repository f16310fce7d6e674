//! The tester from outside: mocks spoken to, scenarios run, and a muster that lies.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that cannot go on should fail where it stands"
)]

#[path = "suite/docs.rs"]
mod docs;
#[path = "suite/doors.rs"]
mod doors;
#[path = "suite/lies.rs"]
mod lies;
#[path = "suite/mocks.rs"]
mod mocks;
#[path = "suite/oauth.rs"]
mod oauth;
#[path = "suite/runs.rs"]
mod runs;
#[path = "suite/shared.rs"]
mod shared;
#[path = "suite/support.rs"]
mod support;
#[path = "suite/web.rs"]
mod web;
