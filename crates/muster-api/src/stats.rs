//! `core_stats`.

use serde::{Deserialize, Serialize};

use crate::state::BackendState;

/// The reply of `core_stats`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Stats {
    /// How long the gateway has been running.
    pub uptime_seconds: u64,
    /// The backends, by name.
    pub backends: Vec<BackendStats>,
}

/// The calls of one backend since the gateway started.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BackendStats {
    /// Its name.
    pub name: String,
    /// Its state.
    pub state: BackendState,
    /// The number of its tools.
    pub tools: usize,
    /// All calls.
    pub calls: u64,
    /// Calls in progress.
    pub running: u64,
    /// Calls that failed.
    pub failed: u64,
    /// Calls that were cancelled.
    pub cancelled: u64,
    /// The average duration in milliseconds.
    pub average_ms: f64,
    /// The 95th percentile of the duration in milliseconds.
    pub p95_ms: f64,
    /// The longest duration in milliseconds.
    pub longest_ms: f64,
}
