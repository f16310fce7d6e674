//! The commands: argument parsing, output and exit codes around the library crates.
//!
//! **Invariant:** this crate has no behaviour of its own. A command parses its arguments, calls a
//! library and prints the result.

mod access_rules;
mod agent;
pub mod bundled;
pub mod cli;
pub mod climax;
mod commands;
mod entry;
pub mod error;
mod listen;
pub mod log;
pub mod output;
mod process;
mod terminal;
mod tokenizer;
