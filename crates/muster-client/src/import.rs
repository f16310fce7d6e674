//! From the configurations of MCP clients to muster's own, and back into them.
//!
//! ```text
//! clients ── a file ──▶ read ── servers ──▶ plan ── secrets moved, names settled ──▶ files
//! ```

pub mod clients;
mod copy;
pub mod edit;
mod jsonc;
pub mod plan;
pub mod read;
mod sensitive;
