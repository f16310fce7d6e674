//! Logins against scripted peers over real sockets.

#[path = "suite/ssrf.rs"]
mod ssrf;
