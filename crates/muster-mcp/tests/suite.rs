//! The server as clients see it, over real sockets and pipes.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod suite {
    mod client;
    mod endpoint;
    mod fake;
    mod legacy;
    mod life;
    mod modern;
    mod older;
    mod outages;
    mod pipes;
    mod replicas;
}
