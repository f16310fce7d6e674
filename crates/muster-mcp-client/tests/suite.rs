//! Tests of the client side, against servers of both eras on every wire.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    unreachable_pub,
    reason = "tests reply what they expect"
)]

mod suite {
    mod authorization;
    mod both_eras;
    mod bridge;
    mod failures;
    pub(crate) mod harness;
    pub(crate) mod http_server;
    mod http_sse;
    mod matrix;
    mod mtls;
    mod unusual_servers;
}
