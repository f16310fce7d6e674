//! Authentication: of the gateway's own clients, and of the gateway at the servers behind it.
//!
//! **Invariant:** only this crate holds tokens and client secrets. Other crates see a `Principal`, and a
//! `BearerToken` that never prints its value.

pub mod access;
pub mod client;
pub mod jwks;
pub mod jwt;
mod keyed_lock;
pub mod oauth;
pub mod page;
pub mod principal_list;
pub mod private_file;
pub mod random;
pub mod server;

pub use muster_core::secret;
use muster_core::{lock, text};
pub use muster_shared::{self as store, clock};
