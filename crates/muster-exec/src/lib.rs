//! Child processes: starting them, capturing their output, and never leaving one behind.
//!
//! The gateway does not start tools itself. It starts one small helper, the *launcher*: the same binary in
//! another role ([`serve`]), driven over a socket ([`launcher`]). The launcher is the parent of every
//! command. It stays small, so starting a process is cheap however much memory the gateway holds; and
//! when the gateway dies, even by `SIGKILL`, it lives just long enough to end what is still running.
//!
//! **Invariant:** every process that a tool starts, at any depth, descends from a launcher, and a launcher
//! whose gateway is gone ends all of them before it exits.

pub mod argv;
pub mod browser;
mod capture;
pub mod child;
pub mod cli;
pub mod command;
pub mod credential_files;
pub mod descriptors;
pub mod detached;
pub mod environment;
pub mod launcher;
mod link;
pub mod lookup;
pub mod pages;
mod platform;
pub mod private_dir;
mod protocol;
pub mod replace;
pub mod run;
pub mod serve;
pub mod spill;
pub mod thread_clock;
pub mod thread_priority;
mod tree;

use muster_core::lock;
