//! The replies of the gateway's own tools, as types.
//!
//! The engine serializes them, the command line deserializes and renders them. Keys and their order are a
//! contract with other clients. Unknown keys and keywords are ignored, so that an older command line reads the
//! replies of a newer gateway.
//!
//! **Invariant:** values only. Tools that confirm an operation reply with plain text and have no type here; their
//! errors are text with [`error::ErrorDetails`] beside it.

pub mod access;
pub mod auth;
pub mod calls;
pub mod config;
pub mod error;
pub mod event;
pub mod execution;
pub mod keyword;
pub mod mcp_server;
pub mod policy;
pub mod search;
pub mod service;
pub mod service_class;
pub mod state;
pub mod stats;
pub mod workflow;

use serde::{Deserialize, Serialize};
use state::BackendState;

/// The reply of `core_workflow_available` and `core_serviceclass_available`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Availability {
    /// Whether all required tools can be called.
    pub available: bool,
    /// The name of the workflow or service class.
    pub name: String,
    /// The tools that cannot be called.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing_tools: Vec<String>,
    /// The servers of those tools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unavailable: Vec<UnavailableServer>,
    /// The reasons for those that are missing for another one than their server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<MissingTool>,
}

/// A tool that cannot be called for another reason than its server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MissingTool {
    /// Its name.
    pub tool: String,
    /// Why it cannot be called.
    pub reason: String,
    /// What to do. It may end with a step (`muster_core::next_step`).
    pub hint: String,
}

/// A server whose tools cannot be called now.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UnavailableServer {
    /// Its name.
    pub server: String,
    /// Its state.
    pub state: BackendState,
    /// Its last error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What an agent can do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde requires")]
const fn is_false(flag: &bool) -> bool {
    !*flag
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde requires")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}
