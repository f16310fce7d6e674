//! Logins against scripted peers over real sockets.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

#[path = "suite/ssrf.rs"]
mod ssrf;
