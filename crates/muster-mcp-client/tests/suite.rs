//! Tests of the client side, against servers of both eras on every wire.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    unreachable_pub,
    reason = "tests say what they expect"
)]

mod suite {
    mod bridge;
    mod matrix;
    mod mtls;
    mod odd;
    mod sse;
    mod tokens;
    pub(crate) mod web;
    pub(crate) mod world;
    mod wrong;
}
