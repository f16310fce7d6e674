//! From the configurations of MCP clients to muster's own, and back into them.
//!
//! ```text
//! clients ── a file ──▶ read ── servers ──▶ plan ── secrets moved, names settled ──▶ files
//! ```

pub(crate) mod clients;
pub(crate) mod copy;
pub(crate) mod edit;
pub(crate) mod jsonc;
pub(crate) mod plan;
pub(crate) mod read;
pub(crate) mod sensitive;
