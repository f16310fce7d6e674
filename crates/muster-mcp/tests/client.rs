//! Tests of the client side, against servers of both eras on every wire.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    unreachable_pub,
    reason = "tests say what they expect"
)]

#[path = "client/machines.rs"]
mod machines;
#[path = "client/matrix.rs"]
mod matrix;
#[path = "client/odd.rs"]
mod odd;
#[path = "client/sse.rs"]
mod sse;
#[path = "client/tokens.rs"]
mod tokens;
#[path = "client/web.rs"]
mod web;
#[path = "client/world.rs"]
mod world;
#[path = "client/wrong.rs"]
mod wrong;
