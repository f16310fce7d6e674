//! Running programs: from a command to its output, and never a process left behind.
//!
//! The gateway starts no tool itself. It starts one small helper, the *launcher*, which is the same
//! program again in another role ([`serve`]), and asks it over a socket ([`launcher`]). The helper is
//! the parent of everything that runs. It stays small, so starting a process stays cheap however
//! much the gateway holds in memory; and it outlives the gateway for the moment it takes to end what
//! is still running, however the gateway died.
//!
//! **Invariant:** every process that a tool starts, at any depth, is below a launcher, and a launcher
//! whose gateway is gone ends all of them before it ends itself.

pub mod argv;
pub mod browser;
mod capture;
pub mod child;
pub mod cli;
pub mod command;
pub mod environment;
pub mod launcher;
mod link;
pub mod lookup;
pub mod pages;
pub mod run;
pub mod serve;
pub mod spill;
mod tree;
mod wire;

use muster_core::lock;
