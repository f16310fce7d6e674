//! A client of a running gateway for people: what it says while it connects, and the REPL.

pub(crate) mod connection;
pub(crate) mod console;
pub(crate) mod repl;
