//! The meta surface over scripted backends.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

#[path = "meta/advert.rs"]
mod advert;
#[path = "meta/batch.rs"]
mod batch;
#[path = "meta/bounds.rs"]
mod bounds;
#[path = "meta/budget.rs"]
mod budget;
#[path = "meta/callers.rs"]
mod callers;
#[path = "meta/calls.rs"]
mod calls;
#[path = "meta/fidelity.rs"]
mod fidelity;
#[path = "meta/gateway.rs"]
mod gateway;
#[path = "meta/native.rs"]
mod native;
#[path = "meta/others.rs"]
mod others;
#[path = "meta/projection.rs"]
mod projection;
#[path = "meta/snapshot.rs"]
mod snapshot;
#[path = "meta/steps.rs"]
mod steps;
#[path = "meta/tools.rs"]
mod tools;
#[path = "meta/unavailable.rs"]
mod unavailable;
