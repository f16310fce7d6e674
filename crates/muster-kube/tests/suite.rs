//! The adapter against a hand-made API server, at the wire.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

#[path = "suite/definitions.rs"]
mod definitions;
#[path = "suite/executions.rs"]
mod executions;
#[path = "suite/fake.rs"]
mod fake;
#[path = "suite/writes.rs"]
mod writes;
