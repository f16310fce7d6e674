//! From the configurations of MCP clients to muster's own, and back into them.
//!
//! ```text
//! clients ── a file ──▶ read ── servers ──▶ plan ── secrets moved, names settled ──▶ files
//! ```

pub mod client_config;
pub mod clients;
mod copy;
mod jsonc;
pub mod plan;
pub mod read;
mod secret_detection;
