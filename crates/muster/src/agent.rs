//! The interactive client of a running gateway: its connection, its console and the REPL.

pub(crate) mod connection;
pub(crate) mod console;
pub(crate) mod repl;
