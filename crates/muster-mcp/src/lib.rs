//! The MCP wire: framing, protocol eras, and what each era wants to see.
//!
//! **Invariant:** nobody else knows JSON-RPC, and nothing here knows what a tool does. Bytes come
//! in, a [`muster_core::request::Request`] goes through, bytes go out.

mod back;
pub mod headers;
pub mod http;
mod incoming;
mod level;
mod listen;
mod model;
pub mod param_headers;
mod questions;
pub mod server;
mod session;
pub mod stdio;
mod steady;
pub mod version;
mod watched;
pub mod wire;

use muster_core::lock;
