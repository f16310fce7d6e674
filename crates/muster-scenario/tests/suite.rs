//! The tester from outside: its mocks, whole runs, and a fake muster with injected defects.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test may panic"
)]

#[path = "suite/defects.rs"]
mod defects;
#[path = "suite/docs.rs"]
mod docs;
#[path = "suite/given_scenarios.rs"]
mod given_scenarios;
#[path = "suite/http_client.rs"]
mod http_client;
#[path = "suite/mocks.rs"]
mod mocks;
#[path = "suite/oauth.rs"]
mod oauth;
#[path = "suite/protected_mocks.rs"]
mod protected_mocks;
#[path = "suite/runs.rs"]
mod runs;
#[path = "suite/support.rs"]
mod support;
