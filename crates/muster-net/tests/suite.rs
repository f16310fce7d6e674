//! The dialer and the HTTP client over real sockets.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

#[path = "suite/ssrf.rs"]
mod ssrf;
#[path = "suite/tls.rs"]
mod tls;
