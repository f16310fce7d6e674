//! The client side of muster: everything that a program needs to reach and set up a gateway for its user.
//!
//! **Invariant:** this crate neither prints nor reads a terminal or a command line. Failures are values; the
//! `muster` command turns them into messages, hints and exit codes.

pub mod bridge;
pub mod bundled_clis;
pub mod connect;
pub mod console;
pub mod contexts;
pub mod doctor;
pub mod env_vars;
pub mod import;
pub mod inventory;
pub mod local_gateway;
pub mod login;
pub mod models;
pub mod remote;
pub mod secrets;
pub mod user_dirs;
