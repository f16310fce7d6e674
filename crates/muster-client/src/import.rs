//! Imports servers from the configurations of MCP clients, and adds muster to those configurations.
//!
//! ```text
//! clients ── a file ──▶ read ── items ──▶ plan ── secrets moved out, names made unique ──▶ files
//! ```

pub mod client_config;
pub mod clients;
mod copy;
pub mod moved_secrets;
pub mod plan;
pub mod read;
pub mod replace;
