//! The commands: words, tables and exit codes around the library crates.
//!
//! **Invariant:** no behaviour lives here. A command reads what was typed, calls a library, and
//! prints what came of it.

mod agent;
pub mod bundled;
pub mod cli;
pub mod climax;
mod commands;
pub mod contexts;
mod doctor;
mod entry;
pub mod env_vars;
pub mod error;
mod import;
mod listen;
pub mod log;
pub mod login;
mod models;
pub mod output;
mod process;
pub mod remote;
mod secrets;
