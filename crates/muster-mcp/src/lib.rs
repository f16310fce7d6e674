//! The MCP wire: framing, protocol eras, and what each era wants to see.
//!
//! **Invariant:** nobody else knows JSON-RPC, and nothing here knows what a tool does. Bytes come
//! in, a [`muster_core::request::Request`] goes through, bytes go out.

pub mod client;
pub mod model;
pub mod server;
pub mod stdio;
pub mod version;
pub mod wire;
