//! The commands: words, tables and exit codes around the library crates.
//!
//! **Invariant:** no behaviour lives here. A command reads what was typed, calls a library, and
//! prints what came of it.

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
