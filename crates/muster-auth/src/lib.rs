//! Logins: of the gateway's own clients, and of the gateway at the servers behind it.
//!
//! **Invariant:** tokens and client secrets have their one address here. Everyone else sees a
//! `Principal`, and a `Bearer` that prints as nothing.

pub mod client;
pub mod clock;
pub mod jwks;
pub mod jwt;
pub mod random;
pub mod secret;
pub mod server;
pub mod store;
mod turns;

use muster_core::lock;
